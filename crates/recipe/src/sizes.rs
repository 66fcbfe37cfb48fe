//! Formats and parses sizes in bytes, such as `64MiB`.

const UNITS: [(&str, u64); 8] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

/// Parses a size such as `1048576`, `8MiB`, `1GiB` or `500MB`. The units KiB, MiB, GiB and TiB are powers of two. The
/// units kB, MB, GB and TB are powers of ten.
///
/// ```
/// assert_eq!(shardpack_recipe::parse_size("64MiB"), Ok(64 << 20));
/// assert!(shardpack_recipe::parse_size("much").is_err());
/// ```
///
/// # Errors
/// A message that states the expected and the found value.
pub fn parse_size(text: &str) -> Result<u64, String> {
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
    let wrong = || format!("`{text}` is not a valid size: expected a number and a unit, such as 8MiB");
    let too_large = || format!("`{text}` is more than 2^63 bytes");
    let bytes = match number.split_once('.') {
        None => number.parse::<u64>().map_err(|_| wrong())?.checked_mul(factor).ok_or_else(too_large)?,
        Some(_) => {
            let value: f64 = number.parse().map_err(|_| wrong())?;
            let bytes = value * factor as f64;
            if bytes >= 9e18 {
                return Err(too_large());
            }
            // The range has been checked. A fraction of a byte is dropped on purpose.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let whole = bytes as u64;
            whole
        }
    };
    match bytes {
        0 => Err("the size must be above 0".into()),
        n if n > 1 << 63 => Err(too_large()),
        n => Ok(n),
    }
}

/// Formats a size in the largest unit that divides it. [`parse_size`] can read the result.
///
/// ```
/// use shardpack_recipe::spelled_size;
/// assert_eq!([4 << 30, 1500, 100_000_000_000].map(spelled_size), ["4GiB", "1500", "100GB"]);
/// ```
#[must_use]
pub fn spelled_size(bytes: u64) -> String {
    let whole =
        UNITS.iter().filter(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)).max_by_key(|(_, unit)| *unit);
    whole.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}
