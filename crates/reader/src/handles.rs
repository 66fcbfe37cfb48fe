//! A bounded set of open files that closes the least recently used one when full. A dataset may have more
//! shards than a process may have open files.

use crate::error::Result;
use rustix::io::Errno;
use shardpack_io::{ReadAt, Storage, read_exact_at, read_exact_unchecked_at};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of open files. It becomes smaller if the process may not open that many.
const MAX_OPEN_FILES: usize = 256;

#[derive(Debug)]
pub(crate) struct Handles {
    storage: Arc<dyn Storage>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    max_open: usize,
    tick: u64,
    open: HashMap<Arc<str>, (u64, Arc<dyn ReadAt>)>,
}

impl Handles {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, state: Mutex::new(State { max_open: MAX_OPEN_FILES, tick: 0, open: HashMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file. It stays open until the last reader drops it, even if the set removes it earlier.
    fn handle(&self, name: &Arc<str>) -> Result<Arc<dyn ReadAt>> {
        {
            let mut state = self.state();
            state.tick += 1;
            let tick = state.tick;
            if let Some((used, file)) = state.open.get_mut(name) {
                *used = tick;
                return Ok(Arc::clone(file));
            }
        }
        // Release the lock before opening the file, because opening is slow on a network file system.
        let file = loop {
            match self.storage.open(name) {
                Ok(file) => break file,
                Err(e) if out_of_handles(&e) && self.close_half() => {}
                Err(e) => return Err(e.into()),
            }
        };
        let mut state = self.state();
        while state.open.len() >= state.max_open {
            state.close_oldest();
        }
        let tick = state.tick;
        state.open.insert(Arc::clone(name), (tick, Arc::clone(&file)));
        Ok(file)
    }

    /// Closes half of the files after the process has run out of file descriptors. Returns false if no files were open.
    fn close_half(&self) -> bool {
        let mut state = self.state();
        let keep = state.open.len() / 2;
        let any = !state.open.is_empty();
        state.max_open = keep.max(1);
        while state.open.len() > keep {
            state.close_oldest();
        }
        any
    }
}

impl State {
    fn close_oldest(&mut self) {
        let oldest = self.open.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| Arc::clone(name));
        if let Some(name) = oldest {
            self.open.remove(&name);
        }
    }
}

fn out_of_handles(error: &shardpack_io::Error) -> bool {
    let shardpack_io::Error::Io { source, .. } = error else { return false };
    source.raw_os_error().is_some_and(|code| [Errno::MFILE, Errno::NFILE].iter().any(|e| e.raw_os_error() == code))
}

/// The file of a shard. It is reopened on demand if the set of open files has closed it.
#[derive(Debug, Clone)]
pub struct ShardFile {
    path: Arc<Path>,
    len: u64,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Open(Arc<dyn ReadAt>),
    Pooled(Arc<Handles>, Arc<str>),
}

impl ShardFile {
    pub(crate) fn open(path: PathBuf, file: Arc<dyn ReadAt>) -> Self {
        Self { path: path.into(), len: file.len(), source: Source::Open(file) }
    }

    pub(crate) fn pooled(handles: &Arc<Handles>, name: &str) -> Result<Self> {
        let name: Arc<str> = name.into();
        let path = handles.storage.path().join(&*name);
        let len = handles.handle(&name)?.len();
        Ok(Self { path: path.into(), len, source: Source::Pooled(Arc::clone(handles), name) })
    }

    /// Returns the path as the user would write it, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the file is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the open file. It stays open until the caller drops it.
    ///
    /// # Errors
    /// `Io` if it cannot be reopened; `Format` if its size has changed.
    pub fn handle(&self) -> Result<Arc<dyn ReadAt>> {
        match &self.source {
            Source::Open(file) => Ok(Arc::clone(file)),
            Source::Pooled(handles, name) => {
                let file = handles.handle(name)?;
                if file.len() != self.len {
                    let error = shardpack_format::Error::malformed(format!(
                        "the shard changed while it was in use: it had {} bytes, but now has {}",
                        self.len,
                        file.len()
                    ));
                    return Err(error.in_file(self.path.to_string_lossy()).into());
                }
                Ok(file)
            }
        }
    }

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// `Io` if the file ends too early or cannot be read.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        Ok(read_exact_at(&*self.handle()?, &self.path, buffer, offset)?)
    }

    /// Fills `buffer` with the bytes at `offset`, and may skip the storage's own check of the bytes. A caller that
    /// finds wrong bytes must call [`read_exact_at`](Self::read_exact_at).
    ///
    /// # Errors
    /// Same as [`read_exact_at`](Self::read_exact_at).
    pub fn read_exact_unchecked_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        Ok(read_exact_unchecked_at(&*self.handle()?, &self.path, buffer, offset)?)
    }
}
