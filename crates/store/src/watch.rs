//! Stands between `object_store` and the network: turns answers that are no answers into errors
//! that say so by their type.

use crate::failure::Failure;
use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use std::fmt;
use std::io::ErrorKind;

/// Makes connections that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watched;

impl HttpConnector for Watched {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Watch(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Watch(HttpClient);

#[async_trait]
impl HttpService for Watch {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let ranged = request.headers().contains_key("range");
        let host = host(&request);
        let unanswered = |error: HttpError| HttpError::new(error.kind(), Unanswered { host, error });
        let response = self.0.execute(request).await.map_err(unanswered)?;
        let status = response.status().as_u16();
        let refused = match status {
            // What `object_store` has an error of its own for, or what is right.
            304 | 401 | 403 | 404 | 409 | 412 => return Ok(response),
            200 if ranged => Refused::RangeIgnored,
            200..=299 => return Ok(response),
            status => Refused::Status(status),
        };
        Err(HttpError::new(HttpErrorKind::Unknown, refused))
    }
}

/// Host and port of a request, without the user that an endpoint may name.
fn host(request: &HttpRequest) -> String {
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

/// An answer that does not bring what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Status(u16),
    RangeIgnored,
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
    pub(crate) fn failure(self) -> Failure {
        let words = self.to_string();
        match self {
            Self::Status(429 | 503) => Failure { slow_down: true, ..Failure::again(ErrorKind::ResourceBusy, words) },
            Self::Status(408 | 500..=599) => Failure::again(ErrorKind::Other, words),
            Self::Status(416) => Failure::last(ErrorKind::InvalidData, words),
            Self::Status(300..=399) => {
                Failure::last(ErrorKind::Other, words).with_hint("is the region, or the endpoint, the right one?")
            }
            Self::Status(_) => Failure::last(ErrorKind::Other, words),
            Self::RangeIgnored => Failure::last(ErrorKind::Unsupported, words),
        }
    }
}
