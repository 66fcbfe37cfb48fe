//! Formats sizes, counts and rates for people.

use shardpack_report::words;

/// Replaces no-break spaces, because users cannot search for text that contains them.
fn plain(text: String) -> String {
    text.replace(words::NBSP, " ")
}

/// Formats bytes as `109.6 MB`, with three significant digits and powers of ten.
pub(crate) fn bytes(n: u64) -> String {
    plain(words::bytes(n as f64))
}

/// Formats a part of a size as `1.20 of 3.40 GB`, or as `870 MB of 3.40 GB`.
pub(crate) fn bytes_of(part: u64, whole: u64) -> String {
    let (part, whole) = (bytes(part), bytes(whole));
    match (part.rsplit_once(' '), whole.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {whole}"),
        _ => format!("{part} of {whole}"),
    }
}

/// Formats a rate as `1.94 GB/s`.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only displayed: whole bytes are enough"
    )]
    let per_s = (bytes as f64 / seconds.max(1e-9)) as u64;
    format!("{}/s", self::bytes(per_s))
}

/// Formats a count as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    words::count(n)
}

/// Formats a count with a noun, such as `1 sample` or `2 samples`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    plain(words::plural(n, noun))
}

/// Formats a duration, such as `4.2 ms`, `42 ms`, `0.42 s`, `12.3 s` or `3 min 20 s`.
pub(crate) fn seconds(s: f64) -> String {
    plain(words::seconds(s))
}

/// Formats a number with `digits` significant digits, in scientific notation only if the number would otherwise be
/// long.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let magnitude = value.abs().log10().floor();
    let decimals = (digits as f64 - 1.0 - magnitude).clamp(0.0, 12.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let decimals = decimals as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0, 999, 1_000, 109_612_345, 999_999_999].map(bytes),
            ["0 B", "999 B", "1.00 kB", "110 MB", "1.00 GB"]
        );
        assert_eq!(bytes_of(1_200_000_000, 3_400_000_000), "1.20 of 3.40 GB");
        assert_eq!(bytes_of(870_000_000, 3_400_000_000), "870 MB of 3.40 GB");
        assert_eq!([0, 12, 1234, 1_234_567].map(count), ["0", "12", "1,234", "1,234,567"]);
        assert_eq!(significant(0.000_244_14, 3), "0.000244");
        assert_eq!(significant(1.5e-7, 3), "1.50e-7");
        assert_eq!(significant(12345.678, 3), "12346");
        assert_eq!(
            [0.00042, 0.00996, 0.0421, 0.0996, 0.42, 12.34, 200.0].map(seconds),
            ["420 µs", "10 ms", "42 ms", "0.10 s", "0.42 s", "12.3 s", "3 min 20 s"]
        );
    }
}
