//! A progress bar on stderr.

use super::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardpack_writer::Progress;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum seconds of work before a rate is shown.
const KNOWN_AFTER_S: f64 = 1.0;

/// A progress bar that counts bytes and also shows samples. Without a terminal on stderr, it shows nothing.
pub(super) struct Bar {
    bar: ProgressBar,
    start: Instant,
    samples: Option<u64>,
    /// When the uploads under way began, and the bytes that had been sent then.
    uploading: Mutex<Option<(Instant, u64)>>,
}

/// Progress: `samples` and `bytes_left` cover the whole job, and `own_samples`, `own_bytes` and `seconds` only this
/// run.
struct Pace {
    samples: u64,
    samples_total: Option<u64>,
    own_samples: u64,
    own_bytes: u64,
    bytes_left: u64,
    seconds: f64,
}

impl Pace {
    /// Formats the progress. The text is short, because it shares a line with the bar.
    fn told(&self) -> String {
        let mut text = match self.samples_total {
            Some(total) => format!("{} of {}", units::count(self.samples), units::plural(total, "sample")),
            None => units::plural(self.samples, "sample"),
        };
        if self.own_bytes == 0 || self.seconds < KNOWN_AFTER_S {
            return text;
        }
        text += &format!(", {:.0}/s", self.own_samples as f64 / self.seconds);
        if self.bytes_left > 0 {
            let left = self.bytes_left as f64 / self.own_bytes as f64 * self.seconds;
            text += &format!(", {} left", time_left(left));
        }
        text
    }
}

/// Uploads that are under way.
struct Uploading {
    bytes_sent: u64,
    bytes_to_send: u64,
    /// Number of bytes sent in the last `seconds`.
    own_bytes: u64,
    seconds: f64,
}

impl Uploading {
    fn told(&self) -> String {
        let mut text = format!("uploading {}", units::bytes_of(self.bytes_sent, self.bytes_to_send));
        if self.own_bytes > 0 && self.seconds >= KNOWN_AFTER_S {
            text += &format!(", {}", units::rate(self.own_bytes, self.seconds));
        }
        text
    }
}

/// Formats the time left in whole seconds.
fn time_left(seconds: f64) -> String {
    if seconds < 60.0 { format!("{:.0} s", seconds.max(1.0)) } else { units::seconds(seconds) }
}

impl Bar {
    /// Creates a bar for `total_bytes` of work, labelled with a verb. `samples` is the total number of samples, if
    /// known.
    pub(super) fn new(verb: &'static str, total_bytes: u64, samples: Option<u64>) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}% {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(verb);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, start: Instant::now(), samples, uploading: Mutex::default() }
    }

    /// Creates a bar that counts steps of work. Each call to `step` passes the total.
    pub(super) fn of_steps(verb: &'static str) -> Self {
        Self::new(verb, 1, None)
    }

    /// Shows the number of finished steps. `what` names the current work.
    pub(super) fn step(&self, done: u64, of: u64, what: &'static str) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(of.max(1));
        self.bar.set_position(done);
        // The bar's estimate is zero until a rate is known.
        let left = match self.bar.eta() {
            Duration::ZERO => String::new(),
            left => format!(", {} left", time_left(left.as_secs_f64())),
        };
        self.bar.set_message(format!("{what}: {done} of {of}{left}"));
    }

    /// Shows the number of samples and bytes read.
    pub(super) fn read(&self, samples: u64, bytes: u64) {
        let total = self.bar.length().unwrap_or(bytes);
        let rate = bytes as f64 / self.start.elapsed().as_secs_f64().max(1e-3) / 1e6;
        let pace = Pace {
            samples,
            samples_total: self.samples,
            own_samples: samples,
            own_bytes: bytes,
            bytes_left: total.saturating_sub(bytes),
            seconds: self.start.elapsed().as_secs_f64(),
        };
        self.show(format!("{}, {rate:.0} MB/s", pace.told()), bytes, total);
    }

