//! Locks for file systems that do not support locks, such as Lustre without the mount option and some FUSE mounts. A
//! lock is a file that only one process can create, and that contains the name of its holder.
//!
//! Unlike a real lock, such a file remains after its holder has ended. A file left by a killed process of this
//! machine is recognised and removed. A file from another machine stays, and the error message names its holder. Each
//! shared holder has its own file, next to the file of the exclusive holder. Every holder creates its own file before
//! it looks for files of the other mode, so at least one of two concurrent holders gives up.

use crate::file::open_own;
use crate::file_system::{FileLock, LockMode};
use crate::holder::Holder;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

const MAX_TEXT_BYTES: u64 = 4096;
/// Maximum number of leftover files to remove before the lock counts as held.
const TRIES: u32 = 16;
const MAX_SHARED: u32 = 1 << 16;
/// Part of a shared holder's file name, between the lock's name and the process id.
const SHARED: &str = ".with-";

#[derive(Debug)]
pub(crate) struct LockName {
    own: PathBuf,
}

impl FileLock for LockName {
    fn is_by_name(&self) -> bool {
        true
    }
}

impl LockName {
    pub(crate) fn take(path: &Path, mode: LockMode, holder: &Holder) -> io::Result<Option<Self>> {
        match mode {
            LockMode::Exclusive => {
                let Some(held) = create(path, holder)? else { return Ok(None) };
                let others = shared(path)?;
                Ok(others.iter().all(|other| is_left_over(other, holder)).then_some(held))
            }
            LockMode::Shared => {
                let digest = crc32fast::hash(holder.to_string().as_bytes());
                for number in 0..MAX_SHARED {
                    let mut own = path.as_os_str().to_owned();
                    own.push(format!("{SHARED}{}-{number}-{digest}", holder.process));
                    if let Some(held) = create(Path::new(&own), holder)? {
                        return Ok((!path.exists() || is_left_over(path, holder)).then_some(held));
                    }
                }
                Ok(None)
            }
        }
    }
}

impl Drop for LockName {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.own);
    }
}

/// Creates the file. Returns `None` if it already exists and its holder may still be alive.
fn create(path: &Path, holder: &Holder) -> io::Result<Option<LockName>> {
    for _ in 0..TRIES {
        match File::create_new(path) {
            Ok(mut file) => {
                let held = LockName { own: path.to_owned() };
                file.write_all(format!("{holder}\n").as_bytes())?;
                return Ok(Some(held));
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists && is_left_over(path, holder) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

fn shared(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{name}{SHARED}");
    let mut out = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            out.push(entry.path());
        }
    }
    Ok(out)
}

/// Returns true if the file is gone, or its holder was a process of this machine that has ended.
///
/// If the process has ended, the file is removed. To do this safely, the function first renames the file and reads it
/// again. If another process has created a new file in the meantime, the new file is put back.
fn is_left_over(path: &Path, own: &Holder) -> bool {
    let text = match read(path) {
        Ok(text) => text,
        Err(e) => return e.kind() == ErrorKind::NotFound,
    };
    if !Holder::parse(&text).is_some_and(|holder| holder.has_ended_beside(own)) {
        return false;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".old-{}", own.process));
    if fs::rename(path, &aside).is_err() {
        return !path.exists();
    }
    if read(Path::new(&aside)).is_ok_and(|moved| moved != text) {
        let _ = fs::rename(&aside, path);
        return false;
    }
    let _ = fs::remove_file(&aside);
    true
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_own(path, OpenOptions::new().read(true))?.take(MAX_TEXT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(process: u32, host: &str) -> Holder {
        Holder { process, host: host.into(), since: "2026-01-01T00:00:00Z".into() }
    }

    fn text(process: u32, host: &str) -> String {
        format!("{}\n", holder(process, host))
    }

    fn own() -> Holder {
        holder(std::process::id(), "here")
    }

    fn dead() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn take(path: &Path, mode: LockMode) -> Option<LockName> {
        LockName::take(path, mode, &own()).unwrap()
    }

    #[test]
    fn an_exclusive_lock_or_several_shared_locks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let alone = take(&path, LockMode::Exclusive).unwrap();
        assert!(take(&path, LockMode::Exclusive).is_none() && take(&path, LockMode::Shared).is_none());
        drop(alone);
        let together = (take(&path, LockMode::Shared).unwrap(), take(&path, LockMode::Shared).unwrap());
        assert!(take(&path, LockMode::Exclusive).is_none());
        drop(together.0);
        assert!(take(&path, LockMode::Exclusive).is_none());
        drop(together.1);
        assert!(take(&path, LockMode::Exclusive).is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn the_lock_of_a_killed_process_blocks_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let shared = folder.path().join(format!(".lock{SHARED}1-2-3"));
        for left in [&path, &shared] {
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                fs::write(left, text(dead(), "here")).unwrap();
                assert!(take(&path, mode).is_some(), "{left:?} {mode:?}");
                let _ = fs::remove_file(left);
            }
        }
    }

    #[test]
    fn a_holder_on_another_host_or_unknown_counts_as_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        for holder in [text(dead(), "elsewhere"), "somebody".into(), String::new(), text(1, "here")] {
            fs::write(&path, &holder).unwrap();
            for mode in [LockMode::Exclusive, LockMode::Shared] {
                assert!(take(&path, mode).is_none(), "{holder:?}");
                assert_eq!(fs::read_to_string(&path).unwrap(), holder);
            }
        }
    }
}
