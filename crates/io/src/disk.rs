use crate::cause::Cause;
use crate::error::Result;
use crate::file::{LocalFile, open_own};
use crate::file_system::{FileLock, FileSystem, GrowingFile, LockMode, is_unsupported};
use crate::holder::Holder;
use crate::lock_file::LockFile;
use crate::lock_name::LockName;
use crate::read_at::ReadAt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl FileSystem for Disk {
    fn create_dir_all(&self, folder: &Path) -> Result<(), Cause> {
        if folder.is_dir() {
            return Ok(());
        }
        let parent = folder.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.create_dir_all(parent)?;
        match fs::create_dir(folder) {
            // Another packer may have created the folder first.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(e) => Err(e.into()),
            // Accept a file system that cannot sync folders, because the packing run reports this itself.
            Ok(()) => self.sync_dir(parent).or_else(|e| if is_unsupported(&e) { Ok(()) } else { Err(e) }),
        }
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>, Cause> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadAt>, Cause> {
        let file = open_own(path, OpenOptions::new().read(true))?;
        let len = file.metadata()?.len();
        Ok(Arc::new(LocalFile { file, len }))
    }

    fn create_new(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause> {
        Ok(Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn append(&self, path: &Path) -> Result<Arc<dyn GrowingFile>, Cause> {
        Ok(Arc::new(open_own(path, OpenOptions::new().append(true))?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Cause> {
        Ok(fs::rename(from, to)?)
    }

    fn remove(&self, path: &Path) -> Result<(), Cause> {
        Ok(fs::remove_file(path)?)
    }

    fn remove_dir(&self, folder: &Path) -> Result<(), Cause> {
        Ok(fs::remove_dir(folder)?)
    }

    fn sync_dir(&self, folder: &Path) -> Result<(), Cause> {
        Ok(File::open(folder)?.sync_all()?)
    }

    fn lock(&self, path: &Path, mode: LockMode, holder: &Holder) -> Result<Option<Box<dyn FileLock>>, Cause> {
        if LockFile::is_supported(path, File::try_lock) {
            return Ok(LockFile::take(path, mode, holder)?.map(|lock| Box::new(lock) as Box<dyn FileLock>));
        }
        Ok(LockName::take(path, mode, holder)?.map(|lock| Box::new(lock) as Box<dyn FileLock>))
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        let stat = rustix::fs::statvfs(folder).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }
}

impl GrowingFile for File {
    fn append(&self, bytes: &[u8]) -> Result<(), Cause> {
        // The file was opened for appending, so each write appends to its end.
        let mut file = self;
        Ok(file.write_all(bytes)?)
    }

    fn sync(&self) -> Result<(), Cause> {
        Ok(self.sync_all()?)
    }
}
