//! Formats sizes, counts, times and scores in the notation of the page.
//!
//! A no-break space separates a number from its unit. Negative numbers have a minus sign instead of a hyphen.

use crate::data::{Measure, NO_NOISE};

/// Space between a number and its unit.
pub const NBSP: char = '\u{a0}';

/// Formats a size with three significant digits and a decimal unit, such as `43.2 MB`.
pub fn bytes(n: f64) -> String {
    let (value, unit) = in_unit(n);
    let decimals = if unit == "B" { 0 } else { usize::from(value < 99.95) + usize::from(value < 9.995) };
    format!("{value:.decimals$}{NBSP}{unit}")
}

/// Formats bytes for a tick label, without trailing zeros: `20 kB` instead of `20.0 kB`.
pub(crate) fn bytes_tick(n: f64) -> String {
    if n == 0.0 {
        return "0".into();
    }
    let (value, unit) = in_unit(n);
    format!("{}{NBSP}{unit}", trimmed(&significant(value, 4)))
}

fn in_unit(n: f64) -> (f64, &'static str) {
    let mut value = n.max(0.0);
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 999.5 {
            return (value, unit);
        }
        value /= 1000.0;
    }
    (value, "PB")
}

/// Formats a count with separators, such as `1,234,567`.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun, such as `1 sample`, `2 samples` and `2 classes`.
pub fn plural(n: u64, noun: &str) -> String {
    let end = match n {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{}{NBSP}{noun}{end}", count(n))
}

/// Formats a duration, such as `420 µs`, `42 ms`, `0.42 s`, `12.3 s`, `3 min 20 s` and `5 h 12 min`.
pub fn seconds(s: f64) -> String {
    let two =
        |n: f64, small: f64, a: &str, b: &str| format!("{:.0}{NBSP}{a} {:.0}{NBSP}{b}", (n / small).floor(), n % small);
    match s {
        s if s < 9.995e-4 => format!("{}{NBSP}µs", significant(s * 1e6, 2)),
        s if s < 9.95e-3 => format!("{:.1}{NBSP}ms", s * 1e3),
        s if s < 0.0995 => format!("{:.0}{NBSP}ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2}{NBSP}s"),
        s if s < 119.95 => format!("{s:.1}{NBSP}s"),
        s if s < 3599.5 => two(s.round(), 60.0, "min", "s"),
        s if s < 172_770.0 => two((s / 60.0).round(), 60.0, "h", "min"),
        s => two((s / 3600.0).round(), 24.0, "d", "h"),
    }
}

/// Formats a number with `digits` significant digits. Uses scientific notation only if plain digits would be too
/// long.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let text = if (1e-4..1e6).contains(&value.abs()) {
        // Determine the magnitude after rounding, because with three digits 9.996 becomes 10.0.
        let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
        let magnitude = rounded.abs().log10().floor();
        let decimals =
            (0..12).find(|d| f64::from(*d) >= digits as f64 - 1.0 - magnitude).map_or(12, |d: u8| usize::from(d));
        let plain = format!("{:.decimals$}", value.abs());
        if decimals == 0 { grouped(&plain) } else { plain }
    } else {
        let text = format!("{:.*e}", digits.saturating_sub(1), value.abs());
        text.replace("e-", "e−")
    };
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Removes trailing zeros after the decimal point.
pub(crate) fn trimmed(text: &str) -> String {
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text.to_owned()
    }
}

/// Formats a number with `decimals` decimal places, and with a minus sign instead of a hyphen.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    if value < 0.0 && !zero { format!("−{text}") } else { text }
}

/// Formats the value of a measure without its unit. Fractions are in per cent.
pub(crate) fn score(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Ssimulacra2 | Measure::Psnr => fixed(value, 1),
        Measure::Ssim => fixed(value, 4),
        Measure::NoiseRatio if value >= NO_NOISE => "∞".to_owned(),
        Measure::NoiseRatio | Measure::MaxAbsError => significant(value, 3),
        Measure::SpectralAngleP50
        | Measure::SpectralAngleP95
        | Measure::SpectralAngleP99
        | Measure::SpectralAngleMax => significant(value, 3),
        Measure::MaxRelError | Measure::Altered => significant(value * 100.0, 3),
    }
}

pub(crate) fn score_and_unit(measure: Measure, value: f64) -> String {
    let unit = measure.unit();
    let space = if unit.is_empty() || unit == "°" { String::new() } else { NBSP.to_string() };
    format!("{}{space}{unit}", score(measure, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_ticks_as_few_as_they_need() {
        let plain = |text: String| text.replace(NBSP, " ");
        assert_eq!(
            [0.0, 999.0, 999.6, 38_240.0, 999_999.0, 1.1e11, 2e15, -1.0].map(bytes).map(plain),
            ["0 B", "999 B", "1.00 kB", "38.2 kB", "1.00 MB", "110 GB", "2.00 PB", "0 B"]
        );
        assert_eq!([0.0, 20_000.0, 2_500.0, 1e6].map(bytes_tick).map(plain), ["0", "20 kB", "2.5 kB", "1 MB"]);
    }

    #[test]
    fn times_grow_into_the_next_unit() {
        let plain = |text: String| text.replace(NBSP, " ");
        assert_eq!(
            [2.25e-7, 0.00042, 0.0021, 0.0421, 0.42, 9.999, 12.34, 119.96, 200.0, 3599.8, 9_000.0, 172_800.0]
                .map(seconds)
                .map(plain),
            [
                "0.22 µs",
                "420 µs",
                "2.1 ms",
                "42 ms",
                "0.42 s",
                "10.0 s",
                "12.3 s",
                "2 min 0 s",
                "3 min 20 s",
                "1 h 0 min",
                "2 h 30 min",
                "2 d 0 h"
            ]
        );
    }

    #[test]
    fn numbers_are_rounded_once_and_signed_properly() {
        assert_eq!(
            [0.0, 1.0, 9.996, 12345.678, 0.000_244_14, 1.5e-7, -0.5, 99.96, 999.6].map(|v| significant(v, 3)),
            ["0", "1.00", "10.0", "12,346", "0.000244", "1.50e−7", "−0.500", "100", "1,000"]
        );
        assert_eq!([-0.04, -0.06, 71.24].map(|v| fixed(v, 1)), ["0.0", "−0.1", "71.2"]);
        assert_eq!(["1.50", "20", "1.00", "1.50e−7"].map(trimmed), ["1.5", "20", "1", "1.50e−7"]);
        assert_eq!(score_and_unit(Measure::Altered, 0.1234), format!("12.3{NBSP}%"));
        assert_eq!(score_and_unit(Measure::SpectralAngleP99, 0.1234), "0.123°");
        assert_eq!(score_and_unit(Measure::NoiseRatio, 0.25), format!("0.250{NBSP}×"));
        assert_eq!(score(Measure::NoiseRatio, NO_NOISE), "∞");
        assert_eq!(plural(2, "class"), format!("2{NBSP}classes"));
        assert_eq!([1, 1_234_567].map(|n| plural(n, "sample").replace(NBSP, " ")), ["1 sample", "1,234,567 samples"]);
    }
}
