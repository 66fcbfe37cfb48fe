//! Formats numbers and names for sentences.

/// Returns a number with a noun, such as `1 file` or `2 files`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the singular or plural form of a verb.
pub const fn verb<'a>(count: u64, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// Returns the first `most` of `names` as `` `a`, `b`, … ``.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<_> = names.by_ref().take(most).map(|name| format!("`{}`", short(name))).collect();
    if names.next().is_some() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// Maximum number of characters of a name in a message.
const SHORT: usize = 100;

/// Escapes a name from a file for a message, and shortens it if it is long.
pub fn short(name: &str) -> String {
    let mut chars = name.chars();
    let shown: String = chars.by_ref().take(SHORT).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("{}{more}", shown.escape_debug())
}

/// Returns the first 20 items, followed by the number of the others.
pub fn first<I: ExactSizeIterator<Item = String>>(all: I) -> String {
    const MOST: usize = 20;
    let more = all.len().saturating_sub(MOST);
    let shown = all.take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown}, and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many() {
        assert_eq!([0, 1, 2].map(|count| plural(count, "file")), ["0 files", "1 file", "2 files"]);
        assert_eq!([0, 1, 2].map(|count| verb(count, "has", "have")), ["have", "has", "have"]);
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(list(["a", "b\n"], 2), r"`a`, `b\n`");
        assert_eq!(list(["a", "b", "c"], 2), "`a`, `b`, …");
        assert_eq!(list([], 2), "");
        assert_eq!(list(["a".repeat(1 << 20).as_str()], 2), format!("`{}…`", "a".repeat(100)));
        let numbers = |count: u32| first((0..count).map(|number| number.to_string()));
        assert_eq!((numbers(0), numbers(2)), (String::new(), "0, 1".to_owned()));
        assert!(!numbers(20).contains("more") && numbers(1000).ends_with("18, 19, and 980 more"));
    }
}
