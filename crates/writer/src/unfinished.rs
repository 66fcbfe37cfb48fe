//! The parts that [`merge`](crate::merge()) cannot merge yet. They can be formatted as an array expression for a job
//! system.

use crate::part::Part;
use shardpack_format::Hint;
use std::fmt;
use std::path::PathBuf;

const SHOWN: usize = 10;

/// The parts of a dataset that must be packed again before the dataset can be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Folder of the dataset.
    pub folder: PathBuf,
    /// Total number of parts, or `None` if the dataset was not written in parts.
    pub parts: Option<u32>,
    /// Total number of shards in all parts.
    pub shards: u32,
    /// The unfinished parts, in order. Never empty.
    pub unfinished: Vec<UnfinishedPart>,
}

/// A part that still has shards to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedPart {
    /// Index of the part, and the number of parts.
    pub part: Part,
    /// True if there is a journal of this part.
    pub begun: bool,
    /// Number of shards in the part.
    pub shards: u32,
    /// Number of finished and undamaged shards.
    pub finished: u32,
    /// Description of the first finished shard that is damaged or missing.
    pub damage: Option<String>,
}

impl Unfinished {
    /// Returns the part numbers, counted from 1, in the syntax of Slurm's `--array`.
    #[must_use]
    pub fn array(&self) -> String {
        array_expression(self.unfinished.iter().map(|part| part.part.index().saturating_add(1)))
    }
}

impl UnfinishedPart {
    /// Returns the state of the part: `missing`, `half done` or `damaged`.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        match (self.begun, &self.damage) {
            (_, Some(_)) => "damaged",
            (true, None) => "half done",
            (false, None) => "missing",
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: u64 =
            self.unfinished.iter().map(|part| u64::from(part.shards.saturating_sub(part.finished))).sum();
        let (folder, shards) = (self.folder.display(), self.shards);
        let (noun, are) = if shards == 1 { ("shard", "is") } else { ("shards", "are") };
        write!(f, "folder `{folder}`: {missing} of {shards} {noun} {are} missing: ")?;
        for (i, part) in self.unfinished.iter().take(SHOWN).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let (number, state, finished, shards) = (part.part, part.state(), part.finished, part.shards);
            let noun = if shards == 1 { "shard" } else { "shards" };
            write!(f, "{comma}part {number} is {state} ({finished} of {shards} {noun})")?;
        }
        match self.unfinished.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, ", and {more} more parts")?,
        }
        if let Some(damage) = self.unfinished.iter().find_map(|part| part.damage.as_ref()) {
            write!(f, "; {damage}")?;
        }
        Ok(())
    }
}

impl Unfinished {
    /// Returns a hint that names the next step.
    #[must_use]
    pub fn hint(&self) -> Hint {
        match self.parts {
            Some(_) => {
                let noun = if self.unfinished.len() == 1 { "part" } else { "parts" };
                format!("pack {noun} {} again, then merge", self.array()).into()
            }
            None => "run the same `pack` command again: it finishes the dataset, and no merge is needed".into(),
        }
    }
}

/// Formats ascending numbers as an expression such as `17,203-210`.
///
/// ```
/// assert_eq!(shardpack_writer::array_expression([1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
/// ```
#[must_use]
pub fn array_expression(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let texts = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}
