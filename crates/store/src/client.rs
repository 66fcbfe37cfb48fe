//! Opens, announces and reads objects in a folder of a store.

use crate::cache::{Cache, CachedObject, PageCheck};
use crate::fetcher::Fetcher;
use crate::folder::StoreFolder;
use crate::options::StoreOptions;
use crate::schedule::{Opening, PATIENCE, Pin, RequestError};
use futures_util::future::{Either, select};
use object_store::ObjectStore;
use object_store::path::Path as Key;
use shardpack_format::to_usize;
use shardpack_io::{Cause, Error, Result, Traffic};
use std::cell::OnceCell;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Number of fetching threads. Each can transfer more than 1 GB/s without TLS.
const THREADS: usize = 4;

/// Time to clean up after a cancellation. The command ends two seconds after the first Ctrl-C.
const CLEAN_UP: Duration = Duration::from_millis(1500);

/// A client that opens and reads the objects of one folder in a store. Dropping it aborts its requests.
#[derive(Debug)]
pub(crate) struct Client {
    fetcher: Arc<Fetcher>,
    runtime: Option<Runtime>,
    /// Id of the process that runs the fetching threads. A forked process does not have these threads.
    pid: u32,
}

impl Client {
    pub(crate) fn start(
        store: Arc<dyn ObjectStore>,
        folder: Key,
        options: &StoreOptions,
        cache: Option<Arc<Cache>>,
    ) -> io::Result<Self> {
        let threads = shardpack_io::cores().min(THREADS);
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).thread_name("shardpack-store").enable_all().build()?;
        let folder = StoreFolder::new(store, folder, options, cache);
        let fetcher = Arc::new(Fetcher::new(folder, runtime.handle().clone()));
        Ok(Self { fetcher, runtime: Some(runtime), pid: std::process::id() })
    }

    /// Fails in a forked process, which does not have the fetching threads and may have copied
    /// locks that nothing releases.
    fn check_process(&self) -> Result<(), Cause> {
        if self.pid == std::process::id() {
            return Ok(());
        }
        Err(Cause::new(ErrorKind::Unsupported, "the dataset was opened in the parent process, before a fork")
            .with_hint("open the dataset again after the fork, or use the `spawn` start method for workers"))
    }

    pub(crate) fn open(&self, name: &str) -> Result<Arc<Pin>, Cause> {
        self.check()?;
        loop {
            let (known, request) = self.folder().schedule().want_open(name);
            if let Some(request) = request {
                self.fetcher.spawn(request);
            }
            let wait = |opening: Arc<Opening>| opening.wait(|| self.is_cancelled());
            match known.or_else(wait) {
                Ok(pin) => return Ok(pin),
                Err(error) => self.failed(&error)?,
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.folder().options.is_cancelled()
    }

    /// Fails in a forked process, or if the caller has cancelled. Cancelling also drops all announcements.
    fn check(&self) -> Result<(), Cause> {
        self.check_process()?;
        if self.is_cancelled() {
            self.folder().schedule().give_up();
            return Err(RequestError::given_up().cause());
        }
        Ok(())
    }

    /// Converts the error of a request to the caller's error. Returns `Ok` if other readers aborted the
    /// request, and the caller must send it again.
    fn failed(&self, error: &RequestError) -> Result<(), Cause> {
        self.check()?;
        if error.is_abandoned() { Ok(()) } else { Err(error.cause()) }
    }

    pub(crate) fn announce_open(&self, name: &str) {
        if self.check().is_ok() {
            self.folder().schedule().announce_open(name);
            self.fetcher.pump();
        }
    }

    pub(crate) fn announce(&self, pin: &Arc<Pin>, cached: Option<&CachedObject>, range: Range<u64>) {
        if self.check().is_err() {
            return;
        }
        let cache = self.folder().cache.as_ref();
        let is_cached = cache.zip(cached).is_some_and(|(cache, object)| cache.advise(object, &range));
        if is_cached {
            self.folder().schedule().announce_cached(pin, &range);
        } else {
            self.folder().schedule().announce(pin, range);
            self.fetcher.pump();
        }
    }

    pub(crate) fn pin(&self, key: Key, size: u64, e_tag: Option<String>, modified: i64) -> Result<Arc<Pin>, Cause> {
        self.check_process()?;
        let id = self.folder().schedule().next_id();
        Ok(Arc::new(Pin { id, key, size, e_tag, modified }))
    }

    pub(crate) fn forget(&self, pin: &Pin) {
        if self.check_process().is_ok() {
            self.folder().schedule().forget(pin);
            self.fetcher.pump();
        }
    }

    /// Returns whether a byte of the cache is in the page cache. Returns `None` if the cache does not contain the byte,
    /// or if the system does not report this.
    pub(crate) fn is_in_memory(&self, cached: &CachedObject, offset: u64) -> Option<bool> {
        self.check().ok()?;
        self.folder().cache.as_ref()?.is_in_memory(cached, offset)
    }

    /// Reads bytes from the cache or bytes that have already arrived, waits for a request in flight, or sends a new
    /// request.
    pub(crate) fn read(
        &self,
        pin: &Arc<Pin>,
        cached: Option<(&CachedObject, PageCheck)>,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize, Cause> {
        self.check()?;
        let end = offset.saturating_add(buffer.len() as u64).min(pin.size);
        if offset >= end {
            return Ok(0);
        }
        if let Some((cache, (object, check))) = self.folder().cache.as_ref().zip(cached) {
            let unknown = self.folder().schedule().unknown(pin, &(offset..end));
            let unknown = to_usize(unknown).min(buffer.len());
            let read = cache.read(object, check, offset, buffer.get_mut(..unknown).unwrap_or_default());
            if read > 0 {
                return Ok(read);
            }
        }
        loop {
            let (transfer, request) = self.folder().schedule().want(pin, offset..end);
            if let Some(request) = request {
                self.fetcher.spawn(request);
                self.fetcher.pump();
            }
            let Some(transfer) = transfer else { return Err(ErrorKind::NotFound.into()) };
            match transfer.read(buffer, offset, || self.is_cancelled()) {
                Ok(read) => {
                    self.folder().schedule().was_read(pin, &transfer, read as u64);
                    self.fetcher.pump();
                    return Ok(read);
                }
                Err(error) => self.failed(&error)?,
            }
        }
    }

    /// Waits until a future of the store is ready, or until the caller cancels.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Cause> {
        self.finish(unless_cancelled(|| self.is_cancelled(), future))?
    }

    /// Like [`Self::wait`], but waits for another [`CLEAN_UP`] after the caller has cancelled.
    pub(crate) fn clean_up<T>(&self, future: impl Future<Output = T>) -> Result<T, Cause> {
        let cancelled = OnceCell::new();
        let is_late = || self.is_cancelled() && cancelled.get_or_init(Instant::now).elapsed() >= CLEAN_UP;
        self.finish(unless_cancelled(is_late, future))?
    }

    /// Like [`Self::wait`], but ignores cancellation. Use it to clean up after a cancelled call.
    pub(crate) fn finish<T>(&self, future: impl Future<Output = T>) -> Result<T, Cause> {
        self.check_process()?;
        Ok(self.fetcher.handle.block_on(future))
    }

    pub(crate) fn folder(&self) -> &StoreFolder {
        &self.fetcher.folder
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.folder().counters;
        let mut traffic = Traffic::default();
        traffic.requests = load(&counters.requests);
        traffic.retries = load(&counters.retries);
        traffic.hedges = load(&counters.hedges);
        traffic.fetched_bytes = load(&counters.bytes);
        if let Some(cache) = &self.folder().cache {
            traffic.cache = cache.stats();
        }
        if self.check_process().is_ok() {
            let schedule = self.folder().schedule();
            traffic.peak_in_flight = schedule.peak_in_flight as u64;
            traffic.peak_held_bytes = schedule.peak_held;
        }
        traffic
    }
}

/// Waits until a future is ready, or until the caller cancels.
pub(crate) async fn unless_cancelled<T>(
    is_cancelled: impl Fn() -> bool,
    future: impl Future<Output = T>,
) -> Result<T, Cause> {
    let cancelled = async {
        while !is_cancelled() {
            tokio::time::sleep(PATIENCE).await;
        }
    };
    match select(pin!(cancelled), pin!(future)).await {
        Either::Right((result, _)) => Ok(result),
        Either::Left(_) => Err(RequestError::given_up().cause()),
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.check_process().is_ok() {
            // Clear the schedule first. Otherwise each aborted request would start the next one.
            self.folder().schedule().give_up();
            if let Some(cache) = &self.folder().cache {
                cache.close();
            }
            runtime.shutdown_background();
        } else {
            // In a forked process, the threads and their locks belong to the parent.
            std::mem::forget(runtime);
            std::mem::forget(Arc::clone(&self.fetcher));
        }
    }
}

pub(crate) fn cannot_start(name: &str, error: &io::Error) -> Error {
    Error::usage(format!("cannot start threads for `{name}`: {error}"))
}
