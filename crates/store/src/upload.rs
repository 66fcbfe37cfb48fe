//! Writing objects: each appears whole or not at all.

use crate::attempts::Attempts;
use crate::client::{Client, cannot_start};
use crate::connect::{WritableStore, connect_to_write};
use crate::diagnosis::diagnose;
use crate::folder::StoreFolder;
use crate::location::Location;
use crate::options::StoreOptions;
use crate::schedule::RequestError;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use shardpack_format::plain_urls;
use shardpack_io::{Error, Result};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a part. S3 takes 10,000 parts: objects of 156 GiB.
const PART_BYTES: usize = 16 << 20;
/// Parts of an object that are on their way at a time.
const PARTS_AT_A_TIME: usize = 4;

/// A folder in an object store that objects are written to. It makes no dataset: the order of the
/// objects, the manifest last, is up to the caller.
///
/// A request that fails in passing is made again, within
/// [`max_attempts`](StoreOptions::max_attempts) and [`retry_timeout`](StoreOptions::retry_timeout).
/// Calls may come from many threads; each sends, and holds, up to four parts of 16 MiB.
///
/// ```
/// use object_store::memory::InMemory;
/// use shardpack_io::Objects;
/// use shardpack_store::{StoreOptions, Upload};
/// let upload = Upload::new(InMemory::new().into(), "train", &StoreOptions::default())?;
/// assert_eq!(upload.send("a.shard", &mut &b"bytes"[..])?, 5);
/// assert!(upload.create("manifest.json", b"{}")?);
/// assert!(!upload.create("manifest.json", b"another")?);
/// # Ok::<(), shardpack_io::Error>(())
/// ```
#[derive(Debug)]
pub struct Upload {
    pub(crate) client: Arc<Client>,
    pub(crate) store: Arc<dyn WritableStore>,
    path: PathBuf,
}

impl Upload {
    /// The folder `folder` of `store`, `""` for all of it.
    ///
    /// # Errors
    /// `Usage` if the folder cannot be one, or no thread can be started.
    pub fn new<S: ObjectStore + MultipartStore>(store: Arc<S>, folder: &str, options: &StoreOptions) -> Result<Self> {
        let key = Key::parse(folder).map_err(|error| Error::usage("folder in the store", "a path", error))?;
        Self::start(store, key, folder, options)
    }

    /// The folder that a URL names: `s3://`, `gs://` or `az://`.
    ///
    /// # Errors
    /// `Usage` if the URL or an option is not understood, or names no folder that can be written to.
    pub fn at(url: &str, options: &StoreOptions) -> Result<Self> {
        let wrong = |found| Err(Error::usage(format!("`{}`", plain_urls(url)), "a URL of a folder in a store", found));
        match Location::parse(url)? {
            Location::Local(_) => wrong("a path of this machine"),
            Location::Store(target) if target.file.is_some() => wrong("one of a file"),
            Location::Store(target) => {
                Self::start(connect_to_write(&target, options)?, target.folder.clone(), &target.name, options)
            }
        }
    }

    fn start(store: Arc<dyn WritableStore>, folder: Key, name: &str, options: &StoreOptions) -> Result<Self> {
        let client = Client::start(Arc::<dyn WritableStore>::clone(&store), folder, options, None)
            .map_err(|error| cannot_start(name, &error))?;
        Ok(Self { client: Arc::new(client), store, path: name.into() })
    }

    /// As [`Objects::send`](shardpack_io::Objects::send), with errors that do not name the object.
    pub(crate) fn put(&self, name: &str, source: &mut dyn Read) -> io::Result<u64> {
        let key = self.key(name)?;
        let first = part(source)?;
        if first.len() < PART_BYTES {
            let bytes = first.len() as u64;
            self.ask(async || self.store.put(&key, first.clone().into()).await)?;
            return Ok(bytes);
        }
        let id = self.ask(async || self.store.create_multipart(&key).await)?;
        let sent = self.send_parts(&key, &id, first, source);
        if sent.is_err() {
            // What it leaves if this fails too, the store's own rules remove.
            let abort = self.store.abort_multipart(&key, &id);
            let most = self.client.folder().options.first_byte_timeout;
            let _ = self.client.finish(async { tokio::time::timeout(most, abort).await });
        }
        sent
    }

