//! Writes objects atomically: each appears whole or not at all.

use crate::attempts::Attempts;
use crate::client::{Client, cannot_start};
use crate::connect::{WritableStore, connect_to_write};
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
use shardpack_io::{Cause, Error, Result};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of a part. S3 allows 10,000 parts per object, so an object can have up to 156 GiB.
const PART_BYTES: usize = 16 << 20;
const PARTS_AT_A_TIME: usize = 4;

/// A writable folder in an object store. It is independent of datasets: the caller chooses the order of the
/// objects, with the manifest last.
///
/// Requests that fail temporarily are repeated within [`max_attempts`](StoreOptions::max_attempts) and
/// [`retry_timeout`](StoreOptions::retry_timeout). Many threads may use the folder at once. Each call sends up to
/// four parts of 16 MiB in parallel and keeps them in memory.
///
/// ```
/// use object_store::memory::InMemory;
/// use shardpack_io::Objects;
/// use shardpack_store::{StoreOptions, Upload};
/// let upload = Upload::new(InMemory::new().into(), "train", &StoreOptions::default())?;
/// assert_eq!(upload.send("a.shard", &mut &b"bytes"[..], &|bytes| println!("{bytes} bytes have arrived"))?, 5);
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
    /// Uses the folder `folder` of `store`; `""` is the whole store.
    ///
    /// # Errors
    /// `Usage` if `folder` is not a valid key, or no thread can be started.
    pub fn new<S: ObjectStore + MultipartStore>(store: Arc<S>, folder: &str, options: &StoreOptions) -> Result<Self> {
        let key = Key::parse(folder).map_err(|error| Error::usage(format!("invalid folder name: {error}")))?;
        Self::start(store, key, folder, options)
    }

    /// Uses the folder at a URL that starts with `s3://`, `gs://` or `az://`.
    ///
    /// # Errors
    /// `Usage` if the URL or an option is invalid, or the folder is not writable.
    pub fn at(url: &str, options: &StoreOptions) -> Result<Self> {
        let wrong = |problem| Err(Error::usage(format!("`{}` {problem}, not a folder in a store", plain_urls(url))));
        match Location::parse(url)? {
            Location::Local(_) => wrong("is a local path"),
            Location::Store(target) if target.file.is_some() => wrong("is the URL of a file"),
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

    /// Like [`Objects::send`](shardpack_io::Objects::send), except that errors do not name the object.
    pub(crate) fn put(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64, Cause> {
        let key = self.key(name)?;
        let first = part(source)?;
        if first.len() < PART_BYTES {
            let bytes = first.len() as u64;
            self.ask(async || self.store.put(&key, first.clone().into()).await)?;
            on_sent(bytes);
            return Ok(bytes);
        }
        let id = self.ask(async || self.store.create_multipart(&key).await)?;
        let sent = self.send_parts(&key, &id, first, source, on_sent);
        if sent.is_err() {
            // If this fails too, the unfinished upload stays until the store's own rules remove it.
            let abort = self.store.abort_multipart(&key, &id);
            let most = self.client.folder().options.first_byte_timeout;
            let _ = self.client.finish(async { tokio::time::timeout(most, abort).await });
        }
        sent
    }

    fn send_parts(
        &self,
        key: &Key,
        id: &MultipartId,
        first: Bytes,
        source: &mut dyn Read,
        on_sent: &dyn Fn(u64),
    ) -> Result<u64, Cause> {
        let mut bytes = 0;
        let put = async |number, part: Bytes| {
            let put = async || self.store.put_part(key, id, number, part.clone().into()).await;
            let id = self.attempts(put).await?;
            on_sent(part.len() as u64);
            Ok::<PartId, RequestError>(id)
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
                // Wait before reading the next part, so memory contains only parts in flight.
                let Some(id) = under_way.next().await else { return Ok(ids) };
                ids.push(id?);
                next = part(source).map_err(|error| RequestError::last(error.kind(), error.to_string()))?;
            }
        })?;
        self.ask(async || self.store.complete_multipart(key, id, ids.clone()).await)?;
        Ok(bytes)
    }

    /// Writes a small object conditionally. Returns true if the object contains `bytes` afterwards.
    pub(crate) fn put_if(&self, name: &str, bytes: &[u8], mode: &PutMode) -> Result<bool, Cause> {
        let key = self.key(name)?;
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let is_new = self.ask(async || {
            use object_store::Error::{AlreadyExists, NotFound, Precondition};
            match self.store.put_opts(&key, payload.clone(), mode.clone().into()).await {
                Err(AlreadyExists { .. } | Precondition { .. }) => Ok(false),
                Err(NotFound { .. }) if *mode != PutMode::Create => Ok(false),
                other => other.map(|_| true),
            }
        })?;
        if is_new {
            return Ok(true);
        }
        // An earlier attempt may have written the object even though its response was lost.
        let there = self.wait(self.content(&key, bytes.len() as u64))?;
        Ok(there.is_some_and(|there| there == bytes))
    }

    /// Removes an object that contains `bytes`, even if the caller has cancelled.
    pub(crate) fn remove_own(&self, name: &str, bytes: &[u8]) -> Result<(), Cause> {
        let key = self.key(name)?;
        let remove = async {
            match self.content(&key, bytes.len() as u64).await? {
                Some(found) if found == bytes => self.delete(&key).await,
                _ => Ok(()),
            }
        };
        self.client.clean_up(remove)?.map_err(|error| error.cause())
    }

    /// Returns the bytes of an object if it exists and has this size. An object of a different size may be arbitrarily
    /// large.
    async fn content(&self, key: &Key, bytes: u64) -> Result<Option<Bytes>, RequestError> {
        let read = self.attempts(async || {
            let answer = self.store.get(key).await?;
            if answer.meta.size == bytes { answer.bytes().await.map(Some) } else { Ok(None) }
        });
        match read.await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other,
        }
    }

    pub(crate) async fn delete(&self, key: &Key) -> Result<(), RequestError> {
        let delete = async || match self.store.delete(key).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other,
        };
        self.attempts(delete).await
    }

    pub(crate) fn key(&self, name: &str) -> Result<Key, Cause> {
        self.client.folder().key(name).map_err(|error| error.cause())
    }

    pub(crate) fn ask<T>(&self, request: impl AsyncFnMut() -> object_store::Result<T>) -> Result<T, Cause> {
        self.wait(self.attempts(request))
    }

    /// Sends a request, and repeats it if needed. The returned future must be passed to [`Self::wait`].
    pub(crate) async fn attempts<T>(
        &self,
        request: impl AsyncFnMut() -> object_store::Result<T>,
    ) -> Result<T, RequestError> {
        Attempts::to_write(self.client.folder()).ask(request).await
    }

    pub(crate) fn wait<T>(&self, requests: impl Future<Output = Result<T, RequestError>>) -> Result<T, Cause> {
        self.client.wait(requests)?.map_err(|error| error.cause())
    }

    pub(crate) fn folder_path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn failed(&self, name: &str, action: &'static str, source: Cause) -> Error {
        Error::io(self.path.join(name), action, source)
    }
}

/// Reads the next part. Only the last part of an object can be shorter than the others.
fn part(source: &mut dyn Read) -> io::Result<Bytes> {
    let mut part = Vec::new();
    let read = source.take(PART_BYTES as u64).read_to_end(&mut part);
    read.map_err(|error| io::Error::new(error.kind(), format!("the source cannot be read: {error}")))?;
    Ok(part.into())
}
