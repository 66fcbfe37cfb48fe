//! The progress bar: on stderr, and only on a terminal.

use super::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar over bytes that also says samples per second; silent where stderr is not a terminal.
pub(super) struct Bar {
    bar: ProgressBar,
    start: Instant,
}

impl Bar {
    /// A bar for `total_bytes` of work, with a verb in front.
    pub(super) fn new(verb: &'static str, total_bytes: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}% {msg}, {eta} left") {
            bar.set_style(style);
        }
        bar.set_prefix(verb);
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { bar, start: Instant::now() }
    }

    /// Where the work stands; `out` is the size of the output so far, where there is one.
    pub(super) fn set(&self, samples: u64, bytes: u64, out: Option<u64>) {
        if self.bar.is_hidden() {
            return;
        }
        let seconds = self.start.elapsed().as_secs_f64().max(1e-3);
        let rate = format!("{:.0} samples/s, {:.0} MB/s", samples as f64 / seconds, bytes as f64 / seconds / 1e6);
        let sizes = out.map(|out| format!(", {} → {}", units::bytes(bytes), units::bytes(out))).unwrap_or_default();
        self.bar.set_message(format!("{rate}{sizes}"));
        self.bar.set_position(bytes);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
