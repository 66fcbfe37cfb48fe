//! The engine of the packer. It decides which sample goes into which shard, and writes the shards.
//!
//! This crate knows about files and shards, but not about codecs and sources. Samples come from a
//! [`SampleSource`], already laid out as records.
//!
//! - [`Plan`]: a pure function of samples and options. It names the dataset, permutes the samples and cuts
//!   the order into shards.
//! - [`write_dataset`]: runs the plan, or this machine's [`Part`] of it. It continues where an earlier run of
//!   the same plan stopped. The bytes that it writes do not depend on the number of threads or on
//!   interruptions.
//! - [`Reservation`]: reserves a folder for a program that does not know its samples yet.
//! - [`Growth`]: adds a generation to a dataset, with more shards or with some shards rewritten.
//! - [`Bucket`]: a place in an object store, as the destination for any of these.
//! - [`merge`]: joins the parts that several machines wrote into one folder.
//!
//! **Guarantees.** A file with a final name is a complete shard on disk, and the manifest is written last.
//! This crate never removes files that it did not write, and never follows a symlink in the folder. An
//! interrupted run loses at most the shards that were being written. A run that is refused leaves nothing
//! behind.
//!
//! **Method.** Each shard is written under a temporary name in the output folder, synced and renamed. Then
//! the folder is synced, and the shard is entered into a journal, which is also synced. At the end, the
//! manifest is made from the journal, and the journal is removed.
#![forbid(unsafe_code)]

mod begun;
mod bucket;
mod claims;
mod commit;
mod compact;
mod error;
mod folder;
mod gate;
mod growth;
mod journal;
mod lock;
mod merge;
mod names;
mod next_plan;
mod options;
mod output;
mod part;
mod permutation;
mod pipeline;
mod plan;
mod prepare;
mod record_buffers;
mod report;
mod reservation;
mod shard_file;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod unfinished;
mod write;

pub use bucket::Bucket;
pub use compact::Compacted;
pub use error::{Error, Result};
pub use growth::{Growth, Next};
pub use merge::merge;
pub use next_plan::KeptSample;
pub use options::WriteOptions;
pub use output::Output;
pub use part::Part;
pub use plan::{Plan, PlanOptions, PlanSample};
pub use report::{Outcome, Progress, Report, SkippedSample};
pub use reservation::Reservation;
pub use source::{Encoded, EncodedSample, SampleSource, Tally};
pub use unfinished::{Unfinished, UnfinishedPart, array_expression};
pub use write::write_dataset;
