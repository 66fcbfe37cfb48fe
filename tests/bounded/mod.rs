//! Runs test cases that could take unbounded memory or time, each in a separate process with limits on both.
//!
//! The test binary starts itself again for a single case, in a shell that sets the limits. A parser that allocates too
//! much then kills only that process. CPU time is limited more tightly than wall time, so that a busy machine causes no
//! failures. Several crates include this file in their tests.
#![allow(dead_code, reason = "each test binary needs a part of it")]

pub(crate) mod clock;

use std::io::{Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CASE: &str = "SHARDPACK_BOUNDED_CASE";

/// Default address space of a case, in KiB.
const MEMORY_KIB: u64 = 1 << 20;

/// Limit on CPU time. A linear case takes less than one second.
const CPU_SECONDS: u64 = 60;

/// Limit on wall time, for cases that hang without using the CPU. A correct case takes far less.
const WALL_SECONDS: u64 = 600;

/// Runs `case` of the test `path`, which is given as `concat!(module_path!(), "::name_of_the_test")`.
///
/// # Panics
/// If the case fails or exceeds a limit.
pub(crate) fn run(path: &str, case: impl FnOnce()) {
    within(path, MEMORY_KIB, CPU_SECONDS, case);
}

/// Like [`run`], with limits of `memory_kib` KiB of address space and `cpu_seconds` seconds of CPU time.
///
/// # Panics
/// If the case fails or exceeds a limit.
pub(crate) fn within(path: &str, memory_kib: u64, cpu_seconds: u64, case: impl FnOnce()) {
    let (_, name) = path.split_once("::").expect("a path below the crate");
    if cfg!(not(unix)) || std::env::var_os(CASE).is_some_and(|running| running == name) {
        return case();
    }
    let script = format!("ulimit -c 0 -v {memory_kib} -t {cpu_seconds} && exec \"$0\" \"$@\"");
    let mut log = tempfile::tempfile().expect("a log");
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .arg(std::env::current_exe().expect("the test binary"))
        .args([name, "--exact", "--nocapture", "--test-threads=1", "--include-ignored"])
        .env(CASE, name)
        // Allow only one thread and one malloc arena. Every additional one reserves address space, and
        // the address space is limited.
        .env("RAYON_NUM_THREADS", "1")
        .env("MALLOC_ARENA_MAX", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log"))
        .spawn()
        .expect("a child");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            break status;
        }
        if started.elapsed() > Duration::from_secs(WALL_SECONDS) {
            child.kill().expect("an end");
            child.wait().expect("a status");
            panic!("{name}: still waiting after {WALL_SECONDS} s");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    log.seek(SeekFrom::Start(0)).expect("the start");
    let out = std::io::read_to_string(log).unwrap_or_default();
    assert!(
        status.success(),
        "{name}: {status} with {memory_kib} KiB of memory and {cpu_seconds} s of CPU time\n{out}"
    );
    // Without this check, a case with a misspelt name would pass without running any test.
    assert!(out.contains("1 passed"), "{name}: no such test\n{out}");
}

/// Checks that four times the input takes about four times the CPU time. Quadratic work would take sixteen
/// times. Measures `work` on the output of `prepare` for the sizes `n` and `4 * n`. Use it only in a case of
/// [`run`], which has its own process.
///
/// # Panics
/// If the larger input takes eight times as long.
pub(crate) fn grows_with<T>(n: usize, mut prepare: impl FnMut(usize) -> T, mut work: impl FnMut(usize, &T)) {
    let mut times = |n, runs| {
        let prepared = prepare(n);
        let time = |_| {
            let before = clock::process();
            work(n, &prepared);
            clock::process() - before
        };
        (0..runs).map(time).collect::<Vec<_>>()
    };
    // Compare the slowest run on the small input with the fastest run on the large one. Page faults, cold caches and
    // other programs then cause no failure.
    let small = times(n, 4).into_iter().max().expect("runs");
    let large = times(4 * n, 2).into_iter().min().expect("runs");
    assert!(
        large < 8 * small + Duration::from_millis(10),
        "{n} take {small:?}, and {} take {large:?}: more than eight times as long",
        4 * n
    );
}
