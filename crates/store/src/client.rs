//! The threads that fetch, and what they share with those who read.

use crate::block::Block;
use crate::cache::Cache;
use crate::cache_block::{Cached, PAGE};
use crate::failure::{Failure, PATIENCE};
use crate::object::Pin;
use crate::opening::{Opening, open};
use crate::options::StoreOptions;
use crate::state::{Known, Start, State};
use crate::through::{Turns, bring};
use crate::tuner::Tuner;
use futures_util::future::{Either, select};
use object_store::ObjectStore;
use object_store::path::Path as Key;
use shardpack_format::{Hinted, to_usize};
use shardpack_io::{Error, Result, Traffic};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that fetch, at most: each moves more than a GB/s, without TLS.
const THREADS: usize = 4;
/// First bytes that are looked at to know which request is slow.
const SAMPLES: usize = 256;

/// Counted by many threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// What the threads that fetch share with those who read.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) options: StoreOptions,
    pub(crate) secrets: Vec<String>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) counters: Counters,
    pub(crate) turns: Turns,
    folder: Key,
    begun: Instant,
    state: Mutex<State>,
    /// The last first bytes, and which of them comes next.
    waits: Mutex<(Vec<Duration>, usize)>,
    handle: Handle,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all objects that were opened: about the dataset, once each of its shards was.
    pub(crate) fn opened_bytes(&self) -> u64 {
        self.state().opened_bytes
    }

    pub(crate) const fn folder(&self) -> &Key {
        &self.folder
    }

    /// The key of a file of the dataset.
    pub(crate) fn key(&self, name: &str) -> Result<Key, Failure> {
        self.key_below(name).ok().filter(|_| name.split('/').count() <= 2).ok_or_else(not_below)
    }

    /// The key of an object at any depth below the folder.
    pub(crate) fn key_below(&self, name: &str) -> Result<Key, Failure> {
        let is_below = !name.split('/').any(|part| matches!(part, "" | "." | ".."));
        let text = if self.folder.is_root() { name.to_owned() } else { format!("{}/{name}", self.folder) };
        let key = Key::parse(text).ok().filter(|_| is_below);
        key.ok_or_else(not_below)
    }

    /// How long a first byte takes that is slow beyond 99 of 100; `None` if nothing is asked twice.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        if !self.options.hedge {
            return None;
        }
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        waits.sort_unstable();
        (waits.len() >= 100).then(|| waits.get(waits.len() * 99 / 100).copied()).flatten()
    }

    pub(crate) fn first_byte_took(&self, wait: Duration) {
        if !self.options.hedge {
            return;
        }
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, next) = &mut *waits;
        match all.get_mut(*next) {
            Some(place) => *place = wait,
            None => all.push(wait),
        }
        *next = (*next + 1) % SAMPLES;
    }

    /// The cache, and an object as it knows it; `None` where nothing of it is kept.
    pub(crate) fn cache_of(&self, pin: &Pin) -> Option<(&Arc<Cache>, Cached)> {
        let (cache, e_tag) = (self.cache.as_ref()?, pin.strong_tag()?);
        Some((cache, cache.object(pin.key.as_ref(), e_tag, pin.size)))
    }

    /// Whether a range is on the local disk: then who reads it takes it from there.
    fn is_cached(&self, pin: &Pin, range: &Range<u64>) -> bool {
        self.cache_of(pin).is_some_and(|(cache, object)| cache.advise(&object, range))
    }

    fn spawn(self: &Arc<Self>, start: Start) {
        let shared = Arc::clone(self);
        let ending = Ending { shared: Arc::clone(self), start: Some(start), bytes: 0, failure: None };
        self.handle.spawn(async move {
            // As a whole: else only copies of its fields would be taken in.
            let mut ending = ending;
            match &ending.start {
                Some(Start::Block(pin, block)) => {
                    let result = bring(&shared, pin, block).await;
                    ending.bytes = result.as_ref().map_or(0, |_| block.range.end - block.range.start);
                    ending.failure = Some(result.err());
                }
                Some(Start::Open(name, opening)) => {
                    let result = open(&shared, name, &opening.readers).await;
                    ending.failure = Some(result.as_ref().err().cloned());
                    // A failure is told once the name is free to be asked for again.
                    if result.is_ok() {
                        opening.finish(result);
                    }
                }
                None => {}
            }
        });
    }

    /// Asks for whatever there is room for.
    fn pump(self: &Arc<Self>) {
        loop {
            let start = self.state().next();
            match start {
                Some(start) => self.spawn(start),
                None => return,
            }
        }
    }
}

