//! The packer's engine. It decides which sample goes into which shard, and writes the shards.
//!
//! This crate handles files and shards, but neither codecs nor source formats. Samples come from a [`SampleSource`] as
//! finished records.
//!
//! - [`Plan`]: a pure function of samples and options. It computes the dataset id, permutes the samples and splits them
//!   into shards.
//! - [`write_dataset`]: runs the plan, or this machine's [`Part`] of it. It continues where an earlier run of the same
//!   plan stopped. The output does not depend on the number of threads or on interruptions.
//! - [`Reservation`]: reserves a folder for a program that does not know its samples yet.
//! - [`Growth`]: adds a generation to a dataset, with more shards or with some shards rewritten.
//! - [`Bucket`]: a folder in an object store, as the destination of any of these.
//! - [`merge`]: merges the parts that several machines wrote to one folder.
//!
//! **Guarantees.** A file with a final name is a complete shard on disk, and the manifest is written last. This crate
//! never removes files that it did not write, and never follows a symlink in the folder. An interrupted run loses only
//! unfinished shards. A refused run changes nothing.
//!
//! **Method.** Each shard is written under a temporary name in the output folder, synced and renamed. Then the folder
//! is synced, and the shard is added to a journal, which is also synced. At the end, the manifest is written from the
//! journal, and the journal is removed.
#![forbid(unsafe_code)]

mod added_columns;
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
mod uploads;
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
