//! Batches for a training loop. They are read, checked and decoded on all cores, directly into the slots of a ring.
//!
//! ```text
//! order ── Planner ──▶ Ring: batches in order ◀── one lock ──▶ threads: read a run, or decode rows into a slot
//!                        │            ▲
//!              Batch ◀───┘            └── the slot comes back when the batch is dropped
//! ```
//!
//! - A batch is *planned* before it is read. The index alone determines its samples, their reads, and the location of
//!   every row. Each row, dense or ragged, can therefore be decoded in place and is never copied afterwards.
//! - All threads do the same kinds of work. Each takes the most useful task: rows of the earliest batch whose run is
//!   in memory, or else a run that an earlier batch needs. A thread without work sleeps. Later runs are announced to
//!   the operating system, which fetches them in the meantime. A thread locks the ring once to post its finished work
//!   and to take new work: up to 16 rows at the start of a batch and one row at its end.
//! - The thread that decodes a record checks its CRC32 just before, so the bytes are still in that core's cache.
//! - Batches come in planned order, regardless of the order in which threads finish. Memory is bounded, so a
//!   slow consumer stops the pool: there are `slots` slots, and `read_ahead_bytes` of runs in addition to the
//!   window of the order. If samples are read one by one, there is always room for one per thread, even if
//!   that exceeds `read_ahead_bytes`. A caller who keeps batches gets more slots ([`Batch`]).
//! - After the caller has continued from one epoch to the next, later epochs start while the current one ends
//!   ([`Loader::set_epoch`]).
//! - If the page cache can hold the window, each thread reads a record just before decoding it ([`Window`]).
//!   Then no runs are kept in memory, and no thread waits for one.
//! - All threads decode a large record together, part by part ([`LoaderOptions::part_bytes`]).
//! - With a [`stage`], a device decodes the rows. Threads pass it the bytes that it needs, and the caller
//!   gets a batch when the device has finished it.
//! - The source of a row's bytes is its `Supply`, an enum with one file for each variant.
//! - Memory ([`Loader::predicted_bytes`]): `slots × batch bytes + window + read ahead + scratch`.
//!
//! [`order`] determines the order of the samples and how they are divided among the ranks.
//!
//! The reasons for this design are in `docs/adr/0008-loader.md`, and those for large records in
//! `docs/adr/0017-large-records.md`. `ARCHITECTURE.md` lists the modules, from the caller down to the
//! options.
// Two files contain unsafe code: `rows.rs`, for the rows of a batch, and `stage/stream.rs`, for device streams.
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod batch;
mod decode;
mod describe;
mod fault;
mod fields;
mod loader;
mod memory;
mod mixing;
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
    Align, ArrayDtype, Augment, Augments, BatchMix, BoxFormat, ClipLayout, CubeMode, FrameMode, ImageMode,
    LoaderOptions, NoData, OnCorrupt, OrderOptions, OutputOptions, PictureCrop, ResourceOptions, Transform,
    TransformField, TransformRow, ViewOptions, Window, parse_augment, parse_bands, parse_mixes,
};
pub use patches::{Grid, PatchAt, PatchClasses, PatchPlace, Patches};
pub use stats::LoaderStats;
pub use supply::Watch;

// Re-exported so that a training loop can depend on this crate alone.
pub use shardpack_array::{Array, Bands, Factors};
pub use shardpack_augment::{Augmentation, BandAugmentation, Mix};
pub use shardpack_format::{Dtype, ElementType};
pub use shardpack_format::{Hint, Note};
pub use shardpack_jpeg::{Crop, Interpolation, PixelLayout, Scaling, View, ViewSize};
pub use shardpack_reader::{Dataset, DatasetOptions, Error, Limits, Result};
