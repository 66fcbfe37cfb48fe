//! Source of the bytes of a row. Every row of a batch waits for a [`Supply`]; these are the kinds:
//!
//! | supply | shared by several rows | work of a row |
//! |---|---|---|
//! | [`Memory`](Supply::Memory) | a run of records, read at once | checks and decodes its record |
//! | [`PageCache`](Supply::PageCache) | nothing: the system holds the run | reads its record, then as above |
//! | [`Parts`](Supply::Parts) | nothing: the record is large | opens its record; all threads decode its parts |
//! | [`Scene`](Supply::Scene) | a record, decoded once for several patches | copies its patch |
//! | [`Device`](Supply::Device) | values that stay on a device | passes the numbers of its values to the stage |
//!
//! A value that a device found odd is *mended*: its record is read once more, as in `PageCache`, and
//! decoded by the host.

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
pub(crate) use record::{HEAD_BYTES, check, read_alone, read_head};
pub use resident::Watch;
pub(crate) use resident::{Residence, Resident, ResidentValue, fill};
pub(crate) use run::LoadedRun;
pub(crate) use scene::{Scene, SceneContent, SceneField, ScenePatch, SceneRead, SceneRecord};
pub(crate) use whole_scene::{PatchWindow, WholeScene};

use shardpack_reader::{Error, Shard};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Supply {
    /// Records in memory, as in the file.
    Memory(LoadedRun),
    /// Records of a shard that the page cache holds: a thread reads each one just before it decodes
    /// it.
    PageCache(Arc<Shard>),
    /// Large records of a shard: all threads work on one together.
    Parts(Arc<Shard>),
    /// The decoded patches of a sample, or the error of decoding them.
    Scene(Arc<Shard>, Result<Scene, Error>),
    /// Records of a shard whose values stay on a device. A record with a missing value there is read as
    /// from the page cache.
    Device(Arc<Shard>),
}

impl Supply {
    pub(crate) const fn shard(&self) -> &Arc<Shard> {
        match self {
            Self::Memory(run) => run.shard(),
            Self::PageCache(shard) | Self::Parts(shard) | Self::Scene(shard, _) | Self::Device(shard) => shard,
        }
    }

    /// Returns true if each row is opened separately, because all threads work on it together.
    pub(crate) const fn is_in_parts(&self) -> bool {
        matches!(self, Self::Parts(_))
    }

    /// Memory of a scene that is kept as a whole.
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
