//! The report that a packing run returns.

use crate::encode::OddPicture;
use shardpack_array::Trial;
use shardpack_format::{Hint, Note, Setting};
use shardpack_sources::words::plural;
use shardpack_sources::{BadInput, LabelsFrom, Listing, SourceKind};
use shardpack_writer::Report;

/// The result of [`pack`](super::pack).
#[derive(Debug)]
pub struct PackReport {
    /// Type of the samples: pictures or cubes.
    pub kind: SourceKind,
    /// The writer's report.
    pub report: Report,
    /// Number of classes, or 0 if there are none.
    pub classes: u64,
    /// Source of the labels: folder names, a table column, or nothing.
    pub labels_from: LabelsFrom,
    /// Files that were skipped before the run began. Empty unless the policy is to skip them.
    pub bad: Vec<BadInput>,
    /// Pictures of this run with oddities that decoders ignore.
    pub odd_pictures: Vec<OddPicture>,
    /// Notes for the user.
    pub notes: Vec<Note>,
    /// Number of pictures with more than 8 bits per sample. Loaders decode them to 8 bits.
    pub deep_pictures: u64,
    /// Codec candidates tried for each array field, best first.
    pub trials: Vec<(String, Trial)>,
    /// Memory limit for samples during the run, in bytes.
    pub memory_bytes: u64,
}

impl PackReport {
    pub(crate) fn of(listing: &Listing, report: Report, trials: Vec<(String, Trial)>, memory_bytes: u64) -> Self {
        Self {
            classes: listing.classes.len() as u64,
            labels_from: listing.labels_from.clone(),
            bad: listing.bad.clone(),
            notes: listing.notes.iter().cloned().chain(report.notes.iter().cloned().map(Note::new)).collect(),
            deep_pictures: shardpack_sources::deep(&listing.samples).count() as u64,
            trials,
            memory_bytes,
            ..Self::unchanged(listing.kind, report)
        }
    }

    pub(crate) fn unchanged(kind: SourceKind, report: Report) -> Self {
        Self {
            kind,
            report,
            classes: 0,
            labels_from: LabelsFrom::Nothing,
            bad: Vec::new(),
            odd_pictures: Vec::new(),
            notes: Vec::new(),
            deep_pictures: 0,
            trials: Vec::new(),
            memory_bytes: 0,
        }
    }

    pub(crate) fn add_odd(&mut self, odd: Vec<OddPicture>) {
        self.notes.extend(odd_note(&odd));
        self.odd_pictures = odd;
    }
}

/// Returns a note if every shard has only one sample, because the user probably forgot the unit of the shard size.
pub(super) fn tiny_shards(samples: u64, shards: u32, shard_bytes: u64) -> Option<Note> {
    const TINY: u64 = 1 << 20;
    (samples > 1 && u64::from(shards) == samples && shard_bytes < TINY).then(|| {
        let note = format!(
            "each of the {samples} samples becomes a separate shard, because a shard has at most {shard_bytes} bytes"
        );
        Note::new(note)
            .with_hint(Hint::new("choose larger shards, for example ").and([Setting::word("shard_size", "256MiB")]))
    })
}

pub(super) fn idle_parts(parts: u32, shards: u32) -> Option<Note> {
    let only = plural(u64::from(shards), "shard");
    (parts > shards).then(|| {
        let note = Note::new(format!("the dataset has only {only}, so some of the {parts} parts would be empty"));
        note.with_hint(Hint::new("choose a smaller ").and([Setting::named("shard_size")]).then(" to get more shards"))
    })
}

fn odd_note(pictures: &[OddPicture]) -> Option<Note> {
    let first = pictures.first()?;
    let (key, what) = (first.key.escape_debug(), first.what.lines().next().unwrap_or_default());
    Some(match pictures.len() {
        1 => format!("1 picture has a flaw that decoders ignore: `{key}`: {what}").into(),
        n => Note::new(format!("{n} pictures have flaws that decoders ignore (first: `{key}`: {what})"))
            .with_hint("see `odd_pictures` in the JSON report for all of them"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Voice;

    #[test]
    fn a_note_tells_that_each_sample_is_a_shard() {
        let note = tiny_shards(30, 30, 10).unwrap().told(Voice::Command);
        assert_eq!(
            note,
            "each of the 30 samples becomes a separate shard, because a shard has at most 10 bytes\n\
             hint: choose larger shards, for example `--shard-size 256MiB`"
        );
        // There is no note for large samples, for shards with several samples, or for a single sample.
        for (samples, shards, bytes) in [(30, 30, 1 << 30), (30, 15, 10), (1, 1, 10)] {
            assert!(tiny_shards(samples, shards, bytes).is_none(), "{samples} {shards} {bytes}");
        }
    }
}
