//! The source of samples: a trait that the caller implements.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardpack_format::{Explain, Frame};
use std::borrow::Cow;

/// Provides samples that are already laid out as records. Called from several threads at once.
///
/// The output is the same bytes every time only if the record of a sample is a pure function of
/// `sample` and `shard_number`.
pub trait SampleSource: Sync {
    /// Figures of one sample, summed over the dataset: `()` if there are none.
    type Tally: Tally;
    /// Reason why a sample could not be provided; `shardpack_io::Cause` for errors of the system.
    type Error: Explain + Send + Sync + 'static;

    /// Key of sample `sample`, numbered in the order in which the samples were passed to
    /// [`Plan::new`](crate::Plan::new). It must equal the planned key and the key in the record.
    fn key(&self, sample: u64) -> Cow<'_, str>;

    /// The most bytes that [`encode`](Self::encode) holds for this sample, including the record.
    /// The memory budget counts them. It must be cheap: it is called once per sample, by one thread
    /// at a time.
    fn memory_bytes(&self, sample: u64) -> u64;

    /// Lays out the record of a sample. `buffer` is empty or a used buffer: pass it to
    /// `RecordBuilder::new` to save the allocation.
    ///
    /// # Errors
    /// An error stops the run and is reported with the sample's key. A panic does the same. Return
    /// [`Encoded::Skipped`] to leave the sample out and continue.
    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error>;

    /// Bytes of samples to announce ahead of their encoding, so that a network has many requests in
    /// flight. Default 0: none.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Announces that a sample will be encoded soon, and returns at once. Returns the bytes that
    /// the sample takes of [`read_ahead_bytes`](Self::read_ahead_bytes) until its encoding begins.
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
    /// The sample is skipped: it is counted and listed in the report, and is not in the dataset.
    Skipped {
        /// Reason, in words for the user.
        reason: String,
    },
}

/// A record, ready to be written, with its figures for the writer.
#[derive(Debug)]
pub struct EncodedSample<T> {
    /// Bytes of the record, padded: the first half of the result of `RecordBuilder::finish`.
    pub record: Vec<u8>,
    /// Frame of the record: the other half.
    pub frame: Frame,
    /// A copy of the packed scalars of the record: they become columns of the index.
    pub scalars: Vec<u8>,
    /// Bytes read for this sample.
    pub source_bytes: u64,
    /// Figures of the sample.
    pub tally: T,
}

/// Figures that are summed over the samples of a dataset.
///
/// The writer merges the samples of a shard in the order of the plan, and then the shards in the
/// order of their numbers, whatever the number of threads. So sums of floating-point numbers are
/// equal to the last bit. In between, each shard's figures are stored in the journal as JSON, so
/// they must survive that: no NaN, no infinity.
pub trait Tally: Default + Send + Serialize + DeserializeOwned {
    /// Adds the figures of the samples that follow.
    fn merge(&mut self, next: Self);

    /// The total, for the manifest's field `fidelity`.
    fn fidelity(&self) -> Map<String, Value>;

    /// The total for the report of a run, including figures that are not in the manifest.
    fn report(&self) -> Map<String, Value> {
        self.fidelity()
    }
}

/// No figures.
impl Tally for () {
    fn merge(&mut self, (): Self) {}

    fn fidelity(&self) -> Map<String, Value> {
        Map::new()
    }
}
