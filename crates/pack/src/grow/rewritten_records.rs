//! Records of a dataset, as they are written again when samples are removed or segment indexes are added.

use super::whole_record::{ShardRecords, WholeRecord, kept_sample};
use crate::Error;
use crate::encode::{FidelityTotals, RecordNumber, copy_record};
use crate::lock::lock;
use shardpack_format::{Codec, Dtype, Field, FieldKind, FieldValue, Limits, Record, Schema, bug, to_usize};
use shardpack_jpeg::SegmentIndexer;
use shardpack_writer::{Encoded, KeptSample, SampleSource};
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the byte offset of the column `gpu_jpeg` in the packed scalars. This column describes the dataset's only
/// picture field.
fn gpu_jpeg(schema: &Schema) -> Option<usize> {
    let pictures = schema.fields().iter().filter(|field| field.kind == FieldKind::Image).count();
    let (range, dtype) = schema.scalar_range("gpu_jpeg")?;
    (pictures == 1 && dtype == Dtype::Bool).then_some(range.start)
}

/// Records of a dataset as samples for the writer. Fields of `schema` that a record lacks are segment indexes,
/// which are added.
pub(super) struct RewrittenRecords<'a> {
    schema: &'a Schema,
    limits: &'a Limits,
    records: ShardRecords,
    /// Memory for a record as a multiple of its size: its bytes, a copy, and the buffers of the indexer.
    copies: u64,
    /// Position of `gpu_jpeg` in the packed scalars, if the dataset has this column.
    gpu_jpeg: Option<usize>,
    idle: Mutex<Vec<SegmentIndexer>>,
    pub(super) indexed: AtomicU64,
    pub(super) index_bytes: AtomicU64,
    pub(super) damaged: AtomicU64,
}

impl<'a> RewrittenRecords<'a> {
    pub(super) fn new(records: ShardRecords, schema: &'a Schema, limits: &'a Limits, copies: u64) -> Self {
        let (idle, indexed, index_bytes, damaged) = Default::default();
        let gpu_jpeg = gpu_jpeg(schema);
        Self { schema, limits, records, copies, gpu_jpeg, idle, indexed, index_bytes, damaged }
    }

    /// Returns the samples of each of the dataset's `count` shards, all of which are rewritten. A removal may have left
    /// a shard without samples.
    pub(super) fn shards(&self, count: usize) -> crate::Result<Vec<(u32, Vec<KeptSample>)>> {
        let mut shards: Vec<(u32, Vec<KeptSample>)> = (0..).zip(std::iter::repeat_n(Vec::new(), count)).collect();
        for (shard, record) in &self.records.0 {
            let of_record = shards.get_mut(to_usize(shard.identity().shard_number));
            let (_, samples) = of_record.unwrap_or_else(|| bug("a shard is not in the manifest"));
            samples.push(kept_sample(shard, *record)?);
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