/// Says that a job is over, however it ended: whoever waits for it would wait for ever.
struct Ending {
    shared: Arc<Shared>,
    start: Option<Start>,
    bytes: u64,
    /// `None` as long as it runs.
    failure: Option<Option<Failure>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(start) = self.start.take() else { return };
        let cut = || Some(Failure::given_up());
        let failure = self.failure.take().unwrap_or_else(cut);
        let now = self.shared.begun.elapsed();
        {
            let mut state = self.shared.state();
            state.count_out(start.requests());
            match &start {
                Start::Block(pin, block) => {
                    state.finished(pin, block, failure.is_none());
                    let is_full = state.is_full();
                    state.tuner.done(now, self.bytes, is_full);
                }
                Start::Open(name, opening) => {
                    if failure.is_some()
                        && let Some(Known::Opening(known)) = state.names.get(name)
                        && Arc::ptr_eq(known, opening)
                    {
                        state.names.remove(name);
                    }
                }
            }
        }
        if let Some(failure) = failure {
            match &start {
                Start::Block(_, block) => block.fail(failure),
                Start::Open(_, opening) => opening.finish(Err(failure)),
            }
        }
        self.shared.pump();
    }
}

/// A client of one store, for one folder in it. Dropped, it gives up what is on its way.
#[derive(Debug)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    /// The process that started the threads: a fork of it has none.
    pid: u32,
}

