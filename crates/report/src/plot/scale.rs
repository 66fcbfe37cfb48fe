//! Maps values to positions along an axis, and chooses the ticks.

use crate::words;

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Linear,
    /// Linear, starting at 0.
    FromZero,
    /// Logarithmic. Values of 0 or less are drawn in a separate lane next to the axis.
    Log,
}

impl Kind {
    /// Returns the scale for non-negative values. It is logarithmic if they span more than one order of magnitude.
    pub(crate) fn of(values: &[f64]) -> Self {
        let (low, high) = range(values.iter().copied().filter(|v| *v > 0.0)).unwrap_or((1.0, 1.0));
        if high > 12.0 * low {
            Self::Log
        } else if low < high / 2.0 || values.contains(&0.0) {
            Self::FromZero
        } else {
            Self::Linear
        }
    }
}

/// Returns the smallest and largest finite values.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
    })
}

/// Width of the lane for the value 0 on a logarithmic axis, in pixels.
const ZERO_LANE: f64 = 30.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Pixel position of the value `low`, after the lane for 0 if there is one.
    from: f64,
    to: f64,
    /// Pixel position of the value 0, if a logarithmic axis shows it.
    zero: Option<f64>,
    /// Distance between the ticks of a linear axis.
    step: f64,
}

impl Scale {
    /// Creates a scale from pixel `from` to pixel `to`, with about `ticks` ticks. If no value is finite, it
    /// covers 0 to 1.
    pub(crate) fn new(kind: Kind, values: &[f64], from: f64, to: f64, ticks: u32) -> Self {
        if kind == Kind::Log
            && let Some(scale) = Self::log(values, from, to)
        {
            return scale;
        }
        let (mut low, mut high) = range(values.iter().copied()).unwrap_or((0.0, 1.0));
        if kind == Kind::FromZero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= high.abs().max(low.abs()) * 1e-9 {
            // Extend the range by half of the value on both sides, because a single value has no range.
            let around = if high == 0.0 { 1.0 } else { high.abs() / 2.0 };
            (low, high) = if kind == Kind::FromZero { (0.0, around) } else { (low - around, high + around) };
        }
        let step = step((high - low) / f64::from(ticks.max(1)));
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        Self { log: false, low, high, from, to, zero: None, step }
    }

    fn log(values: &[f64], from: f64, to: f64) -> Option<Self> {
        let (low, high) = range(values.iter().copied().filter(|v| *v > 0.0))?;
        let zero = values.iter().any(|v| *v <= 0.0);
        let air = (high / low).powf(0.05).max(1.15);
        let inner = if zero { from + ZERO_LANE.copysign(to - from) } else { from };
        let at_zero = zero.then_some(from + (ZERO_LANE / 2.5).copysign(to - from));
        Some(Self { log: true, low: low / air, high: high * air, from: inner, to, zero: at_zero, step: 0.0 })
    }

    /// Creates a scale that ends exactly at the two values, even if there are no ticks at these values.
    pub(crate) fn exact([low, high]: [f64; 2], from: f64, to: f64, ticks: u32) -> Self {
        if low < high {
            let step = step((high - low) / f64::from(ticks.max(1)));
            Self { log: false, low, high, from, to, zero: None, step }
        } else {
            Self::new(Kind::Linear, &[low], from, to, ticks)
        }
    }

    pub(crate) fn steps(&self) -> usize {
        self.linear_ticks().len().saturating_sub(1)
    }

