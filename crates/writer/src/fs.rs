//! Every file operation of this crate: a small trait, so that a test can make any of them fail, and
//! a wrapper that adds the path to errors.

use crate::error::{Error, Result};
use crate::lock_file::LockFile;
use crate::lock_name::LockName;
use shardpack_format::Hinted;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What this crate needs from a file system. All paths are whole paths.
pub(crate) trait Fs: Sync {
    /// Creates a folder and its missing parents, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Names in a folder, unsorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Reads a whole file; fails if it is larger than `max_bytes`.
    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>>;
    /// Opens a file to read it piece by piece.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Size of a regular file, and up to `head` and `tail` bytes from its ends. Fails on anything
    /// else.
    fn read_ends(&self, path: &Path, head: u64, tail: u64) -> io::Result<Ends>;
    /// Creates a file; fails if the name is taken, even by a symlink.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FsFile>>;
    /// Opens an existing file to append to. Fails on a symlink.
    fn append(&self, path: &Path) -> io::Result<Arc<dyn FsFile>>;
    /// Renames within a folder, and replaces an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Tries to take a lock file, which is created if needed; `None` if another holds it. An
    /// exclusive holder leaves `text` in it. Fails on a symlink.
    fn lock(&self, path: &Path, mode: LockMode, text: &str) -> io::Result<Option<Box<dyn Held>>>;
    /// Free bytes for this user, if the system tells.
    fn free_bytes(&self, dir: &Path) -> Option<u64>;
    /// Whether final names are objects in a store.
    fn is_store(&self) -> bool {
        false
    }
    /// Where on this machine a file is written to.
    fn place_of(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
    /// Hands a file of one part to those who merge the parts, if they do not see it anyway.
    fn publish(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// An open file that only grows.
pub(crate) trait FsFile: Send + Sync {
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the content durable. After a failure the content of the disk is unknown: never try
    /// again.
    fn sync(&self) -> io::Result<()>;
}

/// A lock that is held until it is dropped.
pub(crate) trait Held: Send + Sync {
    /// Whether the file system has no locks, so that it is a file by its name alone: one that
    /// outlives a holder that is killed.
    fn is_by_name(&self) -> bool {
        false
    }
}

/// Whether the file system does not know such a call at all, as opposed to one that failed.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    #[cfg(unix)]
    let no_locks = error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error());
    #[cfg(not(unix))]
    let no_locks = false;
    no_locks || matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Together with other shared holders. The last one removes the lock file.
    Shared,
    /// Alone. The lock file is removed when the lock is dropped.
    Exclusive,
}

/// The two ends of a file, or of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Size of the whole.
    pub bytes: u64,
    /// Its first bytes: as many as were asked for, or all.
    pub head: Vec<u8>,
    /// Its last bytes: as many as were asked for, or all.
    pub tail: Vec<u8>,
}

/// The real file system.
#[derive(Debug)]
pub(crate) struct StdFs;

impl Fs for StdFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.create_dir_all(parent)?;
        match fs::create_dir(dir) {
            // Another packer may have been faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(e) => Err(e),
            // Where folders cannot be synced, the run says so.
            Ok(()) => self.sync_dir(parent).or_else(|e| if is_unsupported(&e) { Ok(()) } else { Err(e) }),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        let file = open_regular(path, OpenOptions::new().read(true))?;
        let mut bytes = Vec::new();
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max_bytes {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {max_bytes} bytes")));
        }
        Ok(bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(open_regular(path, OpenOptions::new().read(true))?))
    }

    fn read_ends(&self, path: &Path, head: u64, tail: u64) -> io::Result<Ends> {
        let mut file = open_regular(path, OpenOptions::new().read(true))?;
        let bytes = file.metadata()?.len();
        let mut ends = Ends { bytes, head: Vec::new(), tail: Vec::new() };
        Read::by_ref(&mut file).take(head).read_to_end(&mut ends.head)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(tail)))?;
        file.take(tail).read_to_end(&mut ends.tail)?;
        Ok(ends)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        Ok(Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        Ok(Arc::new(open_regular(path, OpenOptions::new().append(true))?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // On other systems a folder cannot be opened. Renames there are durable once the call
        // returns, or nothing can be done about it.
        if cfg!(unix) { fs::File::open(dir)?.sync_all() } else { Ok(()) }
    }

    fn lock(&self, path: &Path, mode: LockMode, text: &str) -> io::Result<Option<Box<dyn Held>>> {
        if LockFile::is_supported(path, fs::File::try_lock) {
            return Ok(LockFile::take(path, mode, text)?.map(|lock| Box::new(lock) as Box<dyn Held>));
        }
        Ok(LockName::take(path, mode, text)?.map(|lock| Box::new(lock) as Box<dyn Held>))
    }

    #[cfg(unix)]
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        let stat = rustix::fs::statvfs(dir).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }

    #[cfg(not(unix))]
    fn free_bytes(&self, _: &Path) -> Option<u64> {
        None
    }
}

