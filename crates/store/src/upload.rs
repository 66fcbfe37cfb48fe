//! Writing objects: each appears whole or not at all.

use crate::client::{Client, Shared, cannot_start};
use crate::connect::{Writable, both, connect_to_write};
use crate::failure::Failure;
use crate::fetch::pause;
use crate::options::StoreOptions;
use crate::place::Place;
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use shardpack_reader::{Error, Result, Traffic};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes of a part. S3 takes 10,000 parts: objects of 156 GiB.
const PART_BYTES: usize = 16 << 20;

/// A folder in an object store that objects are written to. It makes no dataset: the order of the
/// objects, the manifest last, is up to the caller.
///
/// A request that fails in passing is made again, within
/// [`max_attempts`](StoreOptions::max_attempts) and [`retry_timeout`](StoreOptions::retry_timeout).
/// Calls may come from many threads; each holds one part of 16 MiB.
///
/// ```
/// use object_store::memory::InMemory;
/// use shardpack_store::{StoreOptions, Upload};
/// let upload = Upload::new(InMemory::new().into(), "train", &StoreOptions::default())?;
/// assert_eq!(upload.send("a.shard", &mut &b"bytes"[..])?, 5);
/// assert!(upload.create("manifest.json", b"{}")?);
/// assert!(!upload.create("manifest.json", b"another")?);
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Upload {
    client: Client,
    parts: Parts,
    path: PathBuf,
}

