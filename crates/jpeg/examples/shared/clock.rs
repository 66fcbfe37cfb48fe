//! Provides the clock for the timing examples.

use std::sync::LazyLock;
use std::time::Instant;

/// Returns this thread's processor time in seconds, which other load on the machine does not affect. On systems that
/// do not report it (other than Linux), returns wall time.
pub(crate) fn now() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}
