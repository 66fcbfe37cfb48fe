//! Stands between `object_store` and the network: turns answers that are no answers into errors
//! that say so by their type, and bounds those that are kept whole.

use crate::failure::Failure;
use crate::transport::{IsStore, client, is_link_local, leads_away};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::fmt;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

/// The body of an error that is kept.
const MOST_ERROR_BYTES: usize = 64 << 10;
/// An answer that is no object, such as a listing of a thousand names, at most.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// Makes connections that are watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    last: Arc<Mutex<IsStore>>,
}

impl Watched {
    /// A store is built: the last of its clients is that of its objects, those before it ask for
    /// credentials.
    pub(crate) fn built(&self) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).store(true, Ordering::Relaxed);
    }
}

impl HttpConnector for Watched {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_store = IsStore::default();
        let client = HttpClient::new(client(options, &is_store)?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&is_store);
        Ok(HttpClient::new(Watch { client, is_store }))
    }
}

#[derive(Debug)]
struct Watch {
    client: HttpClient,
    is_store: IsStore,
}

#[async_trait]
impl HttpService for Watch {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let refuse = |refused| Err(HttpError::new(HttpErrorKind::Unknown, refused));
        let url = Url::parse(&request.uri().to_string());
        let Some(host) = url.as_ref().ok().and_then(Url::host) else { return refuse(Refused::NoUrl) };
        let is_store = self.is_store.load(Ordering::Relaxed);
        if is_store && is_link_local(&host) {
            return refuse(Refused::LinkLocal { host: host.to_string() });
        }
        let ranged = request.headers().contains_key("range");
        let is_object = is_store && is_of_object(&request);
        let host = authority(&request);
        let unanswered = |error: HttpError| HttpError::new(error.kind(), Unanswered { host, error });
        let response = self.client.execute(request).await.map_err(unanswered)?;
        match response.status().as_u16() {
            // What `object_store` has an error of its own for.
            304 | 401 | 403 | 404 | 409 | 412 => bounded(response, MOST_ERROR_BYTES, true).await,
            200 if ranged => refuse(Refused::RangeIgnored),
            // The size of an object is compared with what the answer says of it.
            200..=299 if is_object => Ok(response),
            200..=299 => bounded(response, MOST_ANSWER_BYTES, false).await,
            // A body that cannot be sent again is not sent on.
            status => {
                let to = response.headers().get("location").and_then(|to| to.to_str().ok());
                let led = url.ok().zip(to).and_then(|(from, to)| leads_away(&from, to));
                refuse(led.map_or(Refused::Status(status), |(from, to)| Refused::Redirect { from, to }))
            }
        }
    }
}

/// Whether an answer brings an object, not a list or the like.
fn is_of_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_list = query.split('&').any(|part| part.starts_with("list-type=") || part == "comp=list");
    matches!(request.method().as_str(), "GET" | "HEAD") && !is_list
}

/// An answer with all of its body, which is cut off at `most` bytes, or refused.
async fn bounded(response: HttpResponse, most: usize, cut: bool) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let (mut pieces, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > most {
            if !cut {
                return Err(HttpError::new(HttpErrorKind::Unknown, Refused::TooLong { most }));
            }
            bytes.truncate(most);
            break;
        }
    }
    Ok(HttpResponse::from_parts(parts, Bytes::from(bytes).into()))
}

/// Host and port of a request, without the user that an endpoint may name.
fn authority(request: &HttpRequest) -> String {
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

/// A request that nobody answered: an endpoint of its own is not in the URL of the dataset.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) host: String,
    error: HttpError,
}

impl std::error::Error for Unanswered {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer from `{}`", self.host)
    }
}

/// A request that is not made, or an answer that does not bring what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    Status(u16),
    RangeIgnored,
    /// The answer leads to another server. Both are origins: scheme, host and port.
    Redirect {
        from: String,
        to: String,
    },
    RedirectLoop {
        origin: String,
    },
    /// The host is a link-local address, or has no other.
    LinkLocal {
        host: String,
    },
    /// The address of the request is none.
    NoUrl,
    /// An answer that is kept whole is longer.
    TooLong {
        most: usize,
    },
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RangeIgnored => f.write_str(
                "the server ignores ranges: it answers a request for a part with the whole (status 200 instead of 206)",
            ),
            Self::Status(status) => {
                write!(f, "the server answers with status {status}{}", meaning(*status))
            }
            Self::Redirect { from, to } => write!(
                f,
                "`{from}` redirects to `{to}`: redirects are followed within one scheme, host and port only, because \
                 they could carry credentials to another server"
            ),
            Self::RedirectLoop { origin } => write!(f, "`{origin}` redirects again and again"),
            Self::LinkLocal { host } => write!(
                f,
                "`{host}` is a link-local address: such addresses are never read from, because clouds hand out \
                 credentials there"
            ),
            Self::NoUrl => f.write_str("the address of the request is no URL"),
            Self::TooLong { most } => write!(f, "the answer is longer than {most} bytes"),
        }
    }
}

const fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => ": the object is elsewhere",
        408 => " (too slow)",
        416 => " (no such range: the object is shorter)",
        429 => " (too many requests)",
        500 => " (internal error)",
        502 => " (bad gateway)",
        503 => " (slow down, or unavailable)",
        504 => " (gateway time-out)",
        _ => "",
    }
}

impl Refused {
    pub(crate) fn failure(&self) -> Failure {
        let words = self.to_string();
        match self {
            Self::Status(429 | 503) => Failure { slow_down: true, ..Failure::again(ErrorKind::ResourceBusy, words) },
            // "Not implemented" does not pass.
            Self::Status(501) => Failure::last(ErrorKind::Unsupported, words),
            Self::Status(408 | 500..=599) => Failure::again(ErrorKind::Other, words),
            Self::Status(416) => Failure::last(ErrorKind::InvalidData, words),
            Self::Status(300..=399) => {
                Failure::last(ErrorKind::Other, words).with_hint("is the region, or the endpoint, the right one?")
            }
            Self::Redirect { .. } => Failure::last(ErrorKind::Other, words).with_hint(
                "is the region, or the endpoint, the right one? if you trust the other server, give its URL instead",
            ),
            Self::RangeIgnored => Failure::last(ErrorKind::Unsupported, words),
            Self::TooLong { .. } => Failure::last(ErrorKind::FileTooLarge, words),
            Self::Status(_) | Self::RedirectLoop { .. } | Self::LinkLocal { .. } | Self::NoUrl => {
                Failure::last(ErrorKind::Other, words)
            }
        }
    }
}