struct Parts(Arc<dyn MultipartStore>);

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Upload {
    /// The folder `folder` of `store`, `""` for all of it.
    ///
    /// # Errors
    /// `Usage` if the folder cannot be one, or no thread can be started.
    pub fn new<S: ObjectStore + MultipartStore>(store: Arc<S>, folder: &str, options: &StoreOptions) -> Result<Self> {
        let key = Key::parse(folder).map_err(|error| Error::usage("folder in the store", "a path", error))?;
        Self::start(both(store), key, folder, options)
    }

    /// The folder that a URL names: `s3://`, `gs://` or `az://`.
    ///
    /// # Errors
    /// `Usage` if the URL or an option is not understood, or names no folder that can be written to.
    pub fn at(url: &str, options: &StoreOptions) -> Result<Self> {
        let wrong = |found| Err(Error::usage(format!("`{url}`"), "a URL of a folder in a store", found));
        match Place::parse(url)? {
            Place::Local(_) => wrong("a path of this machine"),
            Place::Remote(target) if target.file.is_some() => wrong("one of a file"),
            Place::Remote(target) => {
                Self::start(connect_to_write(&target, options)?, target.folder.clone(), &target.name, options)
            }
        }
    }

    fn start((store, parts): Writable, folder: Key, name: &str, options: &StoreOptions) -> Result<Self> {
        let client = Client::start(store, folder, options, None).map_err(|error| cannot_start(name, &error))?;
        Ok(Self { client, parts: Parts(parts), path: name.into() })
    }

    /// Writes an object of all that `source` gives, and says how many bytes that were. It replaces
    /// one of its name. Until the end, the store shows the old object, or none.
    ///
    /// # Errors
    /// `Io` if the source cannot be read, or the store refuses; what was sent is taken back then. Where
    /// the answer to the last request is lost, the object may be there, whole, all the same: to send
    /// it again does no harm.
    pub fn send(&self, name: &str, source: &mut dyn Read) -> Result<u64> {
        let key = self.client.shared().key(name).map_err(|failure| self.failed(name, failure.io()))?;
        let first = self.part(name, source)?;
        if first.len() < PART_BYTES {
            let bytes = first.len() as u64;
            self.ask(name, async || self.store().put(&key, first.clone().into()).await)?;
            return Ok(bytes);
        }
        let id = self.ask(name, async || self.parts.0.create_multipart(&key).await)?;
        let sent = self.send_parts(name, &key, &id, first, source);
        if sent.is_err() {
            // What it leaves if this fails too, the store's own rules remove.
            let abort = self.parts.0.abort_multipart(&key, &id);
            let most = self.client.shared().options.first_byte_timeout;
            let _ = self.client.wait(async { tokio::time::timeout(most, abort).await });
        }
        sent
    }

    fn send_parts(
        &self,
        name: &str,
        key: &Key,
        id: &MultipartId,
        mut part: Bytes,
        source: &mut dyn Read,
    ) -> Result<u64> {
        let (mut ids, mut bytes): (Vec<PartId>, u64) = (Vec::new(), 0);
        while !part.is_empty() {
            let number = ids.len();
            ids.push(self.ask(name, async || self.parts.0.put_part(key, id, number, part.clone().into()).await)?);
            bytes += part.len() as u64;
            // Before the next is read: a call holds one part.
            drop(std::mem::take(&mut part));
            part = self.part(name, source)?;
        }
        self.ask(name, async || self.parts.0.complete_multipart(key, id, ids.clone()).await)?;
        Ok(bytes)
    }

    /// Writes a small object unless one of its name is there. True if the object holds `bytes` now:
    /// one that is there and holds the same is as good.
    ///
    /// # Errors
    /// `Io` if the store refuses, or knows no such condition.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let key = self.client.shared().key(name).map_err(|failure| self.failed(name, failure.io()))?;
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let is_new = self.ask(name, async || {
            match self.store().put_opts(&key, payload.clone(), PutMode::Create.into()).await {
                Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                other => other.map(|_| true),
            }
        })?;
        if is_new {
            return Ok(true);
        }
        // Perhaps ours, by an attempt whose answer was lost.
        let there = self.ask(name, async || {
            let answer = self.store().get(&key).await?;
            if answer.meta.size == bytes.len() as u64 { answer.bytes().await.map(Some) } else { Ok(None) }
        })?;
        Ok(there.is_some_and(|there| there == bytes))
    }

    /// Counts of requests and retries.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.client.traffic()
    }

    fn store(&self) -> &dyn ObjectStore {
        &*self.client.shared().store
    }

    /// The next bytes of the source, fewer than a part at its end only.
    fn part(&self, name: &str, source: &mut dyn Read) -> Result<Bytes> {
        let mut part = Vec::new();
        let read = source.take(PART_BYTES as u64).read_to_end(&mut part);
        read.map_err(|error| {
            let words = format!("the source cannot be read: {error}");
            self.failed(name, io::Error::new(error.kind(), words))
        })?;
        Ok(part.into())
    }

    fn ask<T>(&self, name: &str, request: impl AsyncFnMut() -> object_store::Result<T>) -> Result<T> {
        let result = self.client.wait(attempts(self.client.shared(), request));
        result.and_then(|result| result.map_err(|failure| failure.io())).map_err(|error| self.failed(name, error))
    }

    fn failed(&self, name: &str, source: io::Error) -> Error {
        Error::Io { path: self.path.join(name), action: "write", offset: None, source }
    }
}

/// Makes a request until it is answered, or the budget is spent.
async fn attempts<T>(shared: &Shared, mut request: impl AsyncFnMut() -> object_store::Result<T>) -> Result<T, Failure> {
    let (options, begun) = (&shared.options, Instant::now());
    // A part goes up before the first byte of its answer: a slow line may take longer than that.
    let most = (options.retry_timeout / 4).max(options.first_byte_timeout);
    let mut attempt = 1;
    loop {
        let salt = shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        let failure = match tokio::time::timeout(most, request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Failure::of(&error, &shared.secrets),
            Err(_) => Failure::again(ErrorKind::TimedOut, format!("no answer within {most:?}")),
        };
        let pause = pause(options.backoff, attempt, salt);
        let late = begun.elapsed().saturating_add(pause) > options.retry_timeout;
        if !failure.again || attempt >= options.max_attempts || late {
            let words = format!("{} (attempt {attempt})", failure.words);
            return Err(Failure { words, ..failure });
        }
        attempt += 1;
        shared.counters.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
