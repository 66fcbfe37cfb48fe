//! Locks where the file system has none (Lustre without the option, some FUSE mounts): a file that
//! only one program can create, which names its holder.
//!
//! A file does not go with its holder, as a lock does. One that a killed process of this machine
//! left is recognised and removed; one of another machine stays, and the error says whose it is.
//! Shared holders put a file of their own beside the exclusive one's; each side creates its own
//! first and looks for the other's then, so that of two who come at once at least one steps back.

use crate::fs::{Held, LockMode};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// More than a holder writes.
const MAX_TEXT_BYTES: u64 = 4096;
/// Leftovers of killed processes that are removed before the lock counts as held.
const TRIES: u32 = 16;

/// Tells apart the shared holders of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A lock that is a file, removed when it is dropped.
pub(crate) struct LockName {
    own: PathBuf,
}

impl Held for LockName {
    fn is_by_name(&self) -> bool {
        true
    }
}

impl LockName {
    /// Takes the lock; `None` if another holds it.
    pub(crate) fn take(path: &Path, mode: LockMode, text: &str) -> io::Result<Option<Self>> {
        match mode {
            LockMode::Exclusive => {
                let Some(held) = create(path, text)? else { return Ok(None) };
                let others = shared(path)?;
                Ok(others.iter().all(|other| is_left_over(other, text)).then_some(held))
            }
            LockMode::Shared => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let mut own = path.as_os_str().to_owned();
                own.push(format!("{SHARED}{}-{number}-{}", std::process::id(), crc32fast::hash(text.as_bytes())));
                let Some(held) = create(Path::new(&own), text)? else { return Ok(None) };
                Ok((!path.exists() || is_left_over(path, text)).then_some(held))
            }
        }
    }
}

impl Drop for LockName {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.own);
    }
}

/// Between the name of the lock and what tells its shared holders apart.
const SHARED: &str = ".with-";

fn create(path: &Path, text: &str) -> io::Result<Option<LockName>> {
    for _ in 0..TRIES {
        match File::create_new(path) {
            Ok(mut file) => {
                let held = LockName { own: path.to_owned() };
                file.write_all(text.as_bytes())?;
                return Ok(Some(held));
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists && is_left_over(path, text) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// The files of the shared holders.
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

/// Whether nobody holds the lock: its file has gone, or its holder, a process of this machine, has,
/// and then the file goes too. It is moved aside first and read once more: what another one has
/// created meanwhile is put back.
fn is_left_over(path: &Path, own: &str) -> bool {
    let text = match read(path) {
        Ok(text) => text,
        Err(e) => return e.kind() == ErrorKind::NotFound,
    };
    let (Some((host, process)), Some((own_host, _))) = (holder(&text), holder(own)) else { return false };
    if host != own_host || is_alive(process) {
        return false;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".old-{}", std::process::id()));
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
    let file = crate::fs::open_regular(path, fs::OpenOptions::new().read(true))?;
    file.take(MAX_TEXT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Machine and process out of `process 7 on host, since …`.
fn holder(text: &str) -> Option<(&str, i32)> {
    let (process, rest) = text.strip_prefix("process ")?.split_once(" on ")?;
    let (host, _) = rest.split_once(", since ")?;
    Some((host, process.parse().ok()?))
}

#[cfg(unix)]
fn is_alive(process: i32) -> bool {
    // What may not be signalled is there as well.
    let Some(pid) = rustix::process::Pid::from_raw(process) else { return true };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(not(unix))]
fn is_alive(_: i32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(process: u32, host: &str) -> String {
        format!("process {process} on {host}, since 2026-01-01 00:00:00 UTC\n")
    }

    fn own() -> String {
        text(std::process::id(), "here")
    }

    /// The number of a process that has ended.
    fn dead() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn take(path: &Path, mode: LockMode) -> Option<LockName> {
        LockName::take(path, mode, &own()).unwrap()
    }

    #[test]
    fn one_alone_or_several_together() {
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
    fn what_a_killed_process_left_locks_nobody_out() {
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
    fn a_holder_elsewhere_or_unknown_is_believed() {
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
