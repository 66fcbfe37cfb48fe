//! Sizes, counts and rates: parsed from arguments, and formatted for people.

use shardpack_report::words;

/// Reads a size: `1048576`, `8MiB`, `1GiB`, `500MB`. KiB, MiB, GiB, TiB are powers of two; kB, MB,
/// GB, TB powers of ten.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("unknown unit `{unit}`: expected KiB, MiB, GiB, TiB, kB, MB, GB or TB")),
    };
    let too_large = || format!("`{text}` is more than 2^63 bytes");
    let bytes = match number.split_once('.') {
        None => number
            .parse::<u64>()
            .map_err(|_| format!("expected a number and a unit such as 8MiB, found `{text}`"))?
            .checked_mul(factor)
            .ok_or_else(too_large)?,
        Some(_) => {
            let value: f64 =
                number.parse().map_err(|_| format!("expected a number and a unit such as 8MiB, found `{text}`"))?;
            let bytes = value * factor as f64;
            if bytes >= 9e18 {
                return Err(too_large());
            }
            // Checked to be in range; fractions of a byte are dropped on purpose.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let whole = bytes as u64;
            whole
        }
    };
    match bytes {
        0 => Err("expected a size above zero".into()),
        n if n > 1 << 63 => Err(too_large()),
        n => Ok(n),
    }
}

/// Reads `480x640`.
pub(crate) fn parse_spatial(text: &str) -> Result<(u64, u64), String> {
    let fail = || format!("expected height and width such as 100x120, found `{text}`");
    let (h, w) = text.split_once(['x', 'X', '×']).ok_or_else(fail)?;
    match (h.trim().parse(), w.trim().parse()) {
        (Ok(h), Ok(w)) if h > 0 && w > 0 => Ok((h, w)),
        _ => Err(fail()),
    }
}

/// Reads `2/8`: part 2 of 8, counted from 1.
pub(crate) fn parse_part(text: &str) -> Result<(u32, u32), String> {
    let fail = || format!("expected a part and a count such as 1/4 … 4/4, found `{text}`");
    let (i, n) = text.split_once('/').ok_or_else(fail)?;
    match (i.trim().parse(), n.trim().parse()) {
        (Ok(i), Ok(n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err(fail()),
    }
}

/// Reads `ssimulacra2=80`.
pub(crate) fn parse_target(text: &str) -> Result<f64, String> {
    let fail = || format!("expected ssimulacra2=S with S between 1 and 100, found `{text}`");
    let score = text.strip_prefix("ssimulacra2=").and_then(|score| score.parse().ok()).ok_or_else(fail)?;
    if (1.0..=100.0).contains(&score) { Ok(score) } else { Err(fail()) }
}

/// Reads a number of threads.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1024) => Ok(n),
        _ => Err(format!("expected a number from 1 to 1024, found `{text}`")),
    }
}

/// A number for the page as one for a terminal, where it can be searched for.
fn plain(text: String) -> String {
    text.replace(words::NBSP, " ")
}

/// `109.6 MB`: three significant digits, powers of ten.
pub(crate) fn bytes(n: u64) -> String {
    plain(words::bytes(n as f64))
}

/// `1.94 GB/s`.
pub(crate) fn rate(bytes: u64, seconds: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people: whole bytes will do"
    )]
    let per_s = (bytes as f64 / seconds.max(1e-9)) as u64;
    format!("{}/s", self::bytes(per_s))
}

/// `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    words::count(n)
}

/// `1 sample`, `2 samples`.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    plain(words::plural(n, noun))
}

/// `4.2 ms`, `42 ms`, `0.42 s`, `12.3 s`, `3 min 20 s`.
pub(crate) fn seconds(s: f64) -> String {
    plain(words::seconds(s))
}

/// A number with `digits` significant digits; scientific notation only if plain digits would be
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
    fn sizes_are_read_in_both_bases() {
        assert_eq!(parse_bytes("8MiB"), Ok(8 << 20));
        assert_eq!(parse_bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("500MB"), Ok(500_000_000));
        assert_eq!(parse_bytes("64"), Ok(64));
        for bad in ["", "MiB", "8 potatoes", "0", "99999999999TiB", "-1", "1.2.3MB"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_count_from_one() {
        assert_eq!(parse_part("1/4"), Ok((1, 4)));
        for bad in ["0/4", "5/4", "1", "a/b", "1/0"] {
            assert!(parse_part(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_target("ssimulacra2=80.5"), Ok(80.5));
        for bad in ["80", "ssimulacra2=", "ssimulacra2=0", "ssimulacra2=101", "psnr=40", "ssimulacra2=NaN"] {
            assert!(parse_target(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_spatial("100x95"), Ok((100, 95)));
        assert!(parse_spatial("100").is_err() && parse_spatial("0x4").is_err());
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0, 999, 1_000, 109_612_345, 999_999_999].map(bytes),
            ["0 B", "999 B", "1.00 kB", "110 MB", "1.00 GB"]
        );
        assert_eq!([0, 12, 1234, 1_234_567].map(count), ["0", "12", "1,234", "1,234,567"]);
        assert_eq!(significant(0.000_244_14, 3), "0.000244");
        assert_eq!(significant(1.5e-7, 3), "1.50e-7");
        assert_eq!(significant(12345.678, 3), "12346");
        assert_eq!(
            [0.00042, 0.00996, 0.0421, 0.0996, 0.42, 12.34, 200.0].map(seconds),
            ["0.4 ms", "10 ms", "42 ms", "0.10 s", "0.42 s", "12.3 s", "3 min 20 s"]
        );
    }
}
