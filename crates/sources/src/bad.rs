//! Describes files that cannot be packed, with their problems and hints for the user.

use crate::words::plural;
use serde::{Deserialize, Serialize};
use shardpack_format::{Hint, Setting};
pub use shardpack_recipe::OnBadInput;
use std::collections::BTreeMap;
use std::fmt;

/// Category of a file's problem, used for counting files by category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BadKind {
    /// The file name is not UTF-8 or contains control characters, or the path is too long.
    Name,
    /// The file is a symbolic link that leads out of the source, is part of a cycle, or is dangling.
    Link,
    /// The file is a pipe, a socket or a device.
    Special,
    /// The operating system does not allow reading the file.
    Unreadable,
    /// The file is empty.
    Empty,
    /// The type of the content is not recognised.
    Unknown,
    /// The type of the content is recognised, but cannot be packed.
    Unsupported,
    /// The content violates its own format or is truncated.
    Damaged,
    /// The file is a picture among cubes or a cube among pictures.
    WrongKind,
    /// The sample is not in a split folder.
    NoSplit,
    /// The sample is not in a class folder.
    NoClass,
    /// The picture is not in a clip's folder, or the clip lacks frames.
    NoClip,
    /// The sample has no mask, several masks, or a mask of the wrong size.
    Mask,
}

impl BadKind {
    /// Returns the plural name of the category, as used in a list of counts.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Name => "unusable name",
            Self::Link => "symbolic link not followed",
            Self::Special => "not a regular file",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty file",
            Self::Unknown => "unknown content",
            Self::Unsupported => "unsupported content",
            Self::Damaged => "damaged",
            Self::WrongKind => "wrong kind of sample",
            Self::NoSplit => "not in a split",
            Self::NoClass => "not in a class folder",
            Self::NoClip => "incomplete clip",
            Self::Mask => "no usable mask",
        }
    }
}

/// A problem with a file, without the file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Category of the problem, for counting.
    pub kind: BadKind,
    /// Expected and actual content, in words.
    pub detail: String,
    /// Hint for the user.
    pub hint: Option<Hint>,
}

impl Flaw {
    pub(crate) fn new(kind: BadKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<Option<Hint>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    pub(crate) fn damaged(detail: impl Into<String>) -> Self {
        Self::new(BadKind::Damaged, detail)
    }

    pub(crate) fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(BadKind::Unsupported, detail)
    }

    pub(crate) fn of(self, key: impl Into<String>) -> BadInput {
        BadInput { key: key.into(), kind: self.kind, detail: self.detail, hint: self.hint }
    }
}

impl From<std::io::Error> for Flaw {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::damaged("the file is truncated"),
            _ => Self::new(BadKind::Unreadable, error.to_string()),
        }
    }
}

/// A file that cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadInput {
    /// Path below the source. Bytes that are not UTF-8 are escaped as `\xNN`.
    pub key: String,
    /// Category of the problem, for counting.
    pub kind: BadKind,
    /// Expected and actual content, in words.
    pub detail: String,
    /// Hint for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key.escape_debug(), self.detail.lines().next().unwrap_or_default())
    }
}

const NAMED: usize = 20;
const HINTS: usize = 3;

/// All files of a source that cannot be packed. The error message lists the first twenty files, and counts all
/// files by category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInputs {
    /// All files, sorted by key.
    pub list: Vec<BadInput>,
    /// Number of examined files and samples, both good and bad.
    pub of: u64,
}

impl BadInputs {
    /// Returns the number of files in each category, largest first.
    #[must_use]
    pub fn counts(&self) -> Vec<(BadKind, u64)> {
        let mut counts = BTreeMap::new();
        for bad in &self.list {
            *counts.entry(bad.kind).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(kind, count)| (std::cmp::Reverse(count), kind));
        counts
    }
}

impl fmt::Display for BadInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.list.len();
        writeln!(f, "{count} of {} cannot be packed:", plural(self.of, "file"))?;
        for bad in self.list.iter().take(NAMED) {
            writeln!(f, "  {bad}")?;
        }
        if count > NAMED {
            writeln!(f, "  … and {} more", count - NAMED)?;
        }
        let counts: Vec<_> = self.counts().iter().map(|(kind, count)| format!("{}: {count}", kind.title())).collect();
        f.write_str(&counts.join("\n"))
    }
}

impl BadInputs {
    /// Returns each file's hint once. If some files are good, adds a hint about the option that skips bad files.
    #[must_use]
    pub fn hints(&self) -> Vec<Hint> {
        let mut hints: Vec<Hint> = Vec::new();
        for hint in self.list.iter().filter_map(|bad| bad.hint.as_ref()) {
            if hints.len() < HINTS && !hints.contains(hint) {
                hints.push(hint.clone());
            }
        }
        if (self.list.len() as u64) < self.of {
            let skip = Hint::new("pass ").and([Setting::word("on_bad_input", "skip")]);
            hints.push(skip.then(" to skip these files and pack the others"));
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Voice;

    fn bads(n: usize) -> BadInputs {
        let kind = |i| if i % 3 == 0 { BadKind::Empty } else { BadKind::Damaged };
        let list = (0..n).map(|i| Flaw::new(kind(i), format!("reason {i}")).of(format!("k{i:02}\n"))).collect();
        BadInputs { list, of: 100 }
    }

    #[test]
    fn names_twenty_and_counts_all() {
        let text = bads(25).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "25 of 100 files cannot be packed:");
        assert_eq!(lines[1], r"  `k00\n`: reason 0");
        assert_eq!(lines[20], r"  `k19\n`: reason 19");
        assert_eq!(lines[21..], ["  … and 5 more", "damaged: 16", "empty file: 9"]);
        assert!(!bads(20).to_string().contains("more"));
    }

    #[test]
    fn one_file_is_no_files() {
        let text = BadInputs { of: 1, ..bads(1) }.to_string();
        assert!(text.starts_with("1 of 1 file cannot be packed:\n"), "{text}");
    }

    #[test]
    fn each_hint_occurs_once_at_the_end() {
        let list = (0..9).map(|i| Flaw::damaged("no").with_hint(Hint::new(format!("do {}", i / 2))).of("k")).collect();
        let bad = BadInputs { list, of: 10 };
        assert!(!bad.to_string().contains("do 0"));
        let hints: Vec<_> = bad.hints().iter().map(|hint| hint.told(Voice::Command)).collect();
        assert_eq!(
            hints,
            ["do 0", "do 1", "do 2", "pass `--on-bad-input skip` to skip these files and pack the others"]
        );
        assert_eq!(BadInputs { of: 9, ..bad }.hints().len(), 3, "nothing is left to pack");
    }
}
