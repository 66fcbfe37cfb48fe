//! Explains errors of `object_store` without revealing secrets.

use crate::http::{NoAnswer, Refusal};
use crate::schedule::RequestError;
use object_store::client::{HttpError, HttpErrorKind};
use rustls::{AlertDescription, Error as TlsError};
use shardpack_format::{plain_urls, visible};
use std::error::Error as StdError;
use std::fmt::Display;
use std::io::{self, ErrorKind};

pub(crate) fn diagnose(error: &object_store::Error, secrets: &[String]) -> RequestError {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => RequestError::last(ErrorKind::NotFound, "there is no such object"),
        E::Precondition { .. } => RequestError::changed(),
        E::PermissionDenied { .. } => {
            RequestError::last(ErrorKind::PermissionDenied, format!("the store denied access{}", code(error)))
                .with_hint("check your credentials and their permissions for this store")
        }
        E::Unauthenticated { .. } => {
            RequestError::last(ErrorKind::PermissionDenied, format!("the store requires credentials{}", code(error)))
                .with_hint("pass credentials: docs/stores.md lists the names of the options")
        }
        E::NotSupported { .. } | E::NotImplemented { .. } => {
            RequestError::last(ErrorKind::Unsupported, "the store does not support this request")
        }
        E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => {
            RequestError::last(ErrorKind::InvalidInput, hide(innermost(error), secrets))
        }
        _ => diagnose_chain(error, secrets),
    }
}

pub(crate) fn diagnose_chain(error: &(dyn StdError + 'static), secrets: &[String]) -> RequestError {
    if let Some(refused) = find::<Refusal>(error) {
        return refused.error();
    }
    let words = hide(innermost(error), secrets);
    let Some(http) = find::<HttpError>(error) else {
        return RequestError::again(ErrorKind::Other, words);
    };
    // The request itself is invalid, so another attempt would fail too.
    if find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_builder) {
        return RequestError::last(ErrorKind::InvalidInput, words);
    }
    let to = find::<NoAnswer>(error).map_or_else(String::new, |request| format!(" to `{}`", request.host));
    match (find::<TlsError>(error), http.kind()) {
        (Some(TlsError::InvalidMessage(_)), _) => RequestError::last(
            ErrorKind::Other,
            format!("cannot make a secure connection{to}: the server does not use TLS on this port"),
        )
        .with_hint("if the server does not support TLS, use http://"),
        // Do not try again, because the certificate and the protocol versions would be the same.
        (
            Some(
                TlsError::InvalidCertificate(_)
                | TlsError::InvalidCertRevocationList(_)
                | TlsError::NoCertificatesPresented
                | TlsError::PeerIncompatible(_)
                | TlsError::AlertReceived(AlertDescription::ProtocolVersion)
                | TlsError::General(_),
            ),
            _,
        ) => RequestError::last(ErrorKind::Other, format!("cannot make a secure connection{to}: {words}")),
        (_, HttpErrorKind::Connect) => {
            RequestError::again(ErrorKind::NotConnected, format!("cannot connect{to}: {words}"))
        }
        (_, HttpErrorKind::Timeout) => {
            RequestError::again(ErrorKind::TimedOut, format!("the connection{to} is too slow: {words}"))
        }
        _ => RequestError::again(ErrorKind::ConnectionReset, format!("lost the connection{to}: {words}")),
    }
}

/// Returns the innermost error, which explains the cause. The outer errors only say where the cause occurred.
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
        // `source` of an I/O error skips the error inside it, which may be another I/O error.
        let held = at.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = held.map(|held| held as &(dyn StdError + 'static)).or_else(|| at.source());
    }
    None
}

pub(crate) fn hide(error: impl Display, secrets: &[String]) -> String {
    let mut text = error.to_string();
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    let text = plain_urls(&text).split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    // The text may come from a server, so shorten and escape it.
    visible(&text.chars().take(600).collect::<String>()).into_owned()
}

/// Returns the error code in an S3 response, in parentheses, for example ` (AccessDenied)`.
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
        let failure = diagnose(&error, &[]);
        assert!(failure.words.contains("(AccessDenied)") && !failure.words.contains("AKIA"), "{}", failure.words);
        assert!(!failure.again);
    }
}
