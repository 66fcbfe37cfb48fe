//! Support for datasets on the Hugging Face Hub, or on a server with the same interface.
//!
//! The hub serves the files of a repository at `/datasets/OWNER/NAME/resolve/REVISION/PATH`, and redirects requests
//! for large files to another server. Source: <https://huggingface.co/docs/hub/api>.

use crate::client::unless_cancelled;
use crate::diagnosis::diagnose_chain;
use crate::http::{GuardedConnector, bounded};
use crate::options::StoreOptions;
use object_store::ClientOptions;
use object_store::client::{HttpConnector as _, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody};
use object_store::path::Path as Key;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use shardpack_io::{Error, Result};
use std::fmt::Display;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use url::Url;

const ENDPOINT: &str = "https://huggingface.co";
const REVISION: &str = "main";
/// Maximum number of attempts to resolve a revision to a commit.
const ATTEMPTS: u32 = 3;
/// Maximum size of the response, which lists all files of the repository.
const MOST_ANSWER_BYTES: usize = 64 << 20;

/// The repository in a URL `hf://datasets/OWNER/NAME[@REVISION]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubRepository {
    /// `OWNER/NAME`.
    name: String,
    /// Branch, tag or commit.
    revision: String,
}

impl HubRepository {
    /// Returns the repository and the dataset's path in it, or `None` if the URL has a different form.
    pub(crate) fn parse(url: &Url) -> Option<(Self, Key)> {
        let mut parts = url.path_segments().filter(|_| url.host_str() == Some("datasets"))?;
        let (owner, name) = (parts.next()?, parts.next()?);
        let (name, revision) = match name.split_once('@') {
            Some((name, revision)) => (name, Key::from_url_path(revision).ok()?.as_ref().to_owned()),
            None => (name, REVISION.to_owned()),
        };
        let is_name = |name: &str| {
            !name.trim_matches('.').is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let path = Key::from_url_path(parts.collect::<Vec<_>>().join("/")).ok()?;
        let is_valid = is_name(owner) && is_name(name) && !revision.is_empty();
        is_valid.then(|| (Self { name: format!("{owner}/{name}"), revision }, path))
    }

    /// Resolves the revision to a commit, and returns the address of that commit's files. All later requests
    /// then read the same files, even if the branch moves.
    pub(crate) fn address(&self, dataset: &str, options: &StoreOptions, client: &ClientOptions) -> Result<String> {
        let wrong = |text: String| Error::usage(format!("`{}`: {text}", dataset));
        let endpoint = options.value("hf_endpoint").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/');
        if is_commit(&self.revision) {
            return Ok(format!("{endpoint}/datasets/{}/resolve/{}", self.name, self.revision));
        }
        let mut url = Url::parse(&format!("{endpoint}/api/datasets/{}/revision", self.name))
            .map_err(|error| wrong(format!("the address of the hub is not a valid URL ({error})")))?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.push(&self.revision);
        }
        let commit = self.commit(&url, dataset, options, client)?;
        Ok(format!("{endpoint}/datasets/{}/resolve/{commit}", self.name))
    }

    fn commit(&self, url: &Url, dataset: &str, options: &StoreOptions, client: &ClientOptions) -> Result<String> {
        let fail = |text: &dyn Display| {
            Error::usage(format!("`{}`: cannot look up the revision `{}` on the hub: {text}", dataset, self.revision))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| fail(&error))?;
        let mut problem = String::new();
        for attempt in 0..ATTEMPTS.min(options.max_attempts) {
            let answer = async {
                sleep(options.backoff.saturating_mul(attempt)).await;
                timeout(options.first_byte_timeout, ask(url, client)).await
            };
            let answer = runtime.block_on(unless_cancelled(|| options.is_cancelled(), answer));
            match answer.map_err(|cancelled| fail(&cancelled))? {
                Ok(Ok((200, body))) => {
                    return commit_in(&body).ok_or_else(|| fail(&"the response from the hub contains no commit hash"));
                }
                Ok(Ok((status, _))) => return Err(self.refused(status, dataset)),
                Ok(Err(error)) => problem = diagnose_chain(&error, &options.secrets()).words,
                Err(_) => problem = format!("no response within {:?}", options.first_byte_timeout),
            }
        }
        Err(fail(&problem))
    }

    fn refused(&self, status: u16, dataset: &str) -> Error {
        let (name, revision) = (&self.name, self.revision.escape_debug());
        let text = format!(
            "`{}`: the hub has no dataset `{name}` with the revision `{revision}`, or does not let you read it \
             (status {status})",
            dataset
        );
        let hint = "check the name and the revision; for a private or gated dataset, set HF_TOKEN or the storage \
                    option `hf_token`";
        Error::usage(text).with_hint(hint)
    }
}

/// Returns the headers for all requests, which contain the access token if one is set.
pub(crate) fn headers(dataset: &str, options: &StoreOptions) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(token) = options.value("hf_token") {
        let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
        let mut value =
            value.map_err(|_| Error::usage(format!("`{}`: the token for the hub is not ASCII text", dataset)))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

async fn ask(url: &Url, client: &ClientOptions) -> Result<(u16, bytes::Bytes), HttpError> {
    let unknown = |error| HttpError::new(HttpErrorKind::Unknown, error);
    let connector = GuardedConnector::default();
    let connection = connector.connect(client).map_err(unknown)?;
    connector.built();
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    if let Ok(uri) = url.as_str().parse() {
        *request.uri_mut() = uri;
    }
    let response = bounded(connection.execute(request).await?, MOST_ANSWER_BYTES, false).await?;
    Ok((response.status().as_u16(), response.into_body().bytes().await?))
}

fn commit_in(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Revision {
        sha: String,
    }
    let found: Revision = serde_json::from_slice(body).ok()?;
    is_commit(&found.sha).then_some(found.sha)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String, String)> {
        let (repository, path) = HubRepository::parse(&Url::parse(text).unwrap())?;
        Some((repository.name, repository.revision, path.as_ref().to_owned()))
    }

    #[test]
    fn a_url_names_repository_revision_and_path() {
        let expected = |name: &str, revision: &str, path: &str| Some((name.into(), revision.into(), path.into()));
        assert_eq!(parsed("hf://datasets/me/photos"), expected("me/photos", "main", ""));
        assert_eq!(parsed("hf://datasets/me/photos@v1.0/a/train/"), expected("me/photos", "v1.0", "a/train"));
        assert_eq!(parsed("hf://datasets/me/p@refs%2Fpr%2F1/x%20y"), expected("me/p", "refs/pr/1", "x y"));
        for wrong in
            ["hf://datasets/me", "hf://models/me/x", "hf://datasets/me/x@/y", "hf://datasets/../x", "hf://datasets"]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_commit_is_taken_from_an_answer() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit_in(format!("{{\"id\": 1, \"sha\": \"{sha}\"}}").as_bytes()).as_deref(), Some(sha));
        for wrong in ["", "{}", "{\"sha\": \"../../x\"}", "{\"sha\": 7}"] {
            assert_eq!(commit_in(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
