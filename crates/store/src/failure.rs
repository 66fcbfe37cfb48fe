//! Why a request failed, in words of our own: those of the crates below may hold the URL with its
//! signature.

use crate::watch::{Refused, Unanswered};
use object_store::client::{HttpError, HttpErrorKind};
use shardpack_format::{Hint, Hinted, plain_urls, visible};
use std::error::Error as StdError;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// How often a wait looks whether it was given up.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) words: String,
    /// What to do next.
    pub(crate) hint: Option<Hint>,
    /// Whether it is worth another attempt.
    pub(crate) again: bool,
    /// Whether the store says that it is asked too much.
    pub(crate) slow_down: bool,
}

impl Failure {
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

    /// What an error of the store means.
    pub(crate) fn of(error: &object_store::Error, secrets: &[String]) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::last(ErrorKind::NotFound, "there is no such object"),
            E::Precondition { .. } => Self::changed(),
            E::PermissionDenied { .. } => {
                Self::last(ErrorKind::PermissionDenied, format!("the store refuses{}", code(error)))
                    .with_hint("are the credentials those of this store?")
            }
            E::Unauthenticated { .. } => {
                Self::last(ErrorKind::PermissionDenied, format!("the store asks for credentials{}", code(error)))
                    .with_hint("see docs/stores.md for their names")
            }
            E::NotSupported { .. } | E::NotImplemented { .. } => {
                Self::last(ErrorKind::Unsupported, "the store does not support it")
            }
            E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
                Self::last(ErrorKind::InvalidInput, hide(innermost(error), secrets))
            }
            _ => Self::of_chain(error, secrets),
        }
    }

    fn of_chain(error: &(dyn StdError + 'static), secrets: &[String]) -> Self {
        if let Some(refused) = find::<Refused>(error) {
            return refused.failure();
        }
        let words = hide(innermost(error), secrets);
        let Some(http) = find::<HttpError>(error) else {
            return Self::again(ErrorKind::Other, words);
        };
        // A request that cannot be made: each attempt would be the same.
        if find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_builder) {
            return Self::last(ErrorKind::InvalidInput, words);
        }
        let to = find::<Unanswered>(error).map_or_else(String::new, |request| format!(" to `{}`", request.host));
        match http.kind() {
            _ if words.contains("corrupt message") => {
                Self::last(ErrorKind::Other, format!("no safe connection{to}: the server does not speak TLS there"))
                    .with_hint("does it speak http:// only?")
            }
            // Another attempt meets the same certificate, and the same versions.
            _ if ["certificate", "ProtocolVersion", "peer is incompatible"].iter().any(|why| words.contains(why)) => {
                Self::last(ErrorKind::Other, format!("no safe connection{to}: {words}"))
            }
            HttpErrorKind::Connect => Self::again(ErrorKind::NotConnected, format!("cannot connect{to}: {words}")),
            HttpErrorKind::Timeout => {
                Self::again(ErrorKind::TimedOut, format!("the connection{to} is too slow: {words}"))
            }
            _ => Self::again(ErrorKind::ConnectionReset, format!("the connection{to} broke: {words}")),
        }
    }
}

/// The error below all others: it says what happened, those above where.
fn innermost<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let mut error = error;
    while let Some(below) = error.source() {
        error = below;
    }
    error
}

fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    let mut error = Some(error);
    while let Some(at) = error {
        if let Some(found) = at.downcast_ref::<T>() {
            return Some(found);
        }
        error = at.source();
    }
    None
}

/// What it says, in one line, without anything secret.
pub(crate) fn hide(error: impl Display, secrets: &[String]) -> String {
    let mut text = error.to_string();
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    let text = plain_urls(&text).split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    // A server may have written it.
    visible(&text.chars().take(600).collect::<String>()).into_owned()
}

/// The code that S3 and those who speak like it put into the body of an answer: ` (AccessDenied)`.
fn code(error: &object_store::Error) -> String {
    let text = error.to_string();
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
    let is_word = |code: &&str| code.len() < 64 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    code.filter(is_word).map_or_else(String::new, |code| format!(" ({code})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_no_secret() {
        let secrets = ["hunter2".to_owned()];
        let text = "error for https://host/key?X-Amz-Signature=abc with hunter2\n at once";
        assert_eq!(hide(text, &secrets), "error for https://host/key?… with … at once");
        assert_eq!(hide("a \u{1b}[2J\u{202e} \"b\"", &[]), "a \\u{1b}[2J\\u{202e} \"b\"");
        let source = "<Error><Code>AccessDenied</Code><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        let error = object_store::Error::PermissionDenied { path: "p".into(), source: source.into() };
        let failure = Failure::of(&error, &[]);
        assert!(failure.words.contains("(AccessDenied)") && !failure.words.contains("AKIA"), "{}", failure.words);
        assert!(!failure.again);
    }
}
