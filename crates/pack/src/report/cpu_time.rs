//! Measures the CPU time of the calling thread, in seconds.

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch that counts only the time in which the calling thread runs on a core.
pub(super) struct CpuTime(f64);

impl CpuTime {
    pub(super) fn start() -> Self {
        Self(now())
    }

    pub(super) fn seconds(&self) -> f64 {
        now() - self.0
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds for a rate")]
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
