//! Gathers the facts that `inspect` prints from the manifest, the indexes of readable shards, and one record.

use super::first::{ArrayFacts, Wavelengths};
use super::segments::SegmentFacts;
use super::span::Span;
use crate::cli::show;
use crate::explain::explain;
use shardpack_format::{Field, FieldKind, Voice};
use shardpack_pack::pack::is_figure;
use shardpack_reader::{Dataset, Sample, Scalar, Shard};
use std::sync::Arc;

/// Name of the column for the class of each sample.
const LABEL: &str = "label";

pub(super) struct Facts {
    /// Total size of all shards in bytes.
    pub(super) bytes: u64,
    /// Sizes of the smallest and the largest record, or `None` if there are no records.
    pub(super) record_bytes: Option<(u64, u64)>,
    pub(super) spans: Vec<Span>,
    /// Number of samples in each class. `None` if no column contains one class per sample, for example because each box
    /// has a class.
    pub(super) class_counts: Option<Vec<u64>>,
    pub(super) arrays: Vec<ArrayFacts>,
    pub(super) wavelengths: Option<Wavelengths>,
    pub(super) segments: Option<SegmentFacts>,
    /// Number of unreadable shards, and a description of each problem.
    pub(super) unreadable_shards: u64,
    pub(super) problems: Vec<String>,
}

impl Facts {
    pub(super) fn gather(dataset: &Dataset) -> Self {
        let mut problems = Vec::new();
        let (mut shards, mut first) = (Vec::new(), 0);
        for (number, info) in dataset.shard_numbers().zip(dataset.shards()) {
            match dataset.shard(number) {
                Ok(shard) => shards.push((first, shard)),
                Err(error) => problems.push(show::said(&error)),
            }
            first += info.samples;
        }
        let unreadable_shards = problems.len() as u64;
        let spans = spans(dataset, &shards);
        let (mut arrays, mut wavelengths) = (Vec::new(), None);
        if let Some(sample) = first_sample(dataset, &shards, &mut problems) {
            let found = ArrayFacts::of(&sample, &spans).and_then(|a| Ok((a, Wavelengths::of(&sample)?)));
            match found {
                Ok(found) => (arrays, wavelengths) = found,
                Err(error) => problems.push(explain(&error, Voice::Command)),
            }
        }
        let segments = SegmentFacts::of(dataset, &shards).unwrap_or_else(|error| {
            problems.push(show::said(&error));
            None
        });
        let lengths = || {
            let rows =
                shards.iter().flat_map(|(_, shard)| (0..shard.len()).filter_map(|record| shard.row(record).ok()));
            rows.map(|row| row.length)
        };
        Self {
            bytes: dataset.shards().map(|s| s.bytes).sum(),
            record_bytes: lengths().min().zip(lengths().max()),
            class_counts: class_counts(dataset, &shards),
            spans,
            arrays,
            wavelengths,
            segments,
            unreadable_shards,
            problems,
        }
    }
}

fn spans(dataset: &Dataset, shards: &[(u64, Arc<Shard>)]) -> Vec<Span> {
    let schema = dataset.schema();
    let shown = |f: &&Field| f.kind == FieldKind::Scalar && !is_figure(schema, &f.name);
    let span = |field: &Field| {
        let columns: Vec<_> = shards.iter().filter_map(|(_, shard)| shard.column(&field.name)).collect();
        Span::of(field, columns.iter().flat_map(shardpack_reader::Column::values))
    };
    schema.fields().iter().filter(shown).map(span).collect()
}

fn class_counts(dataset: &Dataset, shards: &[(u64, Arc<Shard>)]) -> Option<Vec<u64>> {
    let is_label = |field: &Field| field.kind == FieldKind::Scalar && field.name == LABEL;
    dataset.schema().fields().iter().find(|field| is_label(field))?;
    let mut counts = vec![0; dataset.classes().map_or(0, <[String]>::len)];
    for column in shards.iter().filter_map(|(_, shard)| shard.column(LABEL)) {
        for label in column.values().filter_map(Scalar::as_i64) {
            if let Some(count) = usize::try_from(label).ok().and_then(|i| counts.get_mut(i)) {
                *count += 1;
            }
        }
    }
    Some(counts)
}

fn first_sample(dataset: &Dataset, shards: &[(u64, Arc<Shard>)], problems: &mut Vec<String>) -> Option<Sample> {
    shards.iter().filter(|(_, shard)| !shard.is_empty()).find_map(|(first, _)| match dataset.get(*first) {
        Ok(sample) => Some(sample),
        Err(error) => {
            problems.push(show::said(&error));
            None
        }
    })
}
