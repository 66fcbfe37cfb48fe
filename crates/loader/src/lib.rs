//! Batches for a training loop: read, check and decode on all cores, straight into the slots of a
//! ring.
//!
//! ```text
//! order ── Planner ──▶ Ring: batches in order ◀── one lock ──▶ threads: read a run, or decode rows into a slot
//!                        │            ▲
//!              Batch ◀───┘            └── the slot comes back when the batch is dropped
//! ```
//!
//! - A batch is *planned* before anything of it is read: its samples, the reads that bring them,
//!   and, from the index alone, where every row goes. So rows are decoded in place, dense or
//!   ragged, and nothing is copied together afterwards.
//! - All threads are alike. Each takes the next useful thing: rows of the earliest batch whose run
//!   is in memory; a run that an earlier batch needs; else it sleeps. Runs that come later are
//!   announced to the operating system, which fetches them meanwhile. One turn with one lock posts
//!   what was done and takes the next; it takes up to 16 rows at the start of a batch and one at
//!   its end.
//! - The CRC32 of a record is compared by the thread that decodes it, just before: its bytes are in
//!   that core's cache then.
//! - Batches come in the order of the plan, whatever the threads do. A slow consumer stops the
//!   pool: there are `slots` slots and `read_ahead_bytes` of runs besides the window of the order,
//!   or, of samples that are read alone, one for each thread if those are more. A caller who keeps
//!   batches gets more slots ([`Batch`]).
//! - The next epoch is begun while this one ends, once one has followed another
//!   ([`Loader::set_epoch`]).
//! - Where the page cache can hold the window, a thread reads each record itself, just before it
//!   decodes it ([`Window`]): no run is in memory, and none is waited for.
//! - A large record ([`LoaderOptions::part_bytes`]) is made by all threads together, part by part.
//! - With a [`stage`], rows are decoded on a device: threads hand it what it needs of a record, and a
//!   batch is handed out when it is done there.
//! - Where the bytes of a row come from is its `Supply`: one enum, one file for each.
//! - Memory ([`Loader::predicted_bytes`]): `slots × batch bytes + window + read ahead + scratch`.
//!
//! [`order`] says which sample comes when, and on which rank.
//!
//! Why so: `docs/adr/0008-loader.md`; large records: `docs/adr/0017-large-records.md`. Its modules, from
//! the caller down to what a caller may choose: `ARCHITECTURE.md`.
// Unsafe stands in two files: the fences around the rows of a batch, and around streams of a device.
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

// What a training loop names beside the loader, so that it needs this crate alone.
pub use shardpack_array::{Array, Bands, Factors};
pub use shardpack_augment::{Augmentation, BandAugmentation, Mix};
pub use shardpack_format::{Dtype, ElementType};
pub use shardpack_format::{Hint, Note};
pub use shardpack_jpeg::{Crop, Interpolation, PixelLayout, Scaling, View, ViewSize};
pub use shardpack_reader::{Dataset, DatasetOptions, Error, Limits, Result};
