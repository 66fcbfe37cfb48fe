//! A stream ends its thread. The only test of its process: it counts the threads of it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::OnDisk;
use shardpack_reader::Dataset;
use std::time::Duration;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits for the kernel: a thread that was joined may be listed for a moment still.
fn settle_at(expected: usize) -> usize {
    for _ in 0..10_000 {
        if threads() <= expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    threads()
}

#[test]
fn a_stream_that_is_dropped_early_ends_its_thread() {
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
