//! The order of samples, their distribution to ranks, and the state from which a run resumes.
//!
//! The order depends only on a dataset, a seed, an epoch and a position, and not on the number of ranks,
//! threads, or samples in a batch. It needs no file and no table of samples.
//!
//! ```text
//! Sampling (Order, Weighted, Mixture, Patched) ── epoch ──▶ Positions: position → sample
//!                                                       │
//! OrderState (what was seen) + World (rank of how many) ──▶ Share: batch, row → position
//!                                                       │
//!                                                       ▼
//!                                     Steps: sample after sample, with what to read, and when it can be forgotten
//! ```
//!
//! Two of eight ranks in the middle of an epoch:
//!
//! ```
//! use shardpack_loader::order::{End, Order, Runs, Sampling, Share, OrderState, Steps, World};
//! let order = Order::new(Runs::of_bytes(1_280_000, 140 << 30, Runs::BYTES), 42);
//! let state = OrderState { samples_consumed: 512_000, ..OrderState::start(&order) };
//! let mut seen = Vec::new();
//! for rank in [2, 5] {
//!     let share = Share::new(World::new(rank, 8, 32)?, End::Drop, &*order.epoch_of(&state)?, &state);
//!     assert_eq!(share.batches(), 3000);
//!     seen.extend(Steps::new(order.epoch_of(&state)?, share).take(32).map(|step| step.at.sample));
//! }
//! seen.sort_unstable();
//! seen.dedup();
//! assert_eq!(seen.len(), 64, "nobody sees what another one sees");
//! # Ok::<(), shardpack_loader::Error>(())
//! ```
//!
//! `docs/order.md` and `docs/adr/0004-order.md` explain the design and measure how well samples are mixed.

mod alias;
mod deal;
mod epoch;
mod keyed;
mod lanes;
mod members;
mod mixture;
mod patched;
mod pattern;
mod permutation;
mod positions;
mod ranks;
mod runs;
mod sequence;
mod sources;
mod split;
mod state;
mod steps;
mod weighted;

pub use epoch::{Epoch, Mode, Order};
pub use keyed::Keyed;
pub use members::Members;
pub use mixture::Mixture;
pub use patched::Patched;
pub use permutation::Permutation;
pub use positions::{Dealing, OpenReads, Own, Pick, Positions, SampleRef};
pub use ranks::{End, Share, World};
pub use runs::{Runs, samples_by_label};
pub(crate) use sources::Sources;
pub use split::{Attribute, Split};
pub use state::{Fingerprint, OrderState, Sampling, Unit};
pub use steps::{Read, Step, Steps};
pub use weighted::Weighted;

/// Stream numbers, one per purpose. They are part of the order: changing them makes all states stale, so any
/// change must increase `state::VERSION`.
mod streams {
    pub(super) const RUNS: u32 = 1;
    pub(super) const STARTS: u32 = 2;
    pub(super) const PIECES: u32 = 3;
    pub(super) const SAMPLES: u32 = 4;
    pub(super) const DRAWS: u32 = 5;
    pub(super) const MEMBERS: u32 = 6;
    pub(super) const ROUND: u32 = 7;
    pub(super) const PATCHES: u32 = 8;
}
