//! An in-memory file system that fails at operation k, or crashes there and loses everything that was not synced.

use shardpack_io::{Cause, FileLock, FileSystem, GrowingFile, Holder, LockMode, ReadAt};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The operation with this number, counted from 1, fails once.
    FailAt(u64, io::ErrorKind),
    /// The machine crashes at this operation.
    CrashAt(u64),
    /// This number of shard syncs fail, starting with the first.
    FailShardSyncs(u64),
    /// The disk becomes full when the first line is appended to a journal.
    FailJournalLine,
    Capacity(u64),
    /// Folders cannot be synced, and a lock is held as long as its file exists.
    Poor,
}

/// The kind of sync that reports success but does nothing. The effect is the same as if the code did not call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Shard,
    ShardFolder,
    JournalLine,
    JournalBegin,
    JournalFolder,
    Manifest,
    ManifestFolder,
}

pub(crate) const LIES: [Lie; 7] = [
    Lie::Shard,
    Lie::ShardFolder,
    Lie::JournalLine,
    Lie::JournalBegin,
    Lie::JournalFolder,
    Lie::Manifest,
    Lie::ManifestFolder,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    NothingSurvives,
    /// All file names survive, but no file content does. Many disks write renames before the data.
    NamesSurvive,
    /// A random subset of the file names survives, and the files have random lengths. The number is the seed.
    Random(u64),
}

type Names = BTreeMap<PathBuf, usize>;

#[derive(Debug, Clone)]
enum NameOp {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameOp {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Create(path, node) => drop(names.insert(path.clone(), *node)),
            Self::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    bytes: Vec<u8>,
    durable: usize,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    names: Names,
    durable_names: Names,
    pending: Vec<NameOp>,
    locks: BTreeMap<PathBuf, Vec<LockMode>>,
    operations: u64,
    fault: Fault,
    lie: Option<Lie>,
    hit: bool,
    shard_syncs: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct MemoryFs(Arc<Mutex<Inner>>);

impl MemoryFs {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new(), Names::new())
    }

    fn with(nodes: Vec<Node>, names: Names) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            nodes,
            durable_names: names.clone(),
            names,
            pending: Vec::new(),
            locks: BTreeMap::new(),
            operations: 0,
            fault: Fault::None,
            lie: None,
            hit: false,
            shard_syncs: 0,
        })))
    }

    pub(crate) fn with_fault(&self, fault: Fault, lie: Option<Lie>) -> Self {
        let inner = self.inner();
        let copy = Self::with(inner.nodes.clone(), inner.names.clone());
        copy.inner().fault = fault;
        copy.inner().lie = lie;
        copy
    }

    pub(crate) fn cut(&self, name: &str, len: usize) {
        let mut inner = self.inner();
        let node = inner.names.iter().find(|(path, _)| path.ends_with(name)).map(|(_, &node)| node).unwrap();
        inner.nodes[node].bytes.truncate(len);
        inner.nodes[node].durable = len;
    }

    pub(crate) fn was_hit(&self) -> bool {
        self.inner().hit
    }

    pub(crate) fn shard_syncs(&self) -> u64 {
        self.inner().shard_syncs
    }

    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let inner = self.inner();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        inner.names.iter().map(|(path, &node)| (name(path), inner.nodes[node].bytes.clone())).collect()
    }

    pub(crate) fn files_in(&self, dir: &Path) -> BTreeMap<String, Vec<u8>> {
        let inner = self.inner();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let there = inner.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        there.map(|(path, &node)| (name(path), inner.nodes[node].bytes.clone())).collect()
    }

    /// Returns the disk after the machine has restarted.
    pub(crate) fn after(&self, crash: Crash) -> Self {
        let inner = self.inner();
        let mut names = inner.durable_names.clone();
        let mut nodes = inner.nodes.clone();
        let mut state = if let Crash::Random(seed) = crash { seed } else { 0 };
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for op in &inner.pending {
            let survives = match crash {
                Crash::NothingSurvives => false,
                Crash::NamesSurvive => true,
                Crash::Random(_) => random(2) == 1,
            };
            if survives {
                op.apply(&mut names);
            }
        }
        for node in &mut nodes {
            let lost = (node.bytes.len() - node.durable) as u64;
            let kept = if let Crash::Random(_) = crash { random(lost + 1) } else { 0 };
            node.bytes.truncate(node.durable + usize::try_from(kept).unwrap());
            node.durable = node.bytes.len();
        }
        Self::with(nodes, names)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn step(&self) -> io::Result<MutexGuard<'_, Inner>> {
        let mut inner = self.inner();
        inner.operations += 1;
        let now = inner.operations;
        match inner.fault {
            Fault::FailAt(k, kind) if now == k => {
                inner.hit = true;
                Err(kind.into())
            }
            Fault::CrashAt(k) if now >= k => {
                inner.hit = true;
                Err(io::Error::other("the machine is dead"))
            }
            _ => Ok(inner),
        }
    }
}

impl Inner {
    fn node(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, op: NameOp) {
        op.apply(&mut self.names);
        self.pending.push(op);
    }

    fn used(&self) -> u64 {
        self.names.values().map(|&n| self.nodes[n].bytes.len() as u64).sum()
    }

