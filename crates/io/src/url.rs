//! Tells URLs and paths apart.

/// Returns whether the text is a URL rather than a path, that is, whether it begins with a scheme of letters
/// and digits before `://`.
///
/// ```
/// use shardpack_io::is_url;
/// assert!(is_url("s3://bucket/train") && is_url("file:///data/train"));
/// assert!(!is_url("data/train") && !is_url("/data/a://b"));
/// ```
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}
