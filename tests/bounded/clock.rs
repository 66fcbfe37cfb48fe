//! Measures the CPU time of this process. Other programs on the machine affect it less than wall time.
#![allow(dead_code, reason = "each test binary needs a part of it")]

use std::time::Duration;

pub(crate) fn process() -> Duration {
    now(rustix::time::ClockId::ProcessCPUTime)
}

pub(crate) fn thread() -> Duration {
    now(rustix::time::ClockId::ThreadCPUTime)
}

fn now(clock: rustix::time::ClockId) -> Duration {
    rustix::time::clock_gettime(clock).try_into().expect("time since the start")
}
