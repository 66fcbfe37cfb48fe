//! Files, and what stands for them: shards are read through [`ReadAt`] and opened through [`Storage`],
//! which tests and stores replace.

use crate::error::{Error, Result};
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Whether the text is a URL and not a path: a scheme of letters and digits before `://`.
///
/// ```
/// use shardpack_reader::is_url;
/// assert!(is_url("s3://bucket/train") && is_url("file:///data/train"));
/// assert!(!is_url("data/train") && !is_url("/data/a://b"));
/// ```
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Bytes that can be read at any offset, by many threads at once.
///
/// An implementation may return fewer bytes than asked for, and may fail with `Interrupted` or
/// `WouldBlock`: the crate asks again.
pub trait ReadAt: Send + Sync + Debug {
    /// Length in bytes, fixed when the file was opened.
    fn len(&self) -> u64;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads up to `buffer.len()` bytes from `offset`; 0 only at the end.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Tells the operating system that the file will be read from front to back. A hint: failures
    /// do not matter.
    fn advise_sequential(&self) {}

    /// Tells the operating system, or the store, that these bytes will be read once, soon. A hint:
    /// failures do not matter. A store keeps what was announced twice until it was read twice.
    fn advise_soon(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Whether the byte at `offset` can be read without waiting for a disk. `None` where nobody
    /// knows: then the file may also be on a network, and what it is advised may come to nothing.
    fn is_cached(&self, offset: u64) -> Option<bool> {
        let _ = offset;
        None
    }

    /// Asks the operating system to drop the file's pages from its cache. A hint: failures do not
    /// matter.
    fn drop_cached(&self) {}
}

/// Where the files of a dataset are.
pub trait Storage: Send + Sync + Debug {
    /// The folder as the user would name it, for messages.
    fn path(&self) -> &Path;

    /// Opens a file below the folder. `name` was checked by `shardpack_format::check_shard_name`,
    /// or is the manifest's.
    ///
    /// # Errors
    /// `Io` if it cannot be opened; `Usage` if it is not a regular file, or would leave the folder.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>>;

    /// Names of the entries directly in the folder that end in `.shard`, sorted.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed; of kind `Unsupported` if nothing there ever lists.
    fn shard_names(&self) -> Result<Vec<String>>;

    /// How many bytes readers should announce ([`ReadAt::advise_soon`]) ahead of those that they
    /// read: what a network needs to have many requests on their way. The storage holds at most so
    /// much in memory of its own. 0, the default, where the system reads ahead by itself.
    fn read_ahead_bytes(&self) -> u64 {
        0
    }

    /// Tells the storage that this file will be opened soon. A hint: it waits for nothing.
    fn advise_open(&self, name: &str) {
        let _ = name;
    }

    /// What was asked of a network so far; zeros, the default, where there is none.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// All files below the folder, at any depth and in no order: what a dataset may be packed from.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed; of kind `Unsupported`, the default, if nothing there
    /// ever lists.
    fn list(&self) -> Result<Vec<Listed>> {
        Err(Error::io(self.path(), "list", io::ErrorKind::Unsupported.into()))
    }

    /// Opens a file that was listed, without asking for anything. If it is another one by now,
    /// reading it fails. What it holds for readers goes when it is dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        self.open(&listed.name)
    }
}

/// A file of a storage, as a listing has it.
///
/// ```
/// use shardpack_reader::Listed;
/// let listed = Listed { name: "cat/1.jpg".into(), bytes: 7, modified_ns: 0, e_tag: Some("\"abc\"".into()) };
/// assert_eq!(listed.name, "cat/1.jpg");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path below the folder, with `/`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in ns since 1970.
    pub modified_ns: i64,
    /// What tells its content from any other of the same name, if the storage knows.
    pub e_tag: Option<String>,
}

/// What a storage has asked of a network since it was opened.
///
/// ```
/// use shardpack_reader::Traffic;
/// assert_eq!(Traffic::default().requests, 0);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests, those that were tried again counted once more.
    pub requests: u64,
    /// Requests that were tried again after an error, a time-out or an answer that was cut short.
    pub retries: u64,
    /// Requests that were asked a second time because the first was slow.
    pub hedges: u64,
    /// Bytes that arrived.
    pub fetched_bytes: u64,
    /// Most requests that were under way at a time.
    pub peak_in_flight: u64,
    /// Most bytes that were held for readers at a time.
    pub peak_held_bytes: u64,
    /// What a cache on the local disk did; zeros if there is none.
    pub cache: CacheStats,
}

/// What a cache on the local disk did for this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Blocks that were there.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Bytes of the blocks that were there.
    pub hit_bytes: u64,
    /// Blocks that went to make room.
    pub evicted: u64,
    /// Files that were no whole block, or another one: they are read from the store again.
    pub dropped: u64,
    /// Writes that failed, as on a full disk: after the first, a process writes no more.
    pub failed_writes: u64,
}

impl CacheStats {
    /// What several caches did.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits.saturating_add(other.hits),
            misses: self.misses.saturating_add(other.misses),
            hit_bytes: self.hit_bytes.saturating_add(other.hit_bytes),
            evicted: self.evicted.saturating_add(other.evicted),
            dropped: self.dropped.saturating_add(other.dropped),
            failed_writes: self.failed_writes.saturating_add(other.failed_writes),
        }
    }
}

impl Traffic {
    /// The traffic of several storages; peaks are added up, too, as if they came together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            retries: self.retries.saturating_add(other.retries),
            hedges: self.hedges.saturating_add(other.hedges),
            fetched_bytes: self.fetched_bytes.saturating_add(other.fetched_bytes),
            peak_in_flight: self.peak_in_flight.saturating_add(other.peak_in_flight),
            peak_held_bytes: self.peak_held_bytes.saturating_add(other.peak_held_bytes),
            cache: self.cache.plus(other.cache),
        }
    }
}

