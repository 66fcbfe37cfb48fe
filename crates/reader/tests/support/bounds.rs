//! Work in a child process with bounds on memory, processor time and patience: what goes past them is killed, and the test fails.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "SHARDPACK_TEST_CHILD";
/// For work that waits, as for a pipe that nobody writes to: many times what any machine takes for what these tests do.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the test `name`, which calls this, once more as a process of its own, and there `work`, with so much address space and so many seconds of processor time.
pub fn within(name: &str, bytes: u64, seconds: u64, work: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        for (resource, most) in [(Resource::As, bytes), (Resource::Cpu, seconds)] {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
        }
        return work();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name);
    // One arena for the allocator: reserved address space of many threads is no memory.
    command.env("MALLOC_ARENA_MAX", "1").stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("`{name}` waits for ever");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "`{name}` within {bytes} bytes and {seconds} s of processor time: {status}");
}
