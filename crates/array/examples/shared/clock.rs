//! The clock for the examples that measure time.

use std::sync::LazyLock;
use std::time::Instant;

/// Returns the CPU time of this thread in seconds if the system reports it (Linux), so that other load on the machine
/// does not affect the figures. Otherwise returns wall time.
pub(crate) fn now() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}
