//! Storage for tests that fails at a given request.

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::memory::MemoryStorage;
use crate::objects::Objects;
use crate::read_at::{Ends, ReadAt};
use crate::storage::Storage;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The requests to a [`FailingStorage`] that fail. Requests are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No request fails.
    None,
    /// This request fails, and later ones succeed.
    Once(u64),
    /// This request is executed, but its response is lost. Later requests succeed.
    Unanswered(u64),
    /// This request and all later ones fail, as if the program had been killed before this request.
    KilledBefore(u64),
    /// This request is executed, but it and all later ones fail, as if the program had been killed after this request.
    KilledAfter(u64),
}

impl Failure {
    /// Returns every failure of a program that sends `requests` requests.
    pub fn all(requests: u64) -> impl Iterator<Item = Self> {
        let once = |at| [Self::Once(at), Self::Unanswered(at)];
        (0..requests).flat_map(once).chain(Self::kills(requests))
    }

    /// Returns the failures of a program that is killed during one of its `requests` requests.
    pub fn kills(requests: u64) -> impl Iterator<Item = Self> {
        (0..requests).flat_map(|at| [Self::KilledBefore(at), Self::KilledAfter(at)])
    }
}

/// In-memory storage that fails at the requests of a [`Failure`]. Each open, read, listing or change is one request.
#[derive(Debug)]
pub struct FailingStorage {
    memory: Arc<MemoryStorage>,
    requests: Arc<Requests>,
    /// Object and bytes that another program writes just before the next exchange of this object.
    pub intruder: Mutex<Option<(String, Vec<u8>)>>,
}

#[derive(Debug)]
struct Requests {
    failure: Failure,
    count: AtomicU64,
}

impl Requests {
    fn ask<T, E>(&self, request: impl FnOnce() -> Result<T, E>, failed: impl FnOnce() -> E) -> Result<T, E> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        match self.failure {
            Failure::Once(at) if number == at => Err(failed()),
            Failure::KilledBefore(at) if number >= at => Err(failed()),
            Failure::KilledAfter(at) if number > at => Err(failed()),
            Failure::Unanswered(at) | Failure::KilledAfter(at) if number == at => request().and_then(|_| Err(failed())),
            _ => request(),
        }
    }
}

impl FailingStorage {
    /// Creates storage whose requests go to `memory`, unless they fail.
    #[must_use]
    pub fn new(memory: &Arc<MemoryStorage>, failure: Failure) -> Arc<Self> {
        let requests = Arc::new(Requests { failure, count: AtomicU64::new(0) });
        Arc::new(Self { memory: Arc::clone(memory), requests, intruder: Mutex::default() })
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.count.load(Ordering::SeqCst)
    }

    fn ask<T>(&self, request: impl FnOnce(&MemoryStorage) -> Result<T>) -> Result<T> {
        let failed = || Error::io(self.path(), "reach", ErrorKind::TimedOut);
        self.requests.ask(|| request(&self.memory), failed)
    }
}

impl Storage for FailingStorage {
    fn path(&self) -> &Path {
        self.memory.path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let (file, requests) = (self.ask(|memory| memory.open(name))?, Arc::clone(&self.requests));
        Ok(Arc::new(FailingFile { file, requests }))
    }

    fn names(&self) -> Result<Vec<String>> {
        self.ask(MemoryStorage::names)
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        self.ask(|memory| memory.read(name, max_bytes))
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        self.ask(|memory| memory.read_ends(name, head, tail))
    }
}

impl Objects for FailingStorage {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64> {
        self.ask(|memory| memory.send(name, source, on_sent))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.ask(|memory| memory.create(name, bytes))
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool> {
        let intruder = self.intruder.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(of, _)| of == name);
        self.memory.objects().extend(intruder);
        self.ask(|memory| memory.exchange(name, old, new))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.ask(|memory| memory.remove(name))
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Arc<dyn ReadAt>,
    requests: Arc<Requests>,
}

impl ReadAt for FailingFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        self.requests.ask(|| self.file.read_at(buffer, offset), || ErrorKind::TimedOut.into())
    }
}
