//! Measures the time to the first byte of each response, to recognise slow requests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SAMPLES: usize = 256;
/// Minimum number of measurements for a meaningful percentile.
const LEAST_SAMPLES: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<LatestTimes>);

#[derive(Debug, Default)]
struct LatestTimes {
    times: Vec<Duration>,
    next: usize,
}

impl Latencies {
    /// Returns the 99th percentile of the recent times to the first byte, or `None` if there are
    /// too few measurements.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner).times.clone();
        times.sort_unstable();
        (times.len() >= LEAST_SAMPLES).then(|| times.get(times.len() * 99 / 100).copied()).flatten()
    }

    pub(crate) fn add(&self, time: Duration) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = latest.next;
        match latest.times.get_mut(next) {
            Some(old) => *old = time,
            None => latest.times.push(time),
        }
        latest.next = (next + 1) % SAMPLES;
    }
}
