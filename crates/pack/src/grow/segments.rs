//! Adds segment indexes to a dataset's pictures (spec §5.5) by rewriting its shards as a new generation.

use super::whole_record::{ShardRecords, WholeRecord, kept_sample};
use super::{RewriteOptions, open};
use crate::encode::{FidelityTotals, RecordNumber, copy_record};
use crate::lock::lock;
use crate::pack::with_notes;
use crate::{Error, bail};
use serde::Serialize;
use shardpack_format::{
    Codec, Dtype, Field, FieldKind, FieldValue, Hinted, Limits, Manifest, Metadata, Record, Schema,
};
use shardpack_jpeg::SegmentIndexer;
use shardpack_recipe::{DatasetRecipe, PictureOptions};
use shardpack_writer::{Encoded, Growth, KeptSample, Next, Output, Plan, SampleSource, Tally as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of [`add_indexes`]. Serialises to the object `segment_index` that `compact --segment-index --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Number of the newest generation.
    pub generation: u32,
    /// Number of pictures that were given an index.
    pub indexed: u64,
    /// Total size of the new indexes in bytes.
    pub index_bytes: u64,
    /// Number of damaged pictures. They were copied unchanged.
    pub damaged: u64,
    /// Number of rewritten shards, or 0 if the dataset already has indexes.
    pub shards: u32,
    /// Total size of the rewritten shards, in bytes.
    pub bytes_out: u64,
    /// Notes for the user.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Creates a new generation of the dataset in the folder `dataset`, with a segment index for each JPEG that is
/// stored unchanged and can use an index. Rewrites all shards, but does not change the pictures. Added columns become
/// part of the shards. Older generations stay until [`compact`](super::compact) deletes them.
///
/// An interrupted run leaves the dataset unchanged, and repeating the call continues the run. A dataset that
/// already has indexes does not change.
///
/// # Errors
/// Fails if there is no dataset, if it has no pictures that are stored unchanged, if a record is damaged, or if
/// the dataset cannot be written.
pub fn add_indexes(dataset: impl Into<Output>, options: &RewriteOptions<'_>) -> crate::Result<IndexReport> {
    let dataset = &dataset.into();
    let growth = Growth::take(dataset.clone())?;
    let opened = open(dataset, &options.limits)?;
    let base = growth.manifest();
    let wanted = pictures(base);
    if wanted.is_empty() {
        let text = format!(
            "`{}` has no pictures that were stored unchanged, so there is nothing to index",
            dataset.path().display()
        );
        bail!(Hinted::new(
            text,
            "tiled and re-encoded pictures need no segment index: loaders can decode them in parts"
        ));
    }
    let has_index = |name: &&str| {
        let index = Field::segments(name);
        base.schema.fields().contains(&index) && base.schema.is_segment_index(&index)
    };
    if wanted.iter().all(has_index) {
        let generation = opened.generation();
        let (indexed, index_bytes, damaged, shards, bytes_out) = (0, 0, 0, 0, 0);
        return Ok(IndexReport { generation, indexed, index_bytes, damaged, shards, bytes_out, notes: Vec::new() });
    }
    let metadata = metadata(base, opened.schema(), &wanted)?;
    let source = RewrittenRecords::new(ShardRecords::all(&opened)?, &metadata.schema, &options.limits, 4);
    let plan = Plan::anew(base, metadata.clone(), &source.shards()?)?;
    let largest = (0..opened.len()).map(|sample| source.memory_bytes(sample));
    let write = options.to_write(largest.max().unwrap_or(0));
    let fidelity = |total: &FidelityTotals| with_notes(total.fidelity(), &base.fidelity);
    let written = growth.write(&plan, &source, Next { kept: BTreeMap::new(), fidelity: &fidelity }, &write)?;
    Ok(IndexReport {
        generation: open(dataset, &options.limits)?.generation(),
        indexed: source.indexed.into_inner(),
        index_bytes: source.index_bytes.into_inner(),
        damaged: source.damaged.into_inner(),
        shards: written.shards,
        bytes_out: written.bytes_out,
        notes: written.notes,
    })
}

/// Returns the picture fields whose JPEGs are stored unchanged according to the recipe. Leaves out
/// clips, because they have no index.
fn pictures(base: &Manifest) -> Vec<&str> {
    let recipe = DatasetRecipe::read(&base.shard_recipe());
    let is_kept = |name: &str| recipe.pictures(name).is_none_or(|how| how.keeps_files());
    let is_clip = |name: &str| {
        base.schema.scalar_position(&format!("{name}.frames")).is_some_and(|(_, dtype)| dtype == Dtype::U32)
    };
    let pictures = base.schema.fields().iter().filter(|field| field.kind == FieldKind::Image);
    pictures.map(|field| field.name.as_str()).filter(|name| is_kept(name) && !is_clip(name)).collect()
}

/// Returns the dataset's metadata with added fields for the indexes of these pictures. `all` are its present fields.
fn metadata(base: &Manifest, all: &Schema, wanted: &[&str]) -> crate::Result<Metadata> {
    let mut recipe = DatasetRecipe::read(&base.shard_recipe());
    let mut fields = Vec::new();
    for field in all.fields() {
        fields.push(field.clone());
        let index = Field::segments(&field.name);
        if wanted.contains(&field.name.as_str()) && !all.fields().contains(&index) {
            fields.push(index);
        }
    }
    for name in wanted {
        recipe.set_pictures(name, &PictureOptions::Keep { segment_index: true });
    }
    let schema = Schema::new(fields)?;
    let is_users = |field: &&Field| schema.is_segment_index(field) && !all.is_segment_index(field);
    if let Some(field) = all.fields().iter().find(is_users) {
        let text = format!(
            "cannot add the segment index `{}`, because the dataset already has another field with this name",
            field.name
        );
        bail!(Hinted::new(text, "rename this field, and pack the dataset again"));
    }
    Ok(Metadata { schema, classes: base.classes.clone(), recipe: recipe.to_map(), shards: None })
}

/// Returns the byte offset of the column `gpu_jpeg` in the packed scalars. This column describes the dataset's only
/// picture field.
fn gpu_jpeg(schema: &Schema) -> Option<usize> {
    let pictures = schema.fields().iter().filter(|field| field.kind == FieldKind::Image).count();
    let (position, dtype) = schema.scalar_position("gpu_jpeg")?;
    let before = schema.scalars().take(position).map(|(_, dtype)| dtype.size()).sum();
    (pictures == 1 && dtype == Dtype::Bool).then_some(before)
}

/// Records of a dataset as samples for the writer. Fields of `schema` that a record lacks are segment indexes, which are
/// added.
pub(super) struct RewrittenRecords<'a> {
    schema: &'a Schema,
    limits: &'a Limits,
    records: ShardRecords,
    /// Memory for a record as a multiple of its size: its bytes, a copy, and the buffers of the indexer.
    copies: u64,
    /// Position of `gpu_jpeg` in the packed scalars, if the dataset has this column.
    gpu_jpeg: Option<usize>,
    idle: Mutex<Vec<SegmentIndexer>>,
    indexed: AtomicU64,
    index_bytes: AtomicU64,
    damaged: AtomicU64,
}

impl<'a> RewrittenRecords<'a> {
    pub(super) fn new(records: ShardRecords, schema: &'a Schema, limits: &'a Limits, copies: u64) -> Self {
        let (idle, indexed, index_bytes, damaged) = Default::default();
        let gpu_jpeg = gpu_jpeg(schema);
        Self { schema, limits, records, copies, gpu_jpeg, idle, indexed, index_bytes, damaged }
    }

    fn shards(&self) -> crate::Result<Vec<(u32, Vec<KeptSample>)>> {
        let mut shards: Vec<(u32, Vec<KeptSample>)> = Vec::new();
        for (shard, record) in &self.records.0 {
            let (number, sample) = (shard.identity().shard_number, kept_sample(shard, *record)?);
            match shards.last_mut() {
                Some((last, samples)) if *last == number => samples.push(sample),
                _ => shards.push((number, vec![sample])),
            }
        }
        Ok(shards)
    }

    /// Returns the index of a stored picture, or an empty one if the picture cannot use an index.
    fn index(&self, indexer: &mut SegmentIndexer, picture: Option<&FieldValue<'_>>) -> Vec<u8> {
        let mut index = Vec::new();
        let Some(picture) = picture.filter(|picture| picture.codec == Codec::Jpeg) else { return index };
        match indexer.index(picture.bytes, self.limits, &mut index) {
            // As in packing, a picture too large for this check gets no index.
            Ok(None) | Err(shardpack_format::Error::Limit { .. }) => {}
            Ok(Some(_)) => {
                self.indexed.fetch_add(1, Ordering::Relaxed);
                self.index_bytes.fetch_add(index.len() as u64, Ordering::Relaxed);
            }
            Err(_) => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                index.clear();
            }
        }
        index
    }
}

impl SampleSource for RewrittenRecords<'_> {
    type Tally = FidelityTotals;
    type Error = Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.records.key(sample)
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.records.bytes_in_files(sample).saturating_mul(self.copies)
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<FidelityTotals>, Error> {
        let (shard, record) = self.records.get(sample);
        let mut whole = WholeRecord::default();
        let record = whole.read(shard, record)?;
        let own = shard.schema();
        let old = |name: &str| record.fields.get(own.stored_position(name)?).copied().flatten();
        let mut indexer = lock(&self.idle).pop().unwrap_or_default();
        // Fields that the record lacks are the new fields for indexes.
        let indexes: Vec<Option<Vec<u8>>> = (self.schema.stored().map(|field| field.name.as_str()))
            .map(|name| {
                let picture = Field::picture_of_segments(name).filter(|_| own.stored_position(name).is_none())?;
                Some(self.index(&mut indexer, old(picture).as_ref()))
            })
            .collect();
        lock(&self.idle).push(indexer);
        let mut scalars = record.scalars.to_vec();
        // A GPU can decode every picture that has an index.
        if indexes.iter().flatten().any(|index| !index.is_empty())
            && let Some(value) = self.gpu_jpeg.and_then(|at| scalars.get_mut(at))
        {
            *value = 1;
        }
        let fields = self.schema.stored().zip(&indexes).map(|(field, index)| match index {
            None => old(&field.name),
            Some(index) if index.is_empty() => None,
            Some(bytes) => {
                let decoded_bytes = bytes.len() as u64;
                Some(FieldValue { codec: Codec::Raw, decoded_bytes, descriptor: &[], bytes })
            }
        });
        let fields = fields.collect();
        let record = Record { fields, scalars: &scalars, ..record };
        let totals = FidelityTotals::of_record(self.schema, record.key, record.scalars);
        let copy = copy_record(&record, self.schema, RecordNumber { shard: shard_number, sample }, buffer)?;
        Ok(Encoded::Record(copy.into_sample(record.frame.record_bytes, totals)))
    }
}
