//! Errors as the front ends show them: one text, with what to do next at its end, in which each front
//! end spells options in its own way.

use shardpack_array::EncodeError;
use shardpack_format::{Error as FormatError, Hint, Hinted, Voice, told};
use shardpack_io::Error as IoError;
use shardpack_pack::collect::CollectError;
use shardpack_pack::pack::SampleError;
use shardpack_reader::Error as ReaderError;
use shardpack_recipe::ArgumentError;
use shardpack_sources::SourceError;
use shardpack_sources::cubes::CubeError;
use shardpack_writer::Error as WriterError;
use std::error::Error;
use std::io;

/// An error and its causes as `voice` says them, then the hints of all, each on a line.
///
/// ```
/// use shardpack::explain::explain;
/// use shardpack_format::{Hinted, Hint, Setting, Voice};
/// let error = Hinted::new("expected an empty folder", Hint::new("use ").and([Setting::on("force")]));
/// let error = anyhow::Error::from(error).context("cannot pack");
/// assert_eq!(explain(&error, Voice::Command), "cannot pack: expected an empty folder\nhint: use `--force`");
/// assert_eq!(explain(&error, Voice::Python), "cannot pack: expected an empty folder\nhint: use `force=True`");
/// let error = anyhow::anyhow!("CRC32 differs").context(Hinted::new("stopped", "try again"));
/// assert_eq!(explain(&error, Voice::Command), "stopped: CRC32 differs\nhint: try again");
/// ```
#[must_use]
pub fn explain(error: &anyhow::Error, voice: Voice) -> String {
    explain_where(error, voice, |_| true)
}

/// The same, with those hints alone that can be followed where it is said.
///
/// ```
/// use shardpack::explain::explain_where;
/// use shardpack_format::{Hint, Hinted, Setting, Voice};
/// use shardpack_pack::grow::AddOptions;
/// let error = anyhow::Error::from(Hinted::new("a palette", Hint::set([Setting::word("kind", "images")])));
/// assert_eq!(explain_where(&error, Voice::Command, AddOptions::can_follow), "a palette");
/// ```
#[must_use]
pub fn explain_where(error: &anyhow::Error, voice: Voice, can_follow: impl Fn(&Hint) -> bool) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = said(cause, voice);
        // Many errors repeat their cause in their own text.
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    let mut hints = hints(error);
    hints.retain(can_follow);
    told(text, &hints, voice)
}

/// The hints of an error and its causes, each once.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<Hint> {
    // What was added as context is no cause: only the whole error finds it.
    let context = error.downcast_ref::<Hinted>().and_then(|hinted| Hinted::hint_in(hinted));
    let mut hints: Vec<Hint> = context.into_iter().collect();
    for hint in error.chain().flat_map(hints_of) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

fn said(cause: &(dyn Error + 'static), voice: Voice) -> String {
    match cause.downcast_ref::<ArgumentError>() {
        Some(error) => error.told(voice),
        None => cause.to_string(),
    }
}

/// The hints of an error, without those of its causes. `tests/integration/hints.rs` checks that every type with
/// hints is asked here.
fn hints_of(cause: &(dyn Error + 'static)) -> Vec<Hint> {
    let one = |hint: Option<Hint>| hint.into_iter().collect();
    if let Some(error) = cause.downcast_ref::<ArgumentError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<FormatError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<Hinted>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<EncodeError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<IoError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<ReaderError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<WriterError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<CubeError>() {
        one(error.hint())
    } else if let Some(error) = cause.downcast_ref::<SourceError>() {
        error.hints()
    } else if let Some(error) = cause.downcast_ref::<SampleError>() {
        error.hints()
    } else if let Some(error) = cause.downcast_ref::<CollectError>() {
        error.hints()
    } else if let Some(error) = cause.downcast_ref::<io::Error>() {
        // What a store says itself: no cause of the error, as Rust sees it.
        one(error.get_ref().and_then(|inner| Hinted::hint_in(inner)))
    } else {
        Vec::new()
    }
}