impl Client {
    pub(crate) fn start(
        store: Arc<dyn ObjectStore>,
        folder: Key,
        options: &StoreOptions,
        cache: Option<Arc<Cache>>,
    ) -> io::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).thread_name("shardpack-store").enable_all().build()?;
        let page = cache.as_ref().map_or(1, |_| PAGE);
        let tuner = Tuner::new(options.in_flight);
        let shared = Shared {
            store,
            cache,
            secrets: options.secrets(),
            options: options.clone(),
            counters: Counters::default(),
            turns: Turns::new(options.read_ahead_bytes),
            folder,
            begun: Instant::now(),
            state: Mutex::new(State::new(options.read_ahead_bytes, page, tuner)),
            waits: Mutex::default(),
            handle: runtime.handle().clone(),
        };
        Ok(Self { shared: Arc::new(shared), runtime: Some(runtime), pid: std::process::id() })
    }

    /// In a fork, the threads are missing, and locks may be held for ever.
    fn check_process(&self) -> io::Result<()> {
        if self.pid == std::process::id() {
            return Ok(());
        }
        let words = "the dataset was opened by the process that this one is a fork of";
        let hint = "open it again after the fork, or start workers with spawn";
        Err(io::Error::new(ErrorKind::Unsupported, Hinted::new(words, hint)))
    }

    pub(crate) fn open(&self, name: &str) -> io::Result<Arc<Pin>> {
        self.check()?;
        loop {
            let (known, start) = self.shared.state().want_open(name);
            if let Some(start) = start {
                self.shared.spawn(start);
            }
            let wait = |opening: Arc<Opening>| opening.wait(|| self.is_cancelled());
            match known.or_else(wait) {
                Ok(pin) => return Ok(pin),
                Err(failure) => self.failed(&failure)?,
            }
        }
    }

    /// Whether the caller cancelled: by the options, or what this thread works for.
    fn is_cancelled(&self) -> bool {
        self.shared.options.is_cancelled() || shardpack_io::is_cancelled()
    }

    /// Refuses a fork, and a caller that cancelled: what it has announced is forgotten.
    fn check(&self) -> io::Result<()> {
        self.check_process()?;
        if self.is_cancelled() {
            self.shared.state().give_up();
            return Err(Failure::given_up().io());
        }
        Ok(())
    }

    /// Returns an error, unless the request was given up by others: then it is to be asked for again.
    fn failed(&self, failure: &Failure) -> io::Result<()> {
        self.check()?;
        if failure.is_abandoned() { Ok(()) } else { Err(failure.io()) }
    }

    pub(crate) fn announce_open(&self, name: &str) {
        if self.check().is_ok() {
            self.shared.state().announce_open(name);
            self.shared.pump();
        }
    }

    pub(crate) fn announce(&self, pin: &Arc<Pin>, range: Range<u64>) {
        if self.check().is_err() {
            return;
        }
        if self.shared.is_cached(pin, &range) {
            self.shared.state().announce_cached(pin, &range);
        } else {
            self.shared.state().announce(pin, range);
            self.shared.pump();
        }
    }

    /// A pin of an object that was listed.
    pub(crate) fn pin(&self, key: Key, size: u64, e_tag: Option<String>, modified: i64) -> io::Result<Arc<Pin>> {
        self.check_process()?;
        let id = self.shared.state().next_id();
        Ok(Arc::new(Pin { id, key, size, e_tag, modified }))
    }

    /// Nobody will read this object any more.
    pub(crate) fn forget(&self, pin: &Pin) {
        if self.check_process().is_ok() {
            self.shared.state().forget(pin);
            self.shared.pump();
        }
    }

    /// Reads what has arrived, waits for what is on its way, or asks.
    pub(crate) fn read(&self, pin: &Arc<Pin>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        let end = offset.saturating_add(buffer.len() as u64).min(pin.size);
        if offset >= end {
            return Ok(0);
        }
        if let Some((cache, object)) = self.shared.cache_of(pin) {
            let unknown = self.shared.state().unknown(pin, &(offset..end));
            let unknown = to_usize(unknown).min(buffer.len());
            let read = cache.read(&object, offset, buffer.get_mut(..unknown).unwrap_or_default());
            if read > 0 {
                return Ok(read);
            }
        }
        loop {
            let (block, start) = self.shared.state().want(pin, offset..end);
            if let Some(start) = start {
                self.shared.spawn(start);
                self.shared.pump();
            }
            let Some(block): Option<Arc<Block>> = block else { return Err(ErrorKind::NotFound.into()) };
            match block.read(buffer, offset, || self.is_cancelled()) {
                Ok(read) => {
                    self.shared.state().was_read(pin, &block, read as u64);
                    self.shared.pump();
                    return Ok(read);
                }
                Err(failure) => self.failed(&failure)?,
            }
        }
    }

    /// Waits for what a future of the store brings, or until that is given up.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> io::Result<T> {
        let given_up = async {
            while !self.is_cancelled() {
                tokio::time::sleep(PATIENCE).await;
            }
        };
        self.finish(async {
            match select(pin!(given_up), pin!(future)).await {
                Either::Right((result, _)) => Ok(result),
                Either::Left(_) => Err(Failure::given_up().io()),
            }
        })?
    }

    /// As [`Self::wait`], for what has to be done after something was given up.
    pub(crate) fn finish<T>(&self, future: impl Future<Output = T>) -> io::Result<T> {
        self.check_process()?;
        Ok(self.shared.handle.block_on(future))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let mut traffic = Traffic::default();
        traffic.requests = load(&counters.requests);
        traffic.retries = load(&counters.retries);
        traffic.hedges = load(&counters.hedges);
        traffic.fetched_bytes = load(&counters.bytes);
        if let Some(cache) = &self.shared().cache {
            traffic.cache = cache.stats();
        }
        if self.check_process().is_ok() {
            let state = self.shared.state();
            traffic.peak_in_flight = state.peak_in_flight as u64;
            traffic.peak_held_bytes = state.peak_held;
        }
        traffic
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.check_process().is_ok() {
            // Before: each request that is given up would begin the next one, within its own end.
            self.shared.state().give_up();
            runtime.shutdown_background();
        } else {
            // Its threads are in the other process, and so are those who hold its locks.
            std::mem::forget(runtime);
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

fn not_below() -> Failure {
    Failure::last(ErrorKind::InvalidInput, "the name is not one below the dataset's folder")
}

/// What cannot be: said in the words of an error.
pub(crate) fn cannot_start(name: &str, error: &io::Error) -> Error {
    Error::usage(format!("threads to read `{name}`"), "that the system starts them", error)
}
