//! The source of a row's bytes. Every row of a batch waits for its [`Supply`], which has one of these kinds:
//!
//! | supply | shared by several rows | work of a row |
//! |---|---|---|
//! | [`Memory`](Supply::Memory) | a run of records, read at once | checks and decodes its record |
//! | [`PageCache`](Supply::PageCache) | nothing: the system holds the run | reads its record, then as above |
//! | [`Parts`](Supply::Parts) | nothing: the record is large | opens its record; all threads decode its parts |
//! | [`Scene`](Supply::Scene) | a record, decoded once for several patches | copies its patch |
//! | [`Device`](Supply::Device) | values that stay on a device | passes the numbers of its values to the stage |
//!
//! A value that a device cannot decode is *mended*: its record is read again, as with `PageCache`, and the host
//! decodes it.

mod buffer;
mod parts;
mod record;
mod resident;
mod run;
mod scene;
mod whole_scene;

pub(crate) use buffer::size_class;
pub(crate) use parts::{
    KeptBytes, LargeRecord, MadeField, PartScratch, PartTarget, RecordPart, StagedValue, UnmadeRow, WindowedSplit,
};
pub(crate) use parts::{size, steps, within};
pub(crate) use record::{check, read_alone, read_checked};
pub use resident::Watch;
pub(crate) use resident::{Residence, Resident, ResidentValue, fill};
pub(crate) use run::LoadedRun;
pub(crate) use scene::{Scene, SceneContent, SceneField, ScenePatch, SceneRead, SceneRecord};
pub(crate) use whole_scene::{PatchWindow, WholeScene};

use shardpack_reader::{Error, Shard};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Supply {
    /// Records in memory, as stored.
    Memory(LoadedRun),
    /// Records of a shard in the page cache. A thread reads each record just before decoding it.
    PageCache(Arc<Shard>),
    /// Large records of a shard. All threads decode each of them together.
    Parts(Arc<Shard>),
    /// Decoded patches of a sample, or the error from decoding them.
    Scene(Arc<Shard>, Result<Scene, Error>),
    /// Records of a shard whose values stay on a device. If a value is missing there, its record is read as
    /// with `PageCache`.
    Device(Arc<Shard>),
}

impl Supply {
    pub(crate) const fn shard(&self) -> &Arc<Shard> {
        match self {
            Self::Memory(run) => run.shard(),
            Self::PageCache(shard) | Self::Parts(shard) | Self::Scene(shard, _) | Self::Device(shard) => shard,
        }
    }

    /// Returns true if rows are opened one by one, because all threads work on each row together.
    pub(crate) const fn is_in_parts(&self) -> bool {
        matches!(self, Self::Parts(_))
    }

    pub(crate) fn held_bytes(&self) -> Option<u64> {
        match self {
            Self::Scene(_, Ok(scene)) => scene.held_bytes(),
            _ => None,
        }
    }

    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            Self::Memory(run) => Some(run.into_buffer()),
            Self::PageCache(_) | Self::Parts(_) | Self::Scene(..) | Self::Device(_) => None,
        }
    }
}
