//! Shared by the examples that time something: the clock.

use std::sync::LazyLock;
use std::time::Instant;

/// Seconds of processor time of this thread where the system reports it (Linux), so that a busy machine does
/// not show in the figures; otherwise wall time.
pub(crate) fn now() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}
