//! Where samples come from: a trait that the caller implements.

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
    /// Figures of one sample, added up over the dataset: `()` if there are none.
    type Tally: Tally;
    /// Why a sample could not be provided.
    type Error: Explain + Send + Sync + 'static;

    /// Key of sample `sample`, counted in the order in which the samples were passed to
    /// [`Plan::new`](crate::Plan::new). It must equal the planned key and the key in the record.
    fn key(&self, sample: u64) -> Cow<'_, str>;

    /// The most bytes that [`encode`](Self::encode) holds for this sample, including the record.
    /// The memory budget counts them. It must be cheap: it is called once per sample, by one thread
    /// at a time.
    fn memory_bytes(&self, sample: u64) -> u64;

    /// Lays out the record of a sample. `buffer` is empty or a used one: pass it to
    /// `RecordBuilder::new` to save the allocation.
    ///
    /// # Errors
    /// An error stops the run and is reported with the sample's key. A panic does the same. Return
    /// [`Encoded::Skipped`] to leave the sample out and continue.
    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error>;

    /// Bytes of samples that the source wants to hear of ahead of their encoding: what a network
    /// needs to have many requests on their way. Default 0: none.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Says that a sample will be encoded soon; waits for nothing. Returns the bytes that it takes
    /// of [`read_ahead_bytes`](Self::read_ahead_bytes) until its encoding begins.
    fn announce(&self, sample: u64) -> u64 {
        let _ = sample;
        0
    }
}

/// The result of encoding a sample.
#[derive(Debug)]
pub enum Encoded<T> {
    /// A record to be written.
    Record(EncodedSample<T>),
    /// The sample is left out: it is counted and listed in the report, and is not in the dataset.
    Skipped {
        /// Why, in words for the user.
        reason: String,
    },
}

/// A record, ready to be written, and what the writer must know about it.
#[derive(Debug)]
pub struct EncodedSample<T> {
    /// The record's bytes, padded: the first half of what `RecordBuilder::finish` returns.
    pub record: Vec<u8>,
    /// The record's frame: the other half.
    pub frame: Frame,
    /// The packed scalars of the record again: they become columns of the index.
    pub scalars: Vec<u8>,
    /// Bytes that were read for this sample.
    pub source_bytes: u64,
    /// The sample's figures.
    pub tally: T,
}

/// Figures that are summed over the samples of a dataset.
///
/// The writer merges the samples of a shard in the order of the plan, and then the shards in the
/// order of their numbers, whatever the number of threads. So sums of floating-point numbers are
/// the same to the last bit. In between, each shard's figures are stored in the journal as JSON, so
/// they must survive that: no NaN, no infinity.
pub trait Tally: Default + Send + Serialize + DeserializeOwned {
    /// Adds the figures of the samples that follow.
    fn merge(&mut self, next: Self);

    /// The total, as written to the manifest under `fidelity`.
    fn fidelity(&self) -> Map<String, Value>;

    /// The total, as the report of a run shows it: also figures that the manifest does not hold.
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
