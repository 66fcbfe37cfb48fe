//! Draws a histogram as bars, with lines and marks at important values.

use super::axes::{Axis, Margins, horizontal, vertical};
use super::scale::{Kind, Label, Scale, range};
use super::{Size, px, svg};
use crate::words;
use maud::{Markup, html};

/// Counts of values in bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bins {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) counts: Vec<u64>,
}

impl Bins {
    /// Counts values in bins with edges at round numbers. The number of bins depends on the number of values.
    pub(crate) fn of(values: &[f64]) -> Self {
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let Some((low, high)) = range(finite.iter().copied()) else {
            return Self { low: 0.0, high: 1.0, counts: Vec::new() };
        };
        let wanted = (6..=30_u32).find(|k| f64::from(k * k) >= 4.0 * finite.len() as f64).unwrap_or(30);
        // Use the ticks of a scale as edges, because they are round numbers.
        let scale = Scale::new(Kind::Linear, &[low, high], 0.0, 1.0, wanted);
        let (low, high) = scale.domain();
        let mut bins = Self { low, high, counts: vec![0; scale.steps().max(1)] };
        for value in finite {
            let at = bins.bin(value);
            if let Some(count) = bins.counts.get_mut(at) {
                *count += 1;
            }
        }
        bins
    }

    fn bin(&self, value: f64) -> usize {
        let share = (value - self.low) / (self.high - self.low) * self.counts.len() as f64;
        // A rounding error may place a value that is on an edge slightly to the left of the edge.
        let mut bin = 0;
        while bin + 1 < self.counts.len() && (bin + 1) as f64 <= share + 1e-9 {
            bin += 1;
        }
        bin
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (f64, f64, u64)> {
        let width = (self.high - self.low) / self.counts.len().max(1) as f64;
        self.counts
            .iter()
            .enumerate()
            .map(move |(i, count)| (self.low + i as f64 * width, self.low + (i + 1) as f64 * width, *count))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) at: f64,
    /// Text next to a line. Empty for a mark below the bars.
    pub(crate) label: String,
    pub(crate) tip: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Histogram<'a> {
    pub(crate) bins: &'a Bins,
    pub(crate) label: Label,
    pub(crate) name: &'a str,
    /// Plural noun for the counted items. Used as the title of the axis.
    pub(crate) counted: &'a str,
    /// True if the axis of counts is logarithmic, for data with nearly all values in a few bins.
    pub(crate) log_counts: bool,
    pub(crate) lines: &'a [Note],
    pub(crate) marks: &'a [Note],
    pub(crate) alternative: &'a str,
}

impl Histogram<'_> {
    pub(crate) fn draw(&self, size: Size) -> Markup {
        let margins = Margins { left: 44.0, bottom: 50.0, ..Margins::USUAL };
        let (left, right, top, bottom) = margins.inner(size);
        let counts: Vec<f64> = self.bins.counts.iter().map(|n| *n as f64).collect();
        let within = [self.bins.low, self.bins.high];
        // End the axis exactly at the outer edges of the bins. These are round numbers.
        let x = Axis { scale: Scale::exact(within, left, right, 5), label: self.label, name: self.name };
        let kind = if self.log_counts { Kind::Log } else { Kind::FromZero };
        let y_values: Vec<f64> =
            if self.log_counts { counts.iter().copied().chain([0.0]).collect() } else { counts.clone() };
        // Leave space for the marks between the bars and the axis.
        let floor = if self.marks.is_empty() { bottom } else { bottom - 11.0 };
        let y = Axis { scale: Scale::new(kind, &y_values, floor, top, 4), label: Label::Number, name: self.counted };
        let content = html! {
            (vertical(&y, margins, size))
            @for (a, b, count) in self.bins.each().filter(|(.., count)| *count > 0) {
                @let (from, to, tip) = (x.scale.at(a), x.scale.at(b), y.scale.at(count as f64));
                rect class="bar" x=(px(from + 0.5)) y=(px(tip)) width=(px((to - from - 1.0).max(0.5)))
                    height=(px((floor - tip).max(0.0))) {
                    title { (self.tick(a)) " to " (self.tick(b)) ": " (words::count(count)) }
                }
            }
            (horizontal(&x, margins, size))
            @for note in self.lines.iter().filter(|n| x.scale.holds(n.at)) {
                @let v = x.scale.at(note.at);
                line class="level" x1=(px(v)) x2=(px(v)) y1=(px(top - 4.0)) y2=(px(bottom)) { title { (note.tip) } }
                @let leftwards = v > (left + right) / 2.0;
                text class="level-name" x=(px(if leftwards { v - 4.0 } else { v + 4.0 })) y=(px(top + 6.0))
                    text-anchor=(if leftwards { "end" } else { "start" }) { (note.label) }
            }
            @for note in self.marks.iter().filter(|n| x.scale.holds(n.at)) {
                @let v = x.scale.at(note.at);
                path class="worst" d={ "M" (px(v)) " " (px(bottom - 1.5)) "l4 -7h-8Z" } { title { (note.tip) } }
            }
        };
        svg(size, self.alternative, &content)
    }

    fn tick(&self, value: f64) -> String {
        match self.label {
            Label::Bytes => words::bytes(value),
            Label::Number => words::trimmed(&words::significant(value, 4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_are_round_and_the_worst_value_has_a_bin() {
        let bins = Bins::of(&[61.2, 70.0, 70.0, 88.0]);
        assert_eq!((bins.low, bins.high), (60.0, 90.0));
        assert_eq!(bins.counts.iter().sum::<u64>(), 4);
        assert_eq!(bins.counts.first(), Some(&1));
        assert_eq!(Bins::of(&[5.0; 9]).counts.iter().sum::<u64>(), 9);
        assert!(Bins::of(&[f64::NAN]).counts.is_empty());
    }

    proptest! {
        #[test]
        fn no_value_is_lost(values in prop::collection::vec(-1e7..1e7f64, 1..300)) {
            let bins = Bins::of(&values);
            prop_assert_eq!(bins.counts.iter().sum::<u64>(), values.len() as u64);
            for (low, high, count) in bins.each() {
                let slack = (bins.high - bins.low) * 1e-6;
                let around = values.iter().filter(|v| (low - slack..=high + slack).contains(*v)).count() as u64;
                prop_assert!(count <= around, "{} in {}..{}, {} there", count, low, high, around);
            }
        }
    }
}
