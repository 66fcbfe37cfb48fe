//! The source of samples, a trait that the caller implements.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardpack_format::{Explain, Frame};
use std::borrow::Cow;

/// Provides samples already laid out as records, to several threads at once.
///
/// Output is reproducible only if a sample's record is a pure function of `sample` and `shard_number`.
pub trait SampleSource: Sync {
    /// Figures of one sample, to sum over the dataset; `()` if there are none.
    type Tally: Tally;
    /// Reason why a sample could not be provided; `shardpack_io::Cause` for system errors.
    type Error: Explain + Send + Sync + 'static;

    /// Returns the key of sample `sample`, numbered in the order of [`Plan::new`](crate::Plan::new). It must
    /// equal the planned key and the key in the record.
    fn key(&self, sample: u64) -> Cow<'_, str>;

    /// Returns the most bytes that [`encode`](Self::encode) holds for this sample, record included, for the
    /// memory budget. Must be cheap: one thread at a time calls it, once per sample.
    fn memory_bytes(&self, sample: u64) -> u64;

    /// Lays out the record of a sample. `buffer` is empty or a used buffer; pass it to `RecordBuilder::new`
    /// to save the allocation.
    ///
    /// # Errors
    /// An error or a panic stops the run and is reported with the sample's key. Return [`Encoded::Skipped`]
    /// to leave the sample out and continue.
    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error>;

    /// Returns the bytes of samples to announce before their encoding, so that a network has many requests in
    /// flight. Default 0: none.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Announces that a sample will be encoded soon, and returns at once. The result is the sample's share,
    /// in bytes, of [`read_ahead_bytes`](Self::read_ahead_bytes) until its encoding begins.
    fn announce(&self, sample: u64) -> u64 {
        let _ = sample;
        0
    }
}

/// Result of encoding a sample.
#[derive(Debug)]
pub enum Encoded<T> {
    /// A record to be written.
    Record(EncodedSample<T>),
    /// A skipped sample, which is counted and listed in the report but is not in the dataset.
    Skipped {
        /// Reason, in text for the user.
        reason: String,
    },
}

/// A record that is ready to be written, with its figures.
#[derive(Debug)]
pub struct EncodedSample<T> {
    /// Bytes of the record, padded: the first half of the result of `RecordBuilder::finish`.
    pub record: Vec<u8>,
    /// Frame of the record: the second half of that result.
    pub frame: Frame,
    /// Copy of the record's packed scalars, which become columns of the index.
    pub scalars: Vec<u8>,
    /// Bytes read for this sample.
    pub source_bytes: u64,
    /// Figures of the sample.
    pub tally: T,
}

/// Figures that are summed over the samples of a dataset.
///
/// The writer merges the samples of a shard in plan order, then the shards by number, whatever the number of
/// threads, so floating-point sums are equal to the last bit. The journal stores each shard's figures as
/// JSON, so they must not be NaN or infinite.
pub trait Tally: Default + Send + Serialize + DeserializeOwned {
    /// Adds the figures of the following samples.
    fn merge(&mut self, next: Self);

    /// Returns the total for the manifest's field `fidelity`.
    fn fidelity(&self) -> Map<String, Value>;

    /// Returns the total for the report of a run, including figures that are not in the manifest.
    fn report(&self) -> Map<String, Value> {
        self.fidelity()
    }
}

impl Tally for () {
    fn merge(&mut self, (): Self) {}

    fn fidelity(&self) -> Map<String, Value> {
        Map::new()
    }
}
