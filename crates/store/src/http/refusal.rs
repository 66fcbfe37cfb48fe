//! Typed errors for requests that are not sent and responses that are rejected.

use crate::schedule::RequestError;
use object_store::client::HttpError;
use std::fmt;
use std::io::ErrorKind;

/// Error of a request that gets no response. It contains the host, because a custom endpoint is not part of the
/// dataset's URL.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) host: String,
    pub(super) error: HttpError,
}

impl std::error::Error for NoAnswer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no response from `{}`", self.host)
    }
}

/// Reason why this client did not send a request, or rejected the response to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Status(u16),
    RangeIgnored,
    /// The response redirects to another server, which is not allowed. Both fields are origins (scheme, host and
    /// port).
    Redirect {
        from: String,
        to: String,
    },
    RedirectLoop {
        origin: String,
    },
    /// The host is a link-local address, or resolves only to link-local addresses.
    LinkLocal {
        host: String,
    },
    NoUrl,
    /// The bucket or folder to list does not exist.
    NoBucket,
    /// The response is too long to keep in memory.
    TooLong {
        most: usize,
    },
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RangeIgnored => f.write_str(
                "the server does not support ranges: it returned the whole object instead of a part (status 200 \
                 instead of 206)",
            ),
            Self::Status(status) => {
                write!(f, "the server returned status {status}{}", meaning(*status))
            }
            Self::Redirect { from, to } => write!(
                f,
                "`{from}` redirects to `{to}`: redirects are followed only within one scheme, host and port, because \
                 they could carry credentials to another server"
            ),
            Self::RedirectLoop { origin } => write!(f, "`{origin}` redirects in a loop"),
            Self::LinkLocal { host } => write!(
                f,
                "`{host}` is a link-local address: requests to such addresses are refused, because clouds provide \
                 credentials there"
            ),
            Self::NoUrl => f.write_str("the address of the request is not a valid URL"),
            Self::NoBucket => f.write_str("there is no such bucket or container"),
            Self::TooLong { most } => write!(f, "the response is longer than {most} bytes"),
        }
    }
}

const fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => ": the object has moved",
        408 => " (too slow)",
        416 => " (the object is shorter than expected)",
        429 => " (too many requests)",
        500 => " (internal error)",
        502 => " (bad gateway)",
        503 => " (overloaded or unavailable)",
        504 => " (gateway timeout)",
        _ => "",
    }
}

impl Refusal {
    pub(crate) fn error(&self) -> RequestError {
        let words = self.to_string();
        match self {
            Self::Status(429 | 503) => {
                RequestError { slow_down: true, ..RequestError::again(ErrorKind::ResourceBusy, words) }
            }
            // 501 means "not implemented", which a new attempt would not change.
            Self::Status(501) => RequestError::last(ErrorKind::Unsupported, words),
            Self::Status(408 | 500..=599) => RequestError::again(ErrorKind::Other, words),
            Self::Status(416) => RequestError::last(ErrorKind::InvalidData, words),
            Self::Status(300..=399) => {
                RequestError::last(ErrorKind::Other, words).with_hint("check the region and the endpoint")
            }
            Self::Redirect { .. } => RequestError::last(ErrorKind::Other, words)
                .with_hint("check the region and the endpoint; if you trust the other server, use its URL instead"),
            Self::RangeIgnored => RequestError::last(ErrorKind::Unsupported, words),
            Self::TooLong { .. } => RequestError::last(ErrorKind::FileTooLarge, words),
            Self::NoBucket => RequestError::last(ErrorKind::NotFound, words),
            Self::Status(_) | Self::RedirectLoop { .. } | Self::LinkLocal { .. } | Self::NoUrl => {
                RequestError::last(ErrorKind::Other, words)
            }
        }
    }
}
