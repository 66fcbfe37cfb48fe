//! A lock file that stays locked for as long as its holder lives. The last holder removes it.

use crate::cause::Cause;
use crate::file::open_own;
use crate::file_system::{FileLock, LockMode, is_unsupported};
use crate::holder::Holder;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Number of attempts to take a shared lock. An attempt can fail while the last holder locks the file exclusively to
/// remove it.
const SHARED_TRIES: u32 = 5;
const SHARED_PAUSE: Duration = Duration::from_millis(10);

/// Part of a probe file's name, between the lock file's name and the process id.
const PROBE: &str = ".probe-";

#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    path: PathBuf,
    mode: LockMode,
}

impl FileLock for LockFile {}

impl LockFile {
    /// Returns true if the file system supports locks. Tries to lock a new file in the same folder. The lock file
    /// itself cannot be used for the test, because on a file system without locks, its existence may already be a
    /// lock.
    pub(crate) fn is_supported(path: &Path, try_lock: impl Fn(&File) -> Result<(), TryLockError>) -> bool {
        remove_probes(path);
        let mut probe = path.as_os_str().to_owned();
        probe.push(format!("{PROBE}{}-{:?}", std::process::id(), std::thread::current().id()));
        // If the probe cannot be created, neither can the lock file, and that attempt reports the error.
        let Ok(file) = File::create_new(&probe) else { return true };
        let tried = try_lock(&file);
        let _ = fs::remove_file(&probe);
        match tried {
            Err(TryLockError::Error(e)) => !is_unsupported(&e.into()),
            _ => true,
        }
    }

    pub(crate) fn take(path: &Path, mode: LockMode, holder: &Holder) -> Result<Option<Self>, Cause> {
        let mut tries = if mode == LockMode::Shared { SHARED_TRIES } else { 1 };
        loop {
            let options = &mut OpenOptions::new();
            let file = open_own(path, options.read(true).write(true).create(true).truncate(false))?;
            let tried = match mode {
                LockMode::Shared => file.try_lock_shared(),
                LockMode::Exclusive => file.try_lock(),
            };
            match tried {
                // The last holder may have removed the file after this process opened it. The lock would then
                // be on a file without a name.
                Ok(()) if !is_at(&file, path) => continue,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if tries > 1 => {
                    tries -= 1;
                    sleep(SHARED_PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e.into()),
            }
            // From here on, dropping `held` removes the file.
            let held = Self { file, path: path.to_owned(), mode };
            if mode == LockMode::Exclusive {
                held.file.set_len(0)?;
                (&held.file).write_all(format!("{holder}\n").as_bytes())?;
            }
            return Ok(Some(held));
        }
    }

    /// Returns true if no other process holds a lock on the file.
    fn is_last(&self) -> bool {
        self.mode == LockMode::Exclusive
            || (self.file.unlock().is_ok() && self.file.try_lock().is_ok() && is_at(&self.file, &self.path))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Remove the file while it is still locked. A file that cannot be removed is harmless, because its existence
        // alone is not a lock.
        if self.is_last() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the probes of killed processes. If another process is probing right now, removing its file does no harm,
/// because that process only uses the open file.
fn remove_probes(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_probe = |entry: &str| {
        let numbers = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(PROBE)?.strip_suffix(')'));
        let numbers = numbers.and_then(|numbers| numbers.split_once("-ThreadId("));
        numbers.is_some_and(|(process, thread)| is_number(process) && is_number(thread))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().is_some_and(is_probe) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |m: &fs::Metadata| (m.dev(), m.ino());
    matches!((file.metadata(), fs::symlink_metadata(path)), (Ok(a), Ok(b)) if identity(&a) == identity(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_files_of_killed_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let kept = [".lock", ".lock.probe-12", ".lock.probe-x-ThreadId(1)", ".other.probe-12-ThreadId(1)", "a.shard"];
        for name in kept.iter().chain(&[".lock.probe-12-ThreadId(1)", ".lock.probe-4194304-ThreadId(17)"]) {
            File::create_new(folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join(".lock.probe-13-ThreadId(1)")).unwrap();
        assert!(LockFile::is_supported(&path, File::try_lock));
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        let expected = [
            ".lock",
            ".lock.probe-12",
            ".lock.probe-13-ThreadId(1)",
            ".lock.probe-x-ThreadId(1)",
            ".other.probe-12-ThreadId(1)",
            "a.shard",
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_file_system_without_locks_is_detected_before_a_lock_file_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        assert!(LockFile::is_supported(&path, File::try_lock));
        // ENOSYS, EOPNOTSUPP, ENOLCK and EINVAL, which Lustre, FUSE and NFS return instead of taking a lock.
        for code in [38, 95, 37, 22] {
            let refuse = |_: &File| Err(TryLockError::Error(std::io::Error::from_raw_os_error(code)));
            assert!(!LockFile::is_supported(&path, refuse), "{code}");
        }
        let busy = |_: &File| Err(TryLockError::WouldBlock);
        let broken = |_: &File| Err(TryLockError::Error(std::io::Error::from_raw_os_error(5)));
        assert!(LockFile::is_supported(&path, busy) && LockFile::is_supported(&path, broken));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
