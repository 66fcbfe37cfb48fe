//! Rejects invalid responses before they reach `object_store`, and limits the size of responses in memory.

use super::client::{IsStore, client, is_link_local, leads_away};
use super::refusal::{NoAnswer, Refusal};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use url::Url;

const MOST_ERROR_BYTES: usize = 64 << 10;
/// Maximum size of a response that is not an object, such as a listing with a thousand names.
const MOST_ANSWER_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct GuardedConnector {
    last: Arc<Mutex<IsStore>>,
    follows_elsewhere: bool,
}

impl GuardedConnector {
    /// Creates a connector that follows redirects to other servers, for stores that keep their files
    /// elsewhere.
    pub(crate) fn following_elsewhere() -> Self {
        Self { follows_elsewhere: true, ..Self::default() }
    }

    /// Marks the latest client as the client for objects. All clients created before it fetch credentials.
    pub(crate) fn built(&self) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).store(true, Ordering::Relaxed);
    }
}

impl HttpConnector for GuardedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_store = IsStore::default();
        let client = HttpClient::new(client(options, &is_store, self.follows_elsewhere)?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&is_store);
        Ok(HttpClient::new(GuardedService { client, is_store }))
    }
}

#[derive(Debug)]
struct GuardedService {
    client: HttpClient,
    is_store: IsStore,
}

#[async_trait]
impl HttpService for GuardedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let refuse = |refused| Err(HttpError::new(HttpErrorKind::Unknown, refused));
        let url = Url::parse(&request.uri().to_string());
        let Some(host) = url.as_ref().ok().and_then(Url::host) else { return refuse(Refusal::NoUrl) };
        let is_store = self.is_store.load(Ordering::Relaxed);
        if is_store && is_link_local(&host) {
            return refuse(Refusal::LinkLocal { host: host.to_string() });
        }
        let ranged = request.headers().contains_key("range");
        let is_list = is_list(&request);
        let is_object = is_store && !is_list && matches!(request.method().as_str(), "GET" | "HEAD");
        let host = authority(&request);
        let unanswered = |error: HttpError| HttpError::new(error.kind(), NoAnswer { host, error });
        let response = self.client.execute(request).await.map_err(unanswered)?;
        match response.status().as_u16() {
            404 if is_store && is_list => refuse(Refusal::NoBucket),
            // `object_store` has specific errors for these statuses.
            304 | 401 | 403 | 404 | 409 | 412 => bounded(response, MOST_ERROR_BYTES, true).await,
            200 if ranged => refuse(Refusal::RangeIgnored),
            // The size of an object is checked against the headers of the response instead.
            200..=299 if is_object => Ok(response),
            200..=299 => bounded(response, MOST_ANSWER_BYTES, false).await,
            // Redirects may remain here, for example if the body of the request cannot be sent again.
            status => {
                let to = response.headers().get("location").and_then(|to| to.to_str().ok());
                let led = url.ok().zip(to).and_then(|(from, to)| leads_away(&from, to));
                refuse(led.map_or(Refusal::Status(status), |(from, to)| Refusal::Redirect { from, to }))
            }
        }
    }
}

fn is_list(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part.starts_with("list-type=") || part == "comp=list")
}

/// Reads a whole body. Truncates a body of more than `most` bytes if `cut` is true, and refuses it otherwise.
pub(crate) async fn bounded(response: HttpResponse, most: usize, cut: bool) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let (mut pieces, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > most {
            if !cut {
                return Err(HttpError::new(HttpErrorKind::Unknown, Refusal::TooLong { most }));
            }
            bytes.truncate(most);
            break;
        }
    }
    Ok(HttpResponse::from_parts(parts, Bytes::from(bytes).into()))
}

/// Returns the host and port, without a user name that the endpoint may contain.
fn authority(request: &HttpRequest) -> String {
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}
