//! Cases that could take any amount of memory or time, each in a process of its own with bounds on
//! both.
//!
//! The test binary starts itself again for the one case, in a shell that sets the limits. A parser
//! that asks for too much then dies there, and the test says so. The clock is the CPU's, so that a
//! busy or a slow machine fails nothing. The readers' tests take this file, too.
#![allow(dead_code, reason = "each test binary needs a part of it")]

pub(crate) mod clock;

use std::io::{Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tells a child which case it is.
const CASE: &str = "SHARDPACK_BOUNDED_CASE";

/// Address space of a case, in KiB, where the case does not say.
const MEMORY_KIB: u64 = 1 << 20;

/// CPU time of a case, in seconds, where the case does not say. What is linear takes less than one.
const CPU_SECONDS: u64 = 60;

/// For cases that wait without using the CPU: nobody waits that long for one that is well.
const WALL_SECONDS: u64 = 600;

/// Runs `case` of the test `path`: `concat!(module_path!(), "::name_of_the_test")`.
///
/// # Panics
/// If it fails, or goes over a limit.
pub(crate) fn run(path: &str, case: impl FnOnce()) {
    within(path, MEMORY_KIB, CPU_SECONDS, case);
}

/// As [`run`], with so many KiB of address space and so many seconds of CPU time.
///
/// # Panics
/// As [`run`].
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
        // One thread, and one arena: each reserves address space.
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
    // A name that no test has would pass without a look.
    assert!(out.contains("1 passed"), "{name}: no such test\n{out}");
}

/// Checks that four times as much takes about four times the CPU time, for something that could be
/// quadratic and take sixteen times. `work` is what is measured, on what `prepare` makes; both get
/// `n` or `4 * n`. Only in a case of [`run`], which has the process to itself.
///
/// # Panics
/// If it takes eight times as long.
pub(crate) fn grows_with<T>(n: usize, mut prepare: impl FnMut(usize) -> T, mut work: impl FnMut(usize, &T)) {
    let mut time = |n| {
        let prepared = prepare(n);
        let before = clock::process();
        work(n, &prepared);
        clock::process() - before
    };
    // The first run pays for pages and caches. What a busy machine adds is in the slowest of the
    // small ones, and not in the fastest of the large ones.
    let small = (0..4).map(|_| time(n)).max().expect("runs");
    let large = (0..2).map(|_| time(4 * n)).min().expect("runs");
    assert!(
        large < 8 * small + Duration::from_millis(10),
        "{n} take {small:?}, and {} take {large:?}: more than eight times as long",
        4 * n
    );
}