/// Fills `buffer` from `offset` on, whatever the pieces in which the bytes arrive.
pub(crate) fn read_exact_at(file: &dyn ReadAt, path: &Path, buffer: &mut [u8], offset: u64) -> Result<()> {
    // A file that is not ready is asked again for about a second; regular files never answer so,
    // network file systems may.
    let mut patience = 1000_u32;
    let mut done = 0_usize;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(done as u64);
        let fail = |source| Error::Io { path: path.into(), action: "read", offset: Some(at), source };
        match file.read_at(rest, at) {
            Ok(0) => {
                let why = format!("the file ends here, {} bytes too early", rest.len());
                return Err(fail(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
            }
            Ok(n) => done += n.min(rest.len()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => return Err(fail(e)),
        }
    }
    Ok(())
}

#[derive(Debug)]
struct LocalFile {
    file: File,
    len: u64,
}

impl ReadAt for LocalFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn advise_sequential(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Sequential);
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        // Linux reads no more than one request of the device ahead for each call, often 1 MiB.
        let end = offset.saturating_add(bytes);
        let mut at = offset;
        while at < end {
            let step = (end - at).min(1 << 20);
            let _ = rustix::fs::fadvise(&self.file, at, std::num::NonZeroU64::new(step), Advice::WillNeed);
            at += step;
        }
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, offset: u64) -> Option<bool> {
        use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
        let mut byte = [0];
        match preadv2(&self.file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Some(read == 1),
            Err(Errno::AGAIN) => Some(false),
            // File systems that cannot tell, those of networks among them, refuse the flag.
            Err(_) => None,
        }
    }

    fn drop_cached(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}

// NONBLOCK: opening a FIFO must not wait for a writer. It changes nothing for regular files.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens the regular file at `path`, which the user named: symlinks are followed.
///
/// # Errors
/// `Io` if it cannot be opened, `Usage` at once if it is a folder, FIFO, device or socket.
pub fn open_regular(path: &Path) -> Result<Arc<dyn ReadAt>> {
    let fd = rustix::fs::open(path, OPEN, Mode::empty()).map_err(|e| open_error(path, e))?;
    regular(path, fd)
}

fn regular(path: &Path, fd: OwnedFd) -> Result<Arc<dyn ReadAt>> {
    // The handle is asked, not the path: nobody can swap the file in between.
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io(path, "stat", e.into()))?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let len = u64::try_from(stat.st_size).unwrap_or(0);
            return Ok(Arc::new(LocalFile { file: File::from(fd), len }));
        }
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "a special file",
    };
    Err(Error::usage(format!("`{}`", path.display()), "a regular file", kind))
}

fn open_error(path: &Path, errno: Errno) -> Error {
    match errno {
        // What opening a socket answers.
        Errno::NXIO => Error::usage(format!("`{}`", path.display()), "a regular file", "a special file"),
        other => Error::io(path, "open", other.into()),
    }
}

/// A folder on a local or mounted file system.
///
/// Files are opened relative to a handle on the folder, and no symlink below it is followed unless
/// the caller allows it, so that no name in a manifest can lead elsewhere.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: OwnedFd,
    follow_symlinks: bool,
}

impl Folder {
    /// Opens a folder. With `follow_symlinks`, shards may be symlinks, to anywhere: for caches that
    /// keep the files elsewhere.
    ///
    /// # Errors
    /// `Io` if it cannot be opened.
    pub fn open(path: impl Into<PathBuf>, follow_symlinks: bool) -> Result<Self> {
        let path = path.into();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| Error::io(&path, "open", e.into()))?;
        Ok(Self { path, handle, follow_symlinks })
    }
}

impl Storage for Folder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let path = self.path.join(name);
        let follow = if self.follow_symlinks { OFlags::empty() } else { OFlags::NOFOLLOW };
        let refuse_link = |errno| match errno {
            // NOFOLLOW answers LOOP for a link to a file; with DIRECTORY, NOTDIR.
            Errno::LOOP | Errno::NOTDIR if !self.follow_symlinks => Error::usage(
                format!("`{}`", path.display()),
                "a file in the dataset's folder",
                "a symlink, or a path through one",
            )
            .with_hint("put the file itself into the folder; a shard can also be opened by a name of its own"),
            other => open_error(&path, other),
        };
        let mut folder = None;
        let mut file_name = name;
        if let Some((parent, rest)) = name.split_once('/') {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
            let handle = rustix::fs::openat(&self.handle, parent, flags, Mode::empty());
            folder = Some(handle.map_err(refuse_link)?);
            file_name = rest;
        }
        // At most one level below: a name with more parts, or a way up, never gets here from a
        // manifest; other callers are refused too.
        if file_name.contains('/') || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::usage("file name", "one below the dataset's folder", format!("{name:?}")));
        }
        let base = folder.as_ref().unwrap_or(&self.handle);
        let fd = rustix::fs::openat(base, file_name, OPEN | follow, Mode::empty()).map_err(refuse_link)?;
        regular(&path, fd)
    }

    fn shard_names(&self) -> Result<Vec<String>> {
        let fail = |e: io::Error| Error::io(&self.path, "list", e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(fail)? {
            // A name that is not UTF-8 cannot be in a manifest.
            if let Ok(name) = entry.map_err(fail)?.file_name().into_string()
                && name.ends_with(".shard")
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}
