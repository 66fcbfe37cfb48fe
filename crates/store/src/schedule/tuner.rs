//! Finds the best number of parallel requests.
//!
//! Beyond a certain number of requests, neither the network nor the store gets any faster. The tuner finds
//! this number by trial and error. At first each trial doubles the number. Later, a trial adds half of it. If
//! the rate does not rise, the tuner returns to the previous number.

use std::time::Duration;

/// Minimum increase in rate that justifies more requests.
const WORTH: f64 = 1.05;
/// Number of periods to wait after a trial without a gain.
const HOLD: u32 = 8;
const PERIOD: usize = 8;

/// Finds the number of parallel requests. The caller passes the time, so the result depends only on the inputs.
#[derive(Debug)]
pub(crate) struct Tuner {
    limit: usize,
    least: usize,
    most: usize,
    /// Limit on parallel requests before the current trial, and the rate at that limit.
    before: Option<(usize, f64)>,
    hold: u32,
    /// True if every trial so far has increased the rate.
    climbs: bool,
    since: Option<Duration>,
    bytes: u64,
    requests: usize,
}

impl Tuner {
    pub(crate) fn new(in_flight: (usize, usize)) -> Self {
        let (least, most) = in_flight;
        let least = least.max(1);
        let most = most.max(least);
        let limit = 32.clamp(least, most);
        Self { limit, least, most, before: None, hold: 0, climbs: true, since: None, bytes: 0, requests: 0 }
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Records that a request has ended. `is_full` is true if more requests are queued, which means that the limit
    /// determines the rate.
    pub(crate) fn done(&mut self, now: Duration, bytes: u64, is_full: bool) {
        let Some(since) = self.since.filter(|_| is_full) else {
            self.begin(now);
            return;
        };
        self.bytes = self.bytes.saturating_add(bytes);
        self.requests += 1;
        // Wait for two generations of requests, because requests that were in flight when the limit changed say
        // little about the new limit.
        if self.requests < (2 * self.limit).max(PERIOD) {
            return;
        }
        let seconds = now.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 {
            self.judge(self.bytes as f64 / seconds);
        }
        self.begin(now);
    }

    fn judge(&mut self, rate: f64) {
        match self.before.take() {
            Some((before, old)) if rate < old * WORTH => {
                self.limit = before;
                (self.hold, self.climbs) = (HOLD, false);
            }
            _ if self.hold > 0 => self.hold -= 1,
            _ if self.limit < self.most => {
                self.before = Some((self.limit, rate));
                let more = if self.climbs { self.limit } else { self.limit.div_ceil(2) };
                self.limit = (self.limit + more).min(self.most);
            }
            _ => {}
        }
    }

    fn begin(&mut self, now: Duration) {
        (self.since, self.bytes, self.requests) = (Some(now), 0, 0);
    }

    /// Halves the limit, because the store has asked for fewer requests.
    pub(crate) fn slow_down(&mut self) {
        self.limit = (self.limit / 2).max(self.least);
        (self.before, self.hold, self.climbs, self.since) = (None, HOLD, false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a network, and returns the limit that the tuner settles at. Each request fetches 4 MiB after
    /// `latency` seconds, at up to `each` bytes per second. All requests together reach at most `all`.
    fn settle(latency: f64, each: f64, all: f64) -> usize {
        let mut tuner = Tuner::new((8, 256));
        let (bytes, mut now) = (4_u64 << 20, 0.0);
        for _ in 0..20_000 {
            let alone = tuner.limit() as f64 * bytes as f64 / (latency + bytes as f64 / each);
            now += bytes as f64 / alone.min(all);
            tuner.done(Duration::from_secs_f64(now), bytes, true);
        }
        // If a trial is in progress, use the number of requests before it.
        tuner.before.map_or(tuner.limit(), |(before, _)| before)
    }

    #[test]
    fn as_many_as_raise_the_rate() {
        // With a latency of 100 ms and 90 MB/s, a request of 4 MiB reaches 28.6 MB/s, so 36 requests saturate a link
        // of 1 GB/s.
        let narrow = settle(0.1, 90e6, 1e9);
        assert!((32..=72).contains(&narrow), "{narrow}");
        let wide = settle(0.1, 90e6, 20e9);
        assert_eq!(wide, 256);
    }

    #[test]
    fn slowing_down_halves_the_limit_within_its_bounds() {
        let mut tuner = Tuner::new((8, 256));
        for expected in [16, 8, 8] {
            tuner.slow_down();
            assert_eq!(tuner.limit(), expected);
        }
        assert_eq!(Tuner::new((0, 0)).limit(), 1);
        assert_eq!(Tuner::new((8, 20)).limit(), 20);
    }

    #[test]
    fn a_slow_reader_does_not_change_the_tuning() {
        let mut tuner = Tuner::new((8, 256));
        for second in 0..1000 {
            tuner.done(Duration::from_secs(second), 1, false);
        }
        assert_eq!(tuner.limit(), 32);
    }
}