    /// Shows the progress of packing. Shows only the uploads once all samples are packed and only uploads are left.
    pub(super) fn pack(&self, now: &Progress) {
        let uploading = self.uploading(now);
        if let Some(uploading) = uploading.as_ref().filter(|_| now.samples == now.samples_total) {
            return self.show(uploading.told(), now.bytes_sent, now.bytes_to_send);
        }
        let more = match uploading {
            Some(uploading) => uploading.told(),
            None => format!("{} → {}", units::bytes(now.bytes_in), units::bytes(now.bytes_out)),
        };
        let pace = Pace {
            samples: now.samples,
            samples_total: Some(now.samples_total),
            own_samples: now.samples.saturating_sub(now.samples_reused),
            own_bytes: now.bytes_in.saturating_sub(now.bytes_in_reused),
            bytes_left: now.bytes_in_total.saturating_sub(now.bytes_in),
            seconds: self.start.elapsed().as_secs_f64(),
        };
        self.show(format!("{}, {more}", pace.told()), now.bytes_in, now.bytes_in_total);
    }

    /// Returns the uploads that are under way, if any.
    fn uploading(&self, now: &Progress) -> Option<Uploading> {
        let mut begun = self.uploading.lock().unwrap_or_else(PoisonError::into_inner);
        if now.bytes_sent >= now.bytes_to_send {
            *begun = None;
            return None;
        }
        let (start, sent_before) = *begun.get_or_insert((Instant::now(), now.bytes_sent));
        Some(Uploading {
            bytes_sent: now.bytes_sent,
            bytes_to_send: now.bytes_to_send,
            own_bytes: now.bytes_sent.saturating_sub(sent_before),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn show(&self, message: String, bytes: u64, total: u64) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_message(message);
        self.bar.set_length(total);
        self.bar.set_position(bytes);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_once_there_is_a_rate() {
        let start = Pace {
            samples: 0,
            samples_total: Some(5000),
            own_samples: 0,
            own_bytes: 0,
            bytes_left: 100_000_000,
            seconds: 5.0,
        };
        assert_eq!(start.told(), "0 of 5,000 samples");
        let early = Pace { samples: 12, own_samples: 12, own_bytes: 240_000, seconds: 0.2, ..start };
        assert_eq!(early.told(), "12 of 5,000 samples");
        let later = Pace {
            samples: 1200,
            own_samples: 200,
            own_bytes: 4_000_000,
            bytes_left: 76_000_000,
            seconds: 2.0,
            samples_total: Some(5000),
        };
        // An earlier run finished 1,000 of the 1,200 samples. They do not count towards the rate.
        assert_eq!(later.told(), "1,200 of 5,000 samples, 100/s, 38 s left");
        let long = Pace { bytes_left: 400_000_000, samples_total: None, ..later };
        assert_eq!(long.told(), "1,200 samples, 100/s, 3 min 20 s left");
        let end = Pace { bytes_left: 0, samples: 5000, samples_total: Some(5000), ..long };
        assert_eq!(end.told(), "5,000 of 5,000 samples, 100/s");
    }

    #[test]
    fn uploads_are_told_with_a_rate_once_it_is_known() {
        let start =
            Uploading { bytes_sent: 120_000_000, bytes_to_send: 3_400_000_000, own_bytes: 16_000_000, seconds: 0.2 };
        assert_eq!(start.told(), "uploading 120 MB of 3.40 GB");
        let later = Uploading { bytes_sent: 1_200_000_000, own_bytes: 850_000_000, seconds: 10.0, ..start };
        assert_eq!(later.told(), "uploading 1.20 of 3.40 GB, 85.0 MB/s");
        let stuck = Uploading { own_bytes: 0, ..later };
        assert_eq!(stuck.told(), "uploading 1.20 of 3.40 GB");
    }
}
