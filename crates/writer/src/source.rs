//! Where samples come from, seen from the writer: a trait that the caller implements.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardpack_format::Frame;
use std::borrow::Cow;

/// Gives samples, already laid out as records. Called from several threads at once.
///
/// For the output to be the same bytes every time, the record of a sample must be a pure function of `sample` and `shard_number`.
pub trait SampleSource: Sync {
    /// Figures of one sample, added up over the dataset: `()` if there are none.
    type Tally: Tally;
    /// Why a sample could not be given.
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    /// Key of sample `sample`, a number in the order in which the samples were handed to [`Plan::new`](crate::Plan::new).
    /// Must be the key that was planned, and that the record holds.
    fn key(&self, sample: u64) -> Cow<'_, str>;

    /// Bytes that [`encode`](Self::encode) holds at its peak for this sample, the record included: what the memory budget counts.
    /// Must be cheap: it is called once a sample, by one thread at a time.
    fn memory_bytes(&self, sample: u64) -> u64;

    /// Lays out the record of a sample. `buffer` is empty or a used one: hand it to `RecordBuilder::new` to save the allocation.
    ///
    /// # Errors
    /// An error stops the run; it is reported with the sample's key. Return [`Encoded::Skipped`] to leave the sample out and go on.
    /// A panic stops the run as well, and is reported in the same way.
    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error>;
}

/// What became of a sample.
#[derive(Debug)]
pub enum Encoded<T> {
    /// A record to be written.
    Record(EncodedSample<T>),
    /// The sample is left out: it is counted, listed in the report, and not in the dataset.
    Skipped {
        /// Why, in words for the user.
        reason: String,
    },
}

/// A record, ready to be written, and what the writer must know of it.
#[derive(Debug)]
pub struct EncodedSample<T> {
    /// The record's bytes, padded: the first half of what `RecordBuilder::finish` returns.
    pub record: Vec<u8>,
    /// The record's frame: the other half.
    pub frame: Frame,
    /// The packed scalars that the record was built with, once more: they become columns of the index.
    pub scalars: Vec<u8>,
    /// Bytes that were read for this sample.
    pub source_bytes: u64,
    /// The sample's figures.
    pub tally: T,
}

/// Figures that are added up over the samples of a dataset.
///
/// The writer merges the samples of a shard in the order of the plan, and then the shards in the order of their numbers, whatever the number of threads: so
/// sums of floating-point numbers come out the same to the last bit. Between the two steps each shard's figures stand in the journal as JSON, so they
/// must survive that: no NaN, no infinity.
pub trait Tally: Default + Send + Serialize + DeserializeOwned {
    /// Adds the figures of what follows.
    fn merge(&mut self, next: Self);

    /// The total, as it will stand in the manifest under `fidelity`.
    fn fidelity(&self) -> Map<String, Value>;
}

/// No figures.
impl Tally for () {
    fn merge(&mut self, (): Self) {}

    fn fidelity(&self) -> Map<String, Value> {
        Map::new()
    }
}