impl FsFile for fs::File {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // `Write` is implemented for shared files too: each write goes to the end.
        let mut file = self;
        file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Opens a regular file and nothing else. Does not follow a symlink at the end of the path, and
/// does not wait for the other end of a FIFO.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<fs::File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    if fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) {
        return Err(not_regular("a symbolic link"));
    }
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(not_regular("something else")),
        // The system's own text would be "too many levels of symbolic links".
        Err(_) if fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) => Err(not_regular("a symbolic link")),
        Err(e) => Err(e),
    }
}

fn not_regular(found: &str) -> io::Error {
    let text = format!("expected a regular file, found {found}");
    let hint = "remove it, or choose another folder: the packer opens no links, pipes or devices";
    io::Error::new(io::ErrorKind::InvalidInput, Hinted::new(text, hint))
}

/// An [`Fs`] whose errors name the path and the operation.
#[derive(Clone, Copy)]
pub(crate) struct Disk<'a>(pub(crate) &'a dyn Fs);

impl Disk<'_> {
    pub(crate) fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.0.create_dir_all(dir).map_err(|e| Error::io("create folder", dir, e))
    }

    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.0.list(dir).map_err(|e| Error::io("list", dir, e))?;
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
        self.0.read(path, max_bytes).map_err(|e| Error::io("read", path, e))
    }

    pub(crate) fn open(&self, path: &Path) -> Result<Box<dyn Read>> {
        self.0.open(path).map_err(|e| Error::io("read", path, e))
    }

    pub(crate) fn read_ends(&self, path: &Path, head: u64, tail: u64) -> Result<Ends> {
        self.0.read_ends(path, head, tail).map_err(|e| Error::io("read", path, e))
    }

    /// Creates a file. Replaces one that a killed run may have left under the same temporary name.
    pub(crate) fn create(&self, path: &Path) -> Result<Arc<dyn FsFile>> {
        self.remove_if_there(path)?;
        self.0.create_new(path).map_err(|e| Error::io("create", path, e))
    }

    pub(crate) fn append(&self, path: &Path) -> Result<Arc<dyn FsFile>> {
        self.0.append(path).map_err(|e| Error::io("open", path, e))
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let action = if self.0.is_store() { "write" } else { "rename to" };
        self.0.rename(from, to).map_err(|e| Error::io(action, to, e))
    }

    pub(crate) fn publish(&self, path: &Path) -> Result<()> {
        self.0.publish(path).map_err(|e| Error::io("write", path, e))
    }

    pub(crate) fn remove_if_there(&self, path: &Path) -> Result<()> {
        match self.0.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
            _ => Ok(()),
        }
    }

    /// Removes a folder, if it is there; one that is not empty stays.
    pub(crate) fn remove_dir_if_empty(&self, dir: &Path) -> Result<()> {
        use io::ErrorKind::{DirectoryNotEmpty, NotFound};
        match self.0.remove_dir(dir) {
            Err(e) if !matches!(e.kind(), DirectoryNotEmpty | NotFound) => Err(Error::io("remove folder", dir, e)),
            _ => Ok(()),
        }
    }

    /// Names in a folder; none if there is no such folder.
    pub(crate) fn list_if_there(&self, dir: &Path) -> Result<Vec<String>> {
        match self.list(dir) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    /// Makes the names in a folder durable, where the file system can do that: where it cannot,
    /// [`Disk::syncs_folders`] has said so.
    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<()> {
        match self.0.sync_dir(dir) {
            Err(e) if !is_unsupported(&e) => Err(Error::io("sync folder", dir, e)),
            _ => Ok(()),
        }
    }

    /// Whether the file system can make names durable at all.
    pub(crate) fn syncs_folders(&self, dir: &Path) -> bool {
        !self.0.sync_dir(dir).is_err_and(|e| is_unsupported(&e))
    }

    /// Writes a small file atomically: afterwards it holds `bytes` or its old content, whatever
    /// happens. Temporary name, sync, rename, folder sync.
    pub(crate) fn replace(&self, dir: &Path, name: &str, temporary: &str, bytes: &[u8]) -> Result<()> {
        let (path, temporary) = (dir.join(name), dir.join(temporary));
        let write = || {
            let file = self.create(&temporary)?;
            file.append(bytes).map_err(|e| Error::io("write", &temporary, e))?;
            file.sync().map_err(|e| Error::io("sync", &temporary, e))?;
            drop(file);
            self.rename(&temporary, &path)
        };
        if let Err(e) = write() {
            let _ = self.remove_if_there(&temporary);
            return Err(e);
        }
        self.sync_dir(dir)
    }
}
