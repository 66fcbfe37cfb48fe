//! Request errors. They never contain an error from another crate, because its message may contain the signed URL.

use shardpack_format::Hint;
use shardpack_io::Cause;
use std::io::ErrorKind;
use std::time::Duration;

/// Interval at which a waiting reader checks for cancellation.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) kind: ErrorKind,
    pub(crate) words: String,
    pub(crate) hint: Option<Hint>,
    /// True if a new attempt may succeed.
    pub(crate) again: bool,
    pub(crate) slow_down: bool,
}

impl RequestError {
    pub(crate) fn last(kind: ErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into(), hint: None, again: false, slow_down: false }
    }

    pub(crate) fn again(kind: ErrorKind, words: impl Into<String>) -> Self {
        Self { again: true, ..Self::last(kind, words) }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn changed() -> Self {
        Self::last(ErrorKind::InvalidData, "the object has changed since it was first read")
            .with_hint("open the dataset again; its files must not be overwritten while it is in use")
    }

    pub(crate) fn given_up() -> Self {
        Self::last(ErrorKind::Other, "the request was cancelled")
    }

    /// Returns the error for a request that all readers have abandoned. A reader that needs the bytes later sends the
    /// request again.
    pub(crate) fn abandoned() -> Self {
        Self::last(ErrorKind::Interrupted, "all readers abandoned the request")
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.kind == ErrorKind::Interrupted
    }

    pub(crate) fn cause(&self) -> Cause {
        let cause = Cause::new(self.kind, self.words.clone());
        self.hint.clone().into_iter().fold(cause, Cause::with_hint)
    }
}
