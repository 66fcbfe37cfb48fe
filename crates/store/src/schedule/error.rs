//! Why a request failed, in words of our own: those of the crates below may hold the URL with its
//! signature.

use shardpack_format::{Hint, Hinted};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// How often a wait looks whether it was given up.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) kind: ErrorKind,
    pub(crate) words: String,
    /// What to do next.
    pub(crate) hint: Option<Hint>,
    /// Whether it is worth another attempt.
    pub(crate) again: bool,
    /// Whether the store says that it is asked too much.
    pub(crate) slow_down: bool,
}

impl RequestError {
    /// One that another attempt cannot mend.
    pub(crate) fn last(kind: ErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into(), hint: None, again: false, slow_down: false }
    }

    /// One that another attempt may mend.
    pub(crate) fn again(kind: ErrorKind, words: impl Into<String>) -> Self {
        Self { again: true, ..Self::last(kind, words) }
    }

    /// With a next step.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// That the object is not the one that was first read.
    pub(crate) fn changed() -> Self {
        Self::last(ErrorKind::InvalidData, "the object has changed since it was first read")
            .with_hint("write changed datasets under another name")
    }

    /// That the caller cancelled.
    pub(crate) fn given_up() -> Self {
        Self::last(ErrorKind::Other, "the request was given up")
    }

    /// That every reader of the request has given up. One that comes to it then asks again.
    pub(crate) fn abandoned() -> Self {
        Self::last(ErrorKind::Interrupted, "the request was given up by its readers")
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.kind == ErrorKind::Interrupted
    }

    pub(crate) fn io(&self) -> io::Error {
        match self.hint.clone() {
            Some(hint) => io::Error::new(self.kind, Hinted::new(self.words.clone(), hint)),
            None => io::Error::new(self.kind, self.words.clone()),
        }
    }
}
