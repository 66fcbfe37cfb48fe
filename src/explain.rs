//! Formats errors as front ends show them.

use shardpack_format::{Explain, Hint, Voice, told};

/// Returns the message of an error, with options spelled for `voice`, followed by its hints, one per line.
///
/// ```
/// use shardpack::Error;
/// use shardpack::explain::explain;
/// use shardpack_format::{Hint, Note, Setting, Voice};
/// let error = Note::new("expected an empty folder").with_hint(Hint::new("use ").and([Setting::on("force")]));
/// let error = Error::from(error).context("cannot pack");
/// assert_eq!(explain(&error, Voice::Command), "cannot pack: expected an empty folder\nhint: use `--force`");
/// assert_eq!(explain(&error, Voice::Python), "cannot pack: expected an empty folder\nhint: use `force=True`");
/// let error = Error::from("CRC32 differs").context(Note::new("stopped").with_hint("try again"));
/// assert_eq!(explain(&error, Voice::Command), "stopped: CRC32 differs\nhint: try again");
/// ```
#[must_use]
pub fn explain(error: &impl Explain, voice: Voice) -> String {
    explain_where(error, voice, |_| true)
}

/// Like [`explain`], but only with hints that the front end can follow.
///
/// ```
/// use shardpack::Error;
/// use shardpack::explain::explain_where;
/// use shardpack_format::{Hint, Note, Setting, Voice};
/// use shardpack_pack::grow::AddOptions;
/// let error = Note::new("a palette").with_hint(Hint::set([Setting::word("kind", "images")]));
/// let error = Error::from(error);
/// assert_eq!(explain_where(&error, Voice::Command, AddOptions::can_follow), "a palette");
/// ```
#[must_use]
pub fn explain_where(error: &impl Explain, voice: Voice, can_follow: impl Fn(&Hint) -> bool) -> String {
    let mut hints = error.hints();
    hints.retain(can_follow);
    told(Explain::told(error, voice), &hints, voice)
}