    fn send_parts(&self, key: &Key, id: &MultipartId, first: Bytes, source: &mut dyn Read) -> io::Result<u64> {
        let mut bytes = 0;
        let put = |number, part: Bytes| {
            self.attempts(async move || self.store.put_part(key, id, number, part.clone().into()).await)
        };
        let ids = self.wait(async {
            let (mut ids, mut under_way, mut number) = (Vec::<PartId>::new(), FuturesOrdered::new(), 0);
            let mut next = first;
            loop {
                if !next.is_empty() {
                    bytes += next.len() as u64;
                    under_way.push_back(put(number, next));
                    number += 1;
                    if under_way.len() < PARTS_AT_A_TIME {
                        next = part(source).map_err(|error| RequestError::last(error.kind(), error.to_string()))?;
                        continue;
                    }
                }
                // Before another is read: what is sent is what is held.
                let Some(id) = under_way.next().await else { return Ok(ids) };
                ids.push(id?);
                next = part(source).map_err(|error| RequestError::last(error.kind(), error.to_string()))?;
            }
        })?;
        self.ask(async || self.store.complete_multipart(key, id, ids.clone()).await)?;
        Ok(bytes)
    }

    /// Writes a small object on a condition. True if it holds `bytes` now.
    pub(crate) fn put_if(&self, name: &str, bytes: &[u8], mode: &PutMode) -> io::Result<bool> {
        let key = self.key(name)?;
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let is_new = self.ask(async || {
            use object_store::Error::{AlreadyExists, NotFound, Precondition};
            match self.store.put_opts(&key, payload.clone(), mode.clone().into()).await {
                Err(AlreadyExists { .. } | Precondition { .. }) => Ok(false),
                // What was to be replaced is gone.
                Err(NotFound { .. }) if *mode != PutMode::Create => Ok(false),
                other => other.map(|_| true),
            }
        })?;
        if is_new {
            return Ok(true);
        }
        // Perhaps ours, by an attempt whose answer was lost.
        match self.ask(async || {
            let answer = self.store.get(&key).await?;
            if answer.meta.size == bytes.len() as u64 { answer.bytes().await.map(Some) } else { Ok(None) }
        }) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            there => Ok(there?.is_some_and(|there| there == bytes)),
        }
    }

    pub(crate) fn key(&self, name: &str) -> io::Result<Key> {
        self.client.folder().key(name).map_err(|error| error.io())
    }

    /// Makes a request until it is answered.
    pub(crate) fn ask<T>(&self, request: impl AsyncFnMut() -> object_store::Result<T>) -> io::Result<T> {
        self.wait(self.attempts(request))
    }

    /// One request, for [`Self::wait`].
    pub(crate) async fn attempts<T>(
        &self,
        request: impl AsyncFnMut() -> object_store::Result<T>,
    ) -> Result<T, RequestError> {
        attempts(self.client.folder(), request).await
    }

    /// Waits for the answers to some requests.
    pub(crate) fn wait<T>(&self, requests: impl Future<Output = Result<T, RequestError>>) -> io::Result<T> {
        self.client.wait(requests)?.map_err(|error| error.io())
    }

    /// The folder as messages name it.
    pub(crate) fn folder_path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn failed(&self, name: &str, action: &'static str, source: io::Error) -> Error {
        Error::io(self.path.join(name), action, source)
    }
}

/// The next bytes of the source, fewer than a part at its end only.
fn part(source: &mut dyn Read) -> io::Result<Bytes> {
    let mut part = Vec::new();
    let read = source.take(PART_BYTES as u64).read_to_end(&mut part);
    read.map_err(|error| io::Error::new(error.kind(), format!("the source cannot be read: {error}")))?;
    Ok(part.into())
}

/// Makes a request until it is answered, or the budget is spent.
async fn attempts<T>(
    folder: &StoreFolder,
    mut request: impl AsyncFnMut() -> object_store::Result<T>,
) -> Result<T, RequestError> {
    let options = &folder.options;
    // A part goes up before the first byte of its answer: a slow line may take longer than that.
    let most = (options.retry_timeout / 4).max(options.first_byte_timeout);
    let mut attempts = Attempts::to_write(folder);
    loop {
        folder.counters.requests.fetch_add(1, Ordering::Relaxed);
        let error = match tokio::time::timeout(most, request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => diagnose(&error, &folder.secrets),
            Err(_) => RequestError::again(ErrorKind::TimedOut, format!("no answer within {most:?}")),
        };
        attempts.pause_after(error).await.map_err(|error| {
            let words = format!("{} (attempt {})", error.words, attempts.number);
            RequestError { words, ..error }
        })?;
    }
}
