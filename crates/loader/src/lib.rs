//! Batches for a training loop, read, checked and decoded on all cores, straight into the slots of a ring.
//!
//! ```text
//! order ── Planner ──▶ Ring: batches in order ◀── one lock ──▶ threads: read a run, or decode rows into a slot
//!                        │            ▲
//!              Batch ◀───┘            └── the slot comes back when the batch is dropped
//! ```
//!
//! - A batch is *planned* before it is read: the index alone gives its samples, their reads, and the place of
//!   every row. So rows, dense or ragged, are decoded in place and never copied together afterwards.
//! - All threads are alike. Each takes the most useful work: rows of the earliest batch whose run is in
//!   memory, otherwise a run that an earlier batch needs; without work it sleeps. Meanwhile the operating
//!   system fetches later runs, which are announced to it. A thread takes the lock once to post finished work
//!   and take new work: up to 16 rows at the start of a batch and one at its end.
//! - The thread that decodes a record checks its CRC32 just before, so the bytes are still in that core's cache.
//! - Batches come in planned order, regardless of the order in which threads finish. A slow consumer stops
//!   the pool: there are `slots` slots and `read_ahead_bytes` of runs besides the window of the order; or, if
//!   samples are read alone, one for each thread if those are more. A caller who keeps batches gets more
//!   slots ([`Batch`]).
//! - The next epoch starts while the current one ends, once one epoch has followed another ([`Loader::set_epoch`]).
//! - If the page cache can hold the window, each thread reads a record just before decoding it ([`Window`]):
//!   no run is kept in memory, and no thread waits for one.
//! - All threads together decode a large record ([`LoaderOptions::part_bytes`]), part by part.
//! - With a [`stage`], a device decodes the rows: threads pass it the bytes it needs, and a batch is handed
//!   out when the device has finished it.
//! - The source of a row's bytes is its `Supply`: one enum, one file for each variant.
//! - Memory ([`Loader::predicted_bytes`]): `slots × batch bytes + window + read ahead + scratch`.
//!
//! [`order`] determines the order of the samples and their ranks.
//!
//! Reasons: `docs/adr/0008-loader.md` and, for large records, `docs/adr/0017-large-records.md`. Modules, from
//! the caller down to the options: `ARCHITECTURE.md`.
// Two files contain unsafe code: the fences around the rows of a batch, and those around device streams.
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod batch;
mod decode;
mod describe;
mod fault;
mod fields;
mod loader;
mod memory;
mod openings;
mod options;
pub mod order;
mod patches;
mod plan;
mod planner;
mod pool;
mod ring;
mod rows;
mod sample;
pub mod stage;
mod stats;
mod supply;
mod task;

pub use batch::{Batch, Element, OnDevice, Shown, Tensor};
pub use describe::varying_arrays;
pub use fields::Object;
pub use loader::{Batches, EpochPhase, Loader};
pub use memory::{Allocate, Heap, SlotMemory};
pub use options::{
    Align, ArrayDtype, Augment, Augments, BatchMix, BoxFormat, CubeMode, FrameMode, ImageMode, LoaderOptions, NoData,
    OnCorrupt, OrderOptions, OutputOptions, ResourceOptions, Transform, TransformField, TransformRow, ViewOptions,
    Window, parse_augment, parse_bands, parse_mixes,
};
pub use patches::{Grid, PatchAt, PatchClasses, PatchPlace, Patches};
pub use stats::LoaderStats;
pub use supply::Watch;

// Types that a training loop needs besides the loader, so that it depends on this crate alone.
pub use shardpack_array::{Array, Bands, Factors};
pub use shardpack_augment::{Augmentation, BandAugmentation, Mix};
pub use shardpack_format::{Dtype, ElementType};
pub use shardpack_format::{Hint, Note};
pub use shardpack_jpeg::{Crop, Interpolation, PixelLayout, Scaling, View, ViewSize};
pub use shardpack_reader::{Dataset, DatasetOptions, Error, Limits, Result};
