//! Tests that a dropped stream ends its threads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::OnDisk;
use shardpack_reader::Dataset;
use std::process::Command;
use std::time::Duration;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits until the process has the expected number of threads. The kernel may still list a thread
/// for a moment after it was joined.
fn settle_at(expected: usize) -> usize {
    for _ in 0..10_000 {
        if threads() <= expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    threads()
}

/// Runs the test in its own process, because other tests start and end threads during its counts.
#[test]
fn a_stream_that_is_dropped_early_ends_its_thread() {
    let alone = ["--exact", "stream_threads::its_thread_ends", "--ignored"];
    let output = Command::new(std::env::current_exe().unwrap()).args(alone).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run in a process without other tests, by the test above"]
fn its_thread_ends() {
    let disk = OnDisk::new(&[200, 200]);
    let dataset = Dataset::open(disk.path()).unwrap();
    let before = threads();
    let mut most = 0;
    for taken in 0..50 {
        let mut stream = dataset.stream().unwrap();
        (0..taken).for_each(|_| drop(stream.next_record().unwrap().unwrap()));
        most = most.max(threads());
        drop(stream);
        assert_eq!(settle_at(before), before, "after {taken} records");
    }
    assert!(most > before, "a stream reads in a thread of its own");
}
