//! Identifies a row and its sample, for errors and for random draws.

use shardpack_format::Error as FormatError;
use shardpack_jpeg::DrawKey;
use shardpack_reader::{Error, Shard};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    pub(crate) epoch: u32,
    pub(crate) sample: u64,
    /// Number of earlier passes of the order through the dataset.
    pub(crate) pass: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RowId {
    pub(crate) generation: u64,
    pub(crate) batch: u64,
    pub(crate) row: u32,
    pub(crate) at: SampleAt,
    /// Run that stays in memory until the row releases it.
    pub(crate) run: Option<RunKey>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleAt {
    pub(crate) sample: u64,
    pub(crate) record: u64,
    pub(crate) epoch: u32,
    pub(crate) repetition: u32,
    pub(crate) patch: u32,
    /// First plane, row and column of the patch, if the sample's mask determines them.
    pub(crate) origin: Option<[u64; 3]>,
}

/// Returns the key with which a row draws its random numbers. The upper half of the key's epoch is
/// the index of the repetition.
pub(crate) fn draw_key(seed: u64, at: SampleAt) -> DrawKey {
    DrawKey { seed, epoch: u64::from(at.repetition) << 32 | u64::from(at.epoch), sample: at.sample }
}

pub(crate) fn name(shard: &Shard, at: SampleAt, error: FormatError) -> Error {
    match error {
        usage @ FormatError::Usage { .. } => {
            let key = shard.index().key(at.record).unwrap_or_default().escape_debug();
            usage.within(format_args!("sample {}, `{key}`", at.sample)).into()
        }
        other => shard.in_record(at.record, other).into(),
    }
}
