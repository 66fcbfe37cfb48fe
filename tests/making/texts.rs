//! Makes datasets of fake pictures. A fake picture is a few bytes in a picture field, under any
//! key.

use shardpack_format::{Codec, Field, FieldKind, Metadata, RecordBuilder, Schema, StoredField};
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::path::Path;

struct Pictures<'a>(Schema, &'a [(&'a str, &'a [u8])]);

impl SampleSource for Pictures<'_> {
    type Tally = shardpack_pack::pack::FidelityTotals;
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.1[usize::try_from(sample).unwrap()].0.into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        1000
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error> {
        let (key, bytes) = self.1[usize::try_from(sample).unwrap()];
        let length = bytes.len() as u64;
        let field =
            StoredField { codec: Codec::Raw, stored_bytes: length, decoded_bytes: length, descriptor: b"image/png" };
        let mut builder = RecordBuilder::new(buffer, &self.0, shard, sample, key, &[], &[Some(field)])?;
        builder.field_mut(0).copy_from_slice(bytes);
        let (record, frame) = builder.finish();
        let tally = Self::Tally::default();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars: Vec::new(), source_bytes: length, tally }))
    }
}

/// Writes a dataset of these samples, in this order, with `shard_bytes` per shard.
pub fn pictures(out: &Path, samples: &[(&str, &[u8])], shard_bytes: u64) {
    let schema = Schema::new(vec![Field::stored("image", FieldKind::Image)]).unwrap();
    let metadata = Metadata { schema: schema.clone(), ..Metadata::default() };
    let planned = samples.iter().map(|(key, bytes)| PlanSample {
        key,
        source_bytes: bytes.len() as u64,
        stored_bytes: 256,
        ..PlanSample::default()
    });
    let plan = Plan::new(planned, metadata, PlanOptions { shard_bytes, shuffle: None }).unwrap();
    write_dataset(out, &plan, &Pictures(schema, samples), &WriteOptions::default()).unwrap();
}
