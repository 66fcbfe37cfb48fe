//! Provides the records to measure, either by encoding them for the report or by reading them from a dataset.

use super::record::limits;
use crate::encode::FidelityTotals;
use crate::pack::{FolderSource, PackOptions};
use shardpack_array::{ArrayOptions, ArraySettings};
use shardpack_format::{Error, Record, Schema};
use shardpack_reader::Dataset;
use shardpack_recipe::{DatasetRecipe, Jpeg, PictureOptions};
use shardpack_sources::{Listing, SourceOptions};
use shardpack_writer::{Encoded, EncodedSample, SampleSource as _};

pub(super) enum Maker<'a> {
    Encoder(Box<FolderSource<'a>>),
    Dataset(DatasetRecords<'a>),
}

impl<'a> Maker<'a> {
    pub(super) fn schema(&self) -> &Schema {
        match self {
            Self::Encoder(encoder) => encoder.schema(),
            Self::Dataset(records) => records.dataset.schema(),
        }
    }

    pub(super) fn encoder(&self) -> Option<&FolderSource<'a>> {
        match self {
            Self::Encoder(encoder) => Some(encoder),
            Self::Dataset(_) => None,
        }
    }

    pub(super) fn settings(&self) -> Option<ArraySettings> {
        self.encoder().and_then(FolderSource::settings)
    }

    pub(super) fn memory_bytes(&self, sample: u64) -> u64 {
        match self {
            Self::Encoder(encoder) => encoder.memory_bytes(sample),
            Self::Dataset(records) => records.memory_bytes(sample),
        }
    }

    /// Returns the record of the sample at this position in the listing.
    ///
    /// # Errors
    /// Returns the reason if there is no record. `of_source` is true if the sample itself is the cause, rather
    /// than its storage.
    pub(super) fn make(&self, sample: u64, buffer: Vec<u8>) -> Result<EncodedSample<FidelityTotals>, NoRecord> {
        match self {
            Self::Encoder(encoder) => match encoder.encode(sample, 0, buffer) {
                Ok(Encoded::Record(sample)) => Ok(sample),
                Ok(Encoded::Skipped { reason }) => Err(NoRecord { reason, of_source: true }),
                Err(error) => Err(NoRecord { reason: error.to_string(), of_source: error.is_of_file() }),
            },
            Self::Dataset(records) => records.read(sample).map_err(|error| NoRecord {
                reason: format!("cannot read the sample from the dataset: {error}"),
                of_source: true,
            }),
        }
    }
}

pub(super) struct NoRecord {
    pub(super) reason: String,
    /// True if the sample itself is at fault and would fail with any options.
    pub(super) of_source: bool,
}

/// A dataset's records, looked up by the keys of a listing.
pub(super) struct DatasetRecords<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) listing: &'a Listing,
}

impl DatasetRecords<'_> {
    fn index(&self, sample: u64) -> shardpack_reader::Result<u64> {
        let entry = usize::try_from(sample).ok().and_then(|sample| self.listing.samples.get(sample));
        let key = entry.map_or("", |entry| entry.key.as_str());
        let found = self.dataset.by_key(key)?;
        found.ok_or_else(|| Error::usage(format!("no sample has the key `{}`", key.escape_debug())).into())
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        let length = || {
            let (shard, record) = self.dataset.locate(self.index(sample)?)?;
            Ok::<_, shardpack_reader::Error>(self.dataset.shard(shard)?.row(record)?.length)
        };
        // A missing record needs no memory. Reading it later reports the cause.
        length().unwrap_or(0)
    }

    fn read(&self, sample: u64) -> shardpack_reader::Result<EncodedSample<FidelityTotals>> {
        let found = self.dataset.get(self.index(sample)?)?;
        let parsed = Record::parse(found.record_bytes(), &limits())?;
        let (frame, scalars) = (parsed.frame, parsed.scalars.to_vec());
        let record = found.record_bytes().to_vec();
        Ok(EncodedSample { record, frame, scalars, source_bytes: 0, tally: FidelityTotals::default() })
    }
}

/// Returns options for comparing a packed dataset with its sources, with the dataset's picture sizes and allowed error.
pub(super) fn options_of(dataset: &Dataset, source: &SourceOptions) -> PackOptions {
    let recipe = DatasetRecipe::read(dataset.recipe());
    let max_error = recipe.arrays("cube").and_then(|cube| cube.asked.max_error);
    PackOptions {
        source: source.clone(),
        pictures: recipe.pictures("image").unwrap_or_else(|| PictureOptions::of(Jpeg::Keep)),
        arrays: ArrayOptions { max_error, ..ArrayOptions::default() },
        ..PackOptions::default()
    }
}