    /// Returns the pixel position of a value. Values outside the range are moved to the nearest end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        if self.log && value <= 0.0 {
            return self.zero.unwrap_or(self.from);
        }
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    pub(crate) fn domain(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value) || (self.log && value <= 0.0 && self.zero.is_some())
    }

    pub(crate) fn lane_end(&self) -> Option<f64> {
        self.zero.map(|_| self.from)
    }

    pub(crate) fn ticks(&self, label: Label) -> Vec<(f64, String)> {
        let values = if self.log { self.log_ticks() } else { self.linear_ticks() };
        let decimals = if self.log { None } else { Some(decimals(self.step)) };
        values.into_iter().map(|value| (value, label.of(value, decimals))).collect()
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let first = (self.low / self.step - 1e-9).ceil();
        let last = (self.high / self.step + 1e-9).floor();
        (0..=64).map(|i| first + f64::from(i)).take_while(|i| *i <= last).map(|i| i * self.step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = match decades {
            d if d < 1.8 => &[1.0, 2.0, 5.0],
            d if d < 3.2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = (1..=400).find(|n| decades / f64::from(*n) <= 7.0).unwrap_or(400);
        let mut ticks: Vec<f64> = if self.zero.is_some() { vec![0.0] } else { Vec::new() };
        for power in (-330..=308_i32).filter(|p| p % stride == 0) {
            ticks.extend(digits.iter().map(|d| d * 10f64.powi(power)).filter(|v| (self.low..=self.high).contains(v)));
        }
        ticks
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Number,
    /// A size in bytes.
    Bytes,
}

impl Label {
    fn of(self, value: f64, decimals: Option<usize>) -> String {
        match (self, decimals) {
            (Self::Bytes, _) => words::bytes_tick(value),
            (Self::Number, Some(decimals)) if value.abs() < 1e6 && decimals <= 6 => {
                let text = words::fixed(value, decimals);
                if decimals == 0 && value.abs() >= 1000.0 { words::significant(value, 1) } else { text }
            }
            (Self::Number, _) => words::trimmed(&words::significant(value, if value.abs() >= 1e6 { 2 } else { 1 })),
        }
    }
}

/// Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `width`.
fn step(width: f64) -> f64 {
    let power = 10f64.powf(width.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|d| d * power >= width * 0.999_999).unwrap_or(10.0);
    digit * power
}

fn decimals(step: f64) -> usize {
    (0..18).find(|d| f64::from(*d) >= -step.log10() - 1e-9).map_or(18, |d: u8| usize::from(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(kind: Kind, values: &[f64], label: Label) -> Vec<String> {
        let scale = Scale::new(kind, values, 0.0, 100.0, 5);
        scale.ticks(label).into_iter().map(|(_, text)| text.replace(words::NBSP, " ")).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Kind::Linear, &[61.3, 98.0], Label::Number), ["60", "70", "80", "90", "100"]);
        assert_eq!(
            labels(Kind::FromZero, &[0.003, 0.0071], Label::Number),
            ["0.000", "0.002", "0.004", "0.006", "0.008"]
        );
        assert_eq!(labels(Kind::FromZero, &[38_000.0, 110_000.0], Label::Bytes), ["0", "50 kB", "100 kB", "150 kB"]);
        assert_eq!(labels(Kind::Log, &[12e3, 400e3], Label::Bytes), ["20 kB", "50 kB", "100 kB", "200 kB"]);
        assert_eq!(labels(Kind::Log, &[0.0, 1e-4, 0.5], Label::Number), ["0", "0.0001", "0.001", "0.01", "0.1"]);
    }

    #[test]
    fn large_ticks_are_whole() {
        assert_eq!(
            labels(Kind::Linear, &[2100.0, 2900.0], Label::Number),
            ["2,000", "2,200", "2,400", "2,600", "2,800", "3,000"]
        );
    }

    #[test]
    fn a_zero_stands_apart_on_a_logarithmic_axis() {
        let scale = Scale::new(Kind::Log, &[0.0, 0.01, 1.0], 300.0, 0.0, 5);
        assert!(scale.at(0.0) > scale.at(0.01) + 15.0, "{} {}", scale.at(0.0), scale.at(0.01));
        assert!(scale.holds(0.0));
        assert_eq!(scale.lane_end(), Some(270.0));
    }

    #[test]
    fn equal_values_and_none_still_make_an_axis() {
        for kind in [Kind::Linear, Kind::FromZero, Kind::Log] {
            for values in [&[][..], &[0.0], &[5.0], &[-3.0], &[7.0, 7.0], &[f64::NAN], &[f64::INFINITY, 1.0]] {
                let scale = Scale::new(kind, values, 0.0, 100.0, 5);
                let ticks = scale.ticks(Label::Number);
                assert!(!ticks.is_empty() || kind == Kind::Log, "{kind:?} {values:?}");
                assert!(scale.domain().0 < scale.domain().1, "{kind:?} {values:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_value_is_within_and_in_order(a in -1e9..1e9f64, b in -1e9..1e9f64, log in any::<bool>()) {
            let kind = if log { Kind::Log } else { Kind::Linear };
            let scale = Scale::new(kind, &[a, b], 10.0, 200.0, 6);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(scale.holds(a) && scale.holds(b));
            prop_assert!(scale.at(low) <= scale.at(high) + 1e-9);
            prop_assert!((10.0..=200.0).contains(&scale.at(a)));
            prop_assert!(scale.ticks(Label::Number).len() <= 30);
        }
    }
}
