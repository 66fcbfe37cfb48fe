//! Parses the text of a cell without changing its meaning.

/// float64 represents all integers up to this limit exactly.
const MAX_EXACT: u64 = 1 << 53;

/// Parses an integer in its usual spelling. `007` and `+7` are codes and remain text.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let usual = text == "0" || digits.bytes().next().is_some_and(|first| first.is_ascii_digit() && first != b'0');
    usual.then(|| text.parse().ok()).flatten()
}

/// Parses a number: an exact integer, a decimal, `nan` or `inf`.
pub(super) fn number(text: &str) -> Option<f64> {
    if let Some(value) = integer(text) {
        return exact(value);
    }
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let bytes = body.as_bytes();
    let padded = bytes.first() == Some(&b'0') && bytes.get(1).is_some_and(u8::is_ascii_digit);
    let digits_only = bytes.iter().all(u8::is_ascii_digit);
    if padded || (digits_only && body != "0") {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // Reject `1e999`, which would become infinite.
    (!value.is_infinite() || body.to_ascii_lowercase().starts_with("inf")).then_some(value)
}

#[allow(clippy::cast_precision_loss, reason = "the range is checked")]
pub(super) fn exact(value: i64) -> Option<f64> {
    (value.unsigned_abs() <= MAX_EXACT).then_some(value as f64)
}

pub(super) fn truth(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, value) in [("0", 0), ("-1", -1), ("42", 42), ("-9223372036854775808", i64::MIN)] {
            assert_eq!(integer(text), Some(value));
        }
        for text in ["", "-", "-0", "007", "+7", "1.0", "1e3", "9223372036854775808", " 1", "٣"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn numbers() {
        for (text, value) in
            [("0", 0.0), ("-1", -1.0), ("1.5", 1.5), ("+.5e-3", 0.0005), ("0.25", 0.25), ("-Inf", f64::NEG_INFINITY)]
        {
            assert_eq!(number(text), Some(value), "{text}");
        }
        assert!(number("NaN").is_some_and(f64::is_nan));
        assert_eq!(number("9007199254740992"), Some(9_007_199_254_740_992.0));
        for text in ["", "007", "00.5", "+7", "9007199254740993", "9223372036854775808", "1e999", "1,5", "x"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
