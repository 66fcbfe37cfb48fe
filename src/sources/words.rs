//! Numbers in sentences.

/// `1 file`, `2 files`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The singular or the plural form of a verb.
pub(crate) const fn verb<'a>(count: u64, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// `` `a`, `b`, … ``: the first `most` of `names`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<_> = names.by_ref().take(most).map(|name| format!("`{}`", name.escape_debug())).collect();
    if names.next().is_some() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
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
    }
}
