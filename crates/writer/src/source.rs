//! The source of samples: a trait that the caller implements.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shardpack_format::{Explain, Frame};
use std::borrow::Cow;

/// Provides samples as finished records. Several threads call its methods at once.
///
/// The output is reproducible only if the record of a sample is a pure function of `sample` and `shard_number`.
pub trait SampleSource: Sync {
    /// Statistics of one sample, which are summed over the dataset. Use `()` for none.
    type Tally: Tally;
    /// Error for a sample that cannot be provided. For system errors, use `shardpack_io::Cause`.
    type Error: Explain + Send + Sync + 'static;

    /// Returns the key of a sample, which is numbered in the order of [`Plan::new`](crate::Plan::new). It must equal
    /// the key in the plan and the key in the record.
    fn key(&self, sample: u64) -> Cow<'_, str>;

    /// Returns the maximum number of bytes that [`encode`](Self::encode) allocates for this sample, including the
    /// record. Counts towards the memory budget. Must be fast, because only one thread at a time can call it.
    fn memory_bytes(&self, sample: u64) -> u64;

    /// Encodes a sample as a record. `buffer` may contain old data. To save an allocation, pass it to
    /// `RecordBuilder::new`.
    ///
    /// # Errors
    /// An error or a panic stops the run and is reported with the key of the sample. To skip the sample and continue,
    /// return [`Encoded::Skipped`].
    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Self::Tally>, Self::Error>;

    /// Returns how many bytes of samples to announce before they are encoded. Announcements let the source keep many
    /// network requests in flight. The default, 0, means that samples are not announced.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Announces that a sample will be encoded soon. Must not block. Returns the number of bytes of
    /// [`read_ahead_bytes`](Self::read_ahead_bytes) that the sample occupies until its encoding begins.
    fn announce(&self, sample: u64) -> u64 {
        let _ = sample;
        0
    }
}

/// Result of encoding a sample.
#[derive(Debug)]
pub enum Encoded<T> {
    /// A record to write.
    Record(EncodedSample<T>),
    /// The sample is skipped. It is counted and listed in the report, but is not part of the dataset.
    Skipped {
        /// The reason, as text for the user.
        reason: String,
    },
}

/// A record ready to be written, with its statistics.
#[derive(Debug)]
pub struct EncodedSample<T> {
    /// Bytes of the record with padding: the first element that `RecordBuilder::finish` returns.
    pub record: Vec<u8>,
    /// Frame of the record: the second element that `RecordBuilder::finish` returns.
    pub frame: Frame,
    /// Copy of the record's packed scalars, which become columns of the index.
    pub scalars: Vec<u8>,
    /// Bytes read for this sample.
    pub source_bytes: u64,
    /// Statistics of this sample, which the writer adds to the dataset's total.
    pub tally: T,
}

/// Statistics that are summed over the samples of a dataset.
///
/// The writer merges the samples of each shard in plan order, and then the shards by number. This order does not
/// depend on the number of threads, so floating-point sums are identical to the last bit. The journal stores the
/// statistics of each shard as JSON, so they must not be NaN or infinite.
pub trait Tally: Default + Send + Serialize + DeserializeOwned {
    /// Adds `next`, the statistics of later samples.
    fn merge(&mut self, next: Self);

    /// Returns the total for the manifest's field `fidelity`.
    fn fidelity(&self) -> Map<String, Value>;

    /// Returns the total for the report of a run. It may include statistics that the manifest omits.
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
