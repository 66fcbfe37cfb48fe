//! The progress bar: on stderr, and only on a terminal.

use super::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar over bytes that also shows samples per second; silent if stderr is not a terminal.
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

    /// A bar over steps of work, whose number is told with each.
    pub(super) fn of_steps(verb: &'static str) -> Self {
        Self::new(verb, 1)
    }

    /// Reports how many steps of what are done.
    pub(super) fn step(&self, done: u64, of: u64, what: &'static str) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(of.max(1));
        self.bar.set_position(done);
        self.bar.set_message(format!("{what}: {done} of {of}"));
    }

    /// Reports how far reading is: samples and bytes so far.
    pub(super) fn read(&self, samples: u64, bytes: u64) {
        self.show(samples, bytes, bytes, String::new());
    }

    /// Reports how far packing is: samples of this run, bytes read in all, how many of those an
    /// earlier run had read, bytes written.
    pub(super) fn pack(&self, samples: u64, bytes: u64, bytes_reused: u64, bytes_out: u64) {
        let sizes = format!(", {} → {}", units::bytes(bytes), units::bytes(bytes_out));
        self.show(samples, bytes.saturating_sub(bytes_reused), bytes, sizes);
    }

    fn show(&self, samples: u64, own_bytes: u64, position: u64, sizes: String) {
        if self.bar.is_hidden() {
            return;
        }
        let seconds = self.start.elapsed().as_secs_f64().max(1e-3);
        let (samples, megabytes) = (samples as f64 / seconds, own_bytes as f64 / seconds / 1e6);
        self.bar.set_message(format!("{samples:.0} samples/s, {megabytes:.0} MB/s{sizes}"));
        self.bar.set_position(position);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
