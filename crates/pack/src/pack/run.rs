//! Runs packing, into a new or an existing dataset.

use super::fields::FolderFields;
use super::folder::FolderSource;
use super::next_generation::NextGeneration;
use super::options::PackOptions;
use super::overlap::refuse_overlap;
use super::report::{PackReport, idle_parts, tiny_shards};
use crate::bail;
use crate::pool::on_pool;
use shardpack_array::Trial;
use shardpack_format::{Hint, Note, Voice};
use shardpack_sources::{Listing, SourceKind};
use shardpack_writer::{Output, Progress, WriteOptions, write_dataset};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Callbacks that report on a run, and a flag that cancels it.
pub struct Hooks<'a> {
    /// Called with the plan before the first sample is read.
    pub on_plan: &'a dyn Fn(&Planned<'_>),
    /// Called about ten times a second with the progress.
    pub on_progress: &'a dyn Fn(&Progress),
    /// Cancels the run when set.
    pub cancel: &'a AtomicBool,
}

/// Facts known before the first sample is read.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// The split being packed, or `None` if the source has no splits.
    pub split: Option<&'a str>,
    /// Type of the samples: pictures or cubes.
    pub kind: SourceKind,
    /// Number of samples.
    pub samples: u64,
    /// Total size of the source files, in bytes.
    pub source_bytes: u64,
    /// Number of shards.
    pub shards: u32,
    /// Codec candidates tried for each array field, best first.
    pub trials: &'a [(String, Trial)],
    /// Memory limit for samples, in bytes.
    pub memory_bytes: u64,
    /// Number of worker threads.
    pub threads: usize,
}

/// Packs `src` into a dataset in the folder `out`, or in a [`shardpack_writer::Bucket`].
///
/// # Errors
/// Fails if the source and the output overlap, if anything in the source cannot be packed (unless the policy is
/// to skip it), if the options do not fit the values, or if the dataset cannot be written. Finished shards are
/// kept, and repeating the call continues after them.
pub fn pack(src: &Path, out: impl Into<Output>, options: &PackOptions, hooks: &Hooks<'_>) -> crate::Result<PackReport> {
    if options.source.splits {
        let hint = Hint::new("").only(Voice::Rust, "call `pack_splits` to pack a dataset for each split");
        bail!(Note::new("`pack` makes one dataset, but the option `splits` asks for several").with_hint(hint));
    }
    let out = out.into();
    refuse_overlap(src, out.path(), &options.source.files)?;
    refuse_overlap(src, out.folder(), &options.source.files)?;
    options.arrays.check()?;
    let listing = on_pool(options.threads, || shardpack_sources::enumerate(src, &options.source))??;
    pack_listing(&listing, &out, options, hooks)
}

/// Packs a listing like [`pack`]. The caller must ensure that `out` is not inside the source.
pub(crate) fn pack_listing(
    listing: &Listing,
    out: &Output,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackReport> {
    let fields = on_pool(options.threads, || FolderFields::of(listing, options))??;
    pack_into(&Destination::New { out, split: None }, listing, fields, options, hooks)
}

pub(crate) enum Destination<'a> {
    New { out: &'a Output, split: Option<&'a str> },
    Behind(NextGeneration<'a>),
}

pub(crate) fn pack_into(
    destination: &Destination<'_>,
    listing: &Listing,
    fields: FolderFields,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackReport> {
    // This pool only inspects files. The writer uses its own threads.
    let source = on_pool(options.threads, || FolderSource::new(listing, options, fields))??;
    let (plan, split, tried) = match destination {
        Destination::New { split, .. } => (source.plan(source.metadata()?)?, *split, source.fields().trials.as_slice()),
        Destination::Behind(next) => (next.plan(source.plan(next.metadata(&source)?)?)?, None, [].as_slice()),
    };
    let memory_bytes = source.memory_limit();
    (hooks.on_plan)(&Planned {
        split,
        kind: listing.kind,
        samples: plan.sample_count(),
        source_bytes: listing.source_bytes(),
        shards: plan.shard_count(),
        trials: tried,
        memory_bytes,
        threads: options.threads,
    });
    let write = WriteOptions {
        threads: options.threads,
        memory_bytes,
        part: options.part,
        force: options.force,
        on_progress: Some(hooks.on_progress),
        cancel: Some(hooks.cancel),
    };
    let report = match destination {
        Destination::New { out, .. } => write_dataset((*out).clone(), &plan, &source, &write)?,
        Destination::Behind(next) => next.write::<crate::Error>(&plan, &source, &write)?,
    };
    let mut packed = PackReport::of(listing, report, source.fields().trials.clone(), memory_bytes);
    if let Destination::New { .. } = destination {
        let idle = options.part.and_then(|part| idle_parts(part.count(), plan.shard_count()));
        packed.notes.extend(idle);
        packed.notes.extend(tiny_shards(plan.sample_count(), plan.shard_count(), options.shard_bytes));
    }
    packed.add_odd(source.odd_pictures());
    packed.notes.extend(source.unfit_note());
    Ok(packed)
}
