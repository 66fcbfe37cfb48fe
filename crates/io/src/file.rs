//! Opens and reads regular files on this machine.

use crate::cause::Cause;
use crate::error::{Error, Result};
use crate::page_cache;
use crate::read_at::ReadAt;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, symlink_metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Flags for opening a file. With NONBLOCK, opening a FIFO does not wait for a writer. The flag has
/// no effect on regular files.
pub(crate) const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(crate) struct LocalFile {
    pub(crate) file: File,
    pub(crate) len: u64,
}

impl ReadAt for LocalFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Cause> {
        Ok(self.file.read_at(buffer, offset)?)
    }

    fn advise_sequential(&self) {
        page_cache::advise_sequential(&self.file);
    }

    fn advise_soon(&self, offset: u64, bytes: u64) {
        page_cache::advise_soon(&self.file, offset, bytes);
    }

    fn is_cached(&self, offset: u64) -> Option<bool> {
        page_cache::is_cached(&self.file, offset)
    }

    fn drop_cached(&self) {
        page_cache::drop_cached(&self.file);
    }
}

/// Opens the regular file at `path`. Symlinks are followed, because the user named the path.
///
/// # Errors
/// `Io` if the file cannot be opened. `Usage` if `path` is a folder, FIFO, device or socket; this check does not
/// wait.
pub fn open_regular(path: &Path) -> Result<Arc<dyn ReadAt>> {
    let fd = rustix::fs::open(path, OPEN, Mode::empty()).map_err(|e| open_error(path, e))?;
    regular(path, fd)
}

pub(crate) fn regular(path: &Path, fd: OwnedFd) -> Result<Arc<dyn ReadAt>> {
    // Query the open handle rather than the path, so that the file cannot be swapped in between.
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io(path, "read the metadata", io::Error::from(e)))?;
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
    Err(Error::usage(format!("`{}`: expected a regular file, found {kind}", path.display())))
}

pub(crate) fn open_error(path: &Path, errno: Errno) -> Error {
    match errno {
        // Opening a socket fails with this error.
        Errno::NXIO => Error::usage(format!(
            "`{}`: expected a regular file, found a device, a socket or another special file",
            path.display()
        )),
        other => Error::io(path, "open", io::Error::from(other)),
    }
}

/// Opens a file whose name the user did not choose. Refuses symlinks, and does not block on a FIFO.
pub(crate) fn open_own(path: &Path, options: &mut OpenOptions) -> Result<File, Cause> {
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(not_regular("a pipe, a device or another special file")),
        // Without this check, the message would be "too many levels of symbolic links".
        Err(_) if symlink_metadata(path).is_ok_and(|m| m.is_symlink()) => Err(not_regular("a symbolic link")),
        Err(e) => Err(e.into()),
    }
}

fn not_regular(found: &str) -> Cause {
    Cause::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}"))
        .with_hint("remove it, or write to another folder: shardpack opens only regular files in its folders")
}
