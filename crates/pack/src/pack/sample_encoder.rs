//! One sample at a time under one set of options, as a run of packing would store it: for whoever
//! wants to know what packing would do before it is done.

use super::cubes::Cubes;
use super::images::{Beside, Images};
use super::{PackOptions, SampleError, Tally, refuse_cube_options, refuse_picture_options, schema};
use shardpack_array::ArraySettings;
use shardpack_format::{FOOTER_BYTES, HEADER_BYTES, IndexBuilder, Schema};
use shardpack_sources::{Listing, SourceKind};
use shardpack_writer::{Encoded, SampleSource};

/// What packing makes of the samples of a listing under some options.
pub(crate) struct SampleEncoder<'a> {
    samples: Samples<'a>,
    schema: Schema,
    /// Bytes that all shards take beside their records.
    beside_bytes: u64,
}

enum Samples<'a> {
    Pictures(Box<Images<'a>>),
    Cubes(Box<Cubes<'a>>),
}

impl<'a> SampleEncoder<'a> {
    /// Prepares, and chooses codecs as packing does. Runs on the caller's rayon pool.
    ///
    /// # Errors
    /// If packing would refuse the options before the first sample.
    pub(crate) fn new(listing: &'a Listing, options: &'a PackOptions) -> crate::Result<Self> {
        options.arrays.check()?;
        let (samples, metadata) = match listing.kind {
            SourceKind::Images => {
                refuse_cube_options(listing, options)?;
                let images = Images::new(listing, options, &Beside::of(listing, options)?)?;
                let metadata = schema::metadata(listing, images.fields(), schema::map_of(images.recipe(options)))?;
                (Samples::Pictures(Box::new(images)), metadata)
            }
            SourceKind::Cubes => {
                refuse_picture_options(options)?;
                let cubes = Cubes::new(listing, options)?;
                let metadata = schema::metadata(listing, cubes.fields(), schema::map_of(cubes.recipe(options)))?;
                (Samples::Cubes(Box::new(cubes)), metadata)
            }
        };
        let keys: u64 = listing.samples.iter().map(|entry| entry.key.len() as u64).sum();
        let rows = IndexBuilder::bytes_for(&metadata.schema, listing.samples.len() as u64, keys);
        let once = metadata.encode().map_or(0, |bytes| bytes.len() as u64) + HEADER_BYTES + FOOTER_BYTES;
        Ok(Self { samples, schema: metadata.schema, beside_bytes: rows.saturating_add(once) })
    }

    /// The schema of the records.
    pub(crate) const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Bytes that header, index and footer take if all samples go into one shard. More shards take
    /// a few hundred bytes more for each, and the recipe again.
    pub(crate) const fn beside_bytes(&self) -> u64 {
        self.beside_bytes
    }

    /// The settings for cubes, as the trial has chosen them.
    pub(crate) fn settings(&self) -> Option<ArraySettings> {
        match &self.samples {
            Samples::Pictures(_) => None,
            Samples::Cubes(cubes) => cubes.trials().first().map(|(_, trial)| trial.settings),
        }
    }

    /// The most bytes that encoding the sample holds.
    pub(crate) fn memory_bytes(&self, sample: u64) -> u64 {
        match &self.samples {
            Samples::Pictures(images) => images.memory_bytes(sample),
            Samples::Cubes(cubes) => cubes.memory_bytes(sample),
        }
    }

    /// The record of a sample, counted as in the listing.
    ///
    /// # Errors
    /// As packing would stop with.
    pub(crate) fn encode(&self, sample: u64, buffer: Vec<u8>) -> Result<Encoded<Tally>, SampleError> {
        match &self.samples {
            Samples::Pictures(images) => images.encode(sample, 0, buffer),
            Samples::Cubes(cubes) => cubes.encode(sample, 0, buffer),
        }
    }
}