    fn lie_of_sync(path: &str) -> Option<Lie> {
        match path {
            _ if path.starts_with(".shard-") => Some(Lie::Shard),
            _ if path.starts_with(".manifest") => Some(Lie::Manifest),
            _ if path.ends_with(".jsonl.tmp") => Some(Lie::JournalBegin),
            _ if path.ends_with(".jsonl") => Some(Lie::JournalLine),
            _ => None,
        }
    }

    fn lie_of_folder_sync(&self) -> Option<Lie> {
        let renamed = |op: &NameOp| if let NameOp::Rename(_, to, _) = op { Some(to.clone()) } else { None };
        let last = self.pending.iter().rev().find_map(renamed)?;
        match last.file_name()?.to_str()? {
            "manifest.json" => Some(Lie::ManifestFolder),
            name if name.ends_with(".jsonl") => Some(Lie::JournalFolder),
            name if name.ends_with(".shard") => Some(Lie::ShardFolder),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    fs: MemoryFs,
    node: usize,
    name: String,
}

impl GrowingFile for MemoryFile {
    fn append(&self, bytes: &[u8]) -> Result<(), Cause> {
        let mut inner = self.fs.step()?;
        let mut bytes = bytes;
        if inner.fault == Fault::FailJournalLine && self.name.ends_with(".jsonl") {
            inner.fault = Fault::None;
            inner.hit = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Fault::Capacity(capacity) = inner.fault {
            let room = usize::try_from(capacity.saturating_sub(inner.used())).unwrap();
            if bytes.len() > room {
                // A real disk also writes the bytes that still fit.
                bytes = &bytes[..room];
                inner.hit = true;
                inner.nodes[self.node].bytes.extend(bytes);
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        inner.nodes[self.node].bytes.extend(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), Cause> {
        let mut inner = self.fs.step()?;
        let lie = Inner::lie_of_sync(&self.name);
        if lie == Some(Lie::Shard) {
            inner.shard_syncs += 1;
            if let Fault::FailShardSyncs(n) = inner.fault
                && n > 0
            {
                inner.fault = Fault::FailShardSyncs(n - 1);
                inner.hit = true;
                return Err(io::Error::other("planted").into());
            }
        }
        if lie.is_none() || lie != inner.lie {
            let node = &mut inner.nodes[self.node];
            node.durable = node.bytes.len();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryLock(MemoryFs, PathBuf);

impl FileLock for MemoryLock {
    fn is_by_name(&self) -> bool {
        self.0.inner().fault == Fault::Poor
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.inner().locks.get_mut(&self.1).unwrap().pop();
    }
}

impl FileSystem for MemoryFs {
    fn create_dir_all(&self, _: &Path) -> Result<(), Cause> {
        Ok(self.step().map(drop)?)
    }

    fn names(&self, dir: &Path) -> Result<Vec<String>, Cause> {
        let inner = self.step()?;
        let names = inner.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadAt>, Cause> {
        let inner = self.step()?;
        Ok(Arc::new(inner.nodes[inner.node(path)?].bytes.clone()))
    }

    fn create_new(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause> {
        let mut inner = self.step()?;
        if inner.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        inner.nodes.push(Node::default());
        let node = inner.nodes.len() - 1;
        inner.change(NameOp::Create(path.to_owned(), node));
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(Arc::new(MemoryFile { fs: self.clone(), node, name }))
    }

    fn append(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause> {
        let inner = self.step()?;
        let node = inner.node(path)?;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(Arc::new(MemoryFile { fs: self.clone(), node, name }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Cause> {
        let mut inner = self.step()?;
        let node = inner.node(from)?;
        inner.change(NameOp::Rename(from.to_owned(), to.to_owned(), node));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), Cause> {
        let mut inner = self.step()?;
        inner.node(path)?;
        inner.change(NameOp::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<(), Cause> {
        let inner = self.step()?;
        let is_empty = !inner.names.keys().any(|path| path.parent() == Some(dir));
        if is_empty { Ok(()) } else { Err(io::ErrorKind::DirectoryNotEmpty.into()) }
    }

    fn sync_dir(&self, _: &Path) -> Result<(), Cause> {
        let mut inner = self.step()?;
        if inner.fault == Fault::Poor {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let lie = inner.lie_of_folder_sync();
        if lie.is_none() || lie != inner.lie {
            inner.durable_names = inner.names.clone();
            inner.pending.clear();
        }
        Ok(())
    }

    fn lock(&self, path: &Path, mode: LockMode, _: &Holder) -> Result<Option<Box<dyn FileLock>>, Cause> {
        let mut inner = self.step()?;
        let held = inner.locks.entry(path.to_owned()).or_default();
        let is_free = held.is_empty() || (mode == LockMode::Shared && held.iter().all(|held| *held == mode));
        if is_free {
            held.push(mode);
        }
        Ok(is_free.then(|| Box::new(MemoryLock(self.clone(), path.to_owned())) as Box<dyn FileLock>))
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        let inner = self.inner();
        if let Fault::Capacity(capacity) = inner.fault { Some(capacity.saturating_sub(inner.used())) } else { None }
    }
}

#[test]
fn it_is_a_file_system() {
    shardpack_io::conformance::check_file_system(&MemoryFs::new(), Path::new("/out"));
}
