//! Creates and checks the names in a dataset that become file names: shard names and sample keys (spec §3.4).

use crate::error::{Error, Result};

/// Maximum length of a sample key in bytes.
pub const MAX_KEY_BYTES: u64 = 4096;

/// Returns the name of shard `number`.
///
/// ```
/// assert_eq!(shardpack_format::shard_name(7), "shard-00007.shard");
/// ```
#[must_use]
pub fn shard_name(number: u32) -> String {
    format!("shard-{number:05}.shard")
}

/// Returns the name of shard `number` in `generation`. Used if a shard of an older generation already has the plain
/// name.
///
/// ```
/// assert_eq!(shardpack_format::shard_name_of(7, 2), "shard-00007-0002.shard");
/// ```
#[must_use]
pub fn shard_name_of(number: u32, generation: u32) -> String {
    format!("shard-{number:05}-{generation:04}.shard")
}

/// Returns the name of the columns file that `generation` adds for shard `number` (spec §3.6).
///
/// ```
/// assert_eq!(shardpack_format::columns_name(7, 2), "columns-00007-0002.shard");
/// ```
#[must_use]
pub fn columns_name(number: u32, generation: u32) -> String {
    format!("columns-{number:05}-{generation:04}.shard")
}

/// Returns the file name of an older generation's manifest (spec §3.5).
///
/// ```
/// assert_eq!(shardpack_format::generation_name(1), "manifest-0001.json");
/// ```
#[must_use]
pub fn generation_name(generation: u32) -> String {
    format!("manifest-{generation:04}.json")
}

/// Returns the generation in a name from [`generation_name`].
///
/// ```
/// use shardpack_format::generation_of_name;
/// assert_eq!(generation_of_name("manifest-0012.json"), Some(12));
/// assert_eq!(generation_of_name("manifest-12.json"), None);
/// ```
#[must_use]
pub fn generation_of_name(name: &str) -> Option<u32> {
    let number = name.strip_prefix("manifest-")?.strip_suffix(".json")?.parse().ok()?;
    (number > 0 && generation_name(number) == name).then_some(number)
}

/// Returns the generation in a name from [`shard_name_of`] or [`columns_name`].
///
/// ```
/// use shardpack_format::generation_of_shard_name;
/// assert_eq!(generation_of_shard_name("shard-00007-0002.shard"), Some(2));
/// assert_eq!(generation_of_shard_name("columns-00007-0002.shard"), Some(2));
/// assert_eq!(generation_of_shard_name("shard-00007.shard"), None);
/// ```
#[must_use]
pub fn generation_of_shard_name(name: &str) -> Option<u32> {
    let (_, numbers) = name.strip_suffix(".shard")?.split_once('-')?;
    let (number, generation) = numbers.split_once('-')?;
    let (number, generation) = (number.parse().ok()?, generation.parse().ok()?);
    let is_ours = [shard_name_of(number, generation), columns_name(number, generation)].iter().any(|own| own == name);
    is_ours.then_some(generation)
}

/// Checks a shard name from a manifest: a file name, optionally with a folder, in the characters `A–Z a–z 0–9 . _ -`.
///
/// # Errors
/// `Format` if the name could lead outside the dataset's folder, or have a different meaning on another operating
/// system.
pub fn check_shard_name(name: &str) -> Result<()> {
    let fail = |why| Err(Error::format("shard name", why, format!("{name:?}")));
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return fail("FILE or FOLDER/FILE");
    }
    for part in parts {
        if part.is_empty() || part.len() > 255 {
            return fail("a file or folder name of 1 to 255 bytes");
        }
        if !part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return fail("a name with only the characters A-Z a-z 0-9 . _ -");
        }
        if part.starts_with('.') || part.ends_with('.') {
            return fail("a name whose parts neither begin nor end with a dot");
        }
        let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let numbered = |prefix| stem.strip_prefix(prefix).is_some_and(|n: &str| matches!(n.as_bytes(), [b'1'..=b'9']));
        if matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt") {
            return fail("a name other than those that Windows reserves (CON, NUL, COM1, …)");
        }
    }
    Ok(())
}

/// Checks a sample key: a relative path with `/`, without empty, `.` or `..` parts and without control characters.
///
/// # Errors
/// `Format` if it violates these rules.
///
/// ```
/// use shardpack_format::check_key;
/// assert!(check_key("n01440764/tench.JPEG").is_ok());
/// assert!(check_key("../etc/passwd").is_err());
/// ```
pub fn check_key(key: &str) -> Result<()> {
    let fail = |why| Err(Error::format("sample key", why, format!("{:?}", key.get(..80).unwrap_or(key))));
    if key.is_empty() || key.len() as u64 > MAX_KEY_BYTES {
        return fail("a key of 1 to 4096 bytes");
    }
    if key.chars().any(char::is_control) {
        return fail("a key without control characters");
    }
    if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return fail("a relative path without `.`, `..` or empty parts (as in `a//b`)");
    }
    Ok(())
}
