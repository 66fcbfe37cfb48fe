//! A folder of a store, with the state that its readers share.

use crate::cache::{BlockLocks, Cache, CachedObject, PAGE};
use crate::latencies::Latencies;
use crate::options::StoreOptions;
use crate::schedule::{Pin, RequestError, Schedule, Tuner};
use object_store::ObjectStore;
use object_store::path::Path as Key;
use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct StoreFolder {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) options: StoreOptions,
    pub(crate) secrets: Vec<String>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) locks: BlockLocks,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    key: Key,
    schedule: Mutex<Schedule>,
}

impl StoreFolder {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        key: Key,
        options: &StoreOptions,
        cache: Option<Arc<Cache>>,
    ) -> Self {
        let page = cache.as_ref().map_or(1, |_| PAGE);
        let schedule = Schedule::new(options.read_ahead_bytes, page, Tuner::new(options.in_flight));
        Self {
            store,
            cache,
            secrets: options.secrets(),
            options: options.clone(),
            locks: BlockLocks::new(options.read_ahead_bytes),
            counters: Counters::default(),
            latencies: Latencies::default(),
            key,
            schedule: Mutex::new(schedule),
        }
    }

    pub(crate) fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn prefix(&self) -> Option<&Key> {
        Some(&self.key).filter(|key| !key.is_root())
    }

    pub(crate) fn key(&self, name: &str) -> Result<Key, RequestError> {
        self.key_below(name).ok().filter(|_| name.split('/').count() <= 2).ok_or_else(not_below)
    }

    pub(crate) fn key_below(&self, name: &str) -> Result<Key, RequestError> {
        let is_below = !name.split('/').any(|part| matches!(part, "" | "." | ".."));
        let text = self.prefix().map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"));
        let key = Key::parse(text).ok().filter(|_| is_below);
        key.ok_or_else(not_below)
    }

    /// Returns the object's name relative to the folder, or `None` if the object is outside the folder. The
    /// name is empty if the object has the same name as the folder.
    pub(crate) fn name_of(&self, key: &Key) -> Option<String> {
        let parts: Vec<_> = key.prefix_match(&self.key)?.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    }

    /// Returns the sorted names of the entries directly in the folder, from the store's listing.
    pub(crate) fn names(&self, found: &object_store::ListResult) -> Vec<String> {
        let keys = found.objects.iter().map(|object| &object.location).chain(&found.common_prefixes);
        // Some programs create an empty object with the folder's name.
        let inside = keys.filter(|key| **key != self.key);
        let mut names: Vec<String> = inside.filter_map(|key| key.filename()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the cache and the object's entry in it, or `None` if the object cannot be cached.
    pub(crate) fn cache_of(&self, pin: &Pin) -> Option<(&Arc<Cache>, CachedObject)> {
        let (cache, e_tag) = (self.cache.as_ref()?, pin.strong_tag()?);
        Some((cache, cache.object(pin.id, pin.key.as_ref(), e_tag, pin.size)))
    }
}

fn not_below() -> RequestError {
    let words = "the file must be in the dataset's folder or in one of its direct subfolders";
    RequestError::last(ErrorKind::InvalidInput, words)
}
