//! One packer at a time: lock files in the output folder.
//!
//! A run that writes the whole dataset, and `merge`, hold `.shardpack-lock` alone. A run that writes part i of n shares it with other parts, and holds
//! `.shardpack-lock-0000i-of-0000n` alone. The operating system gives a lock back when its holder dies, so a lock file that is left over
//! does not stop anybody.

use crate::error::{Error, Result};
use crate::fs::{Disk, Held, LockMode};
use crate::options::Part;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const LOCK_NAME: &str = ".shardpack-lock";

/// Name of a part's own lock.
fn part_lock_name(part: Part) -> String {
    format!("{LOCK_NAME}-{:05}-of-{:05}", part.index(), part.count())
}

/// The locks of one run; held until dropped.
pub(crate) struct Lock {
    // Dropped in this order: the part's own first.
    _own: Option<Box<dyn Held>>,
    _folder: Box<dyn Held>,
}

impl Lock {
    /// Takes the locks for a run, or says who holds them.
    pub(crate) fn take(disk: Disk<'_>, out: &Path, part: Option<Part>) -> Result<Self> {
        let text = describe_self();
        let take = |name: &str, mode| {
            let path = out.join(name);
            let held = disk.0.lock(&path, mode, &text).map_err(|e| Error::io("lock", &path, e))?;
            held.ok_or_else(|| Error::Locked { holder: holder(disk, out, name), path })
        };
        let mode = if part.is_some() { LockMode::Shared } else { LockMode::Exclusive };
        let folder = take(LOCK_NAME, mode)?;
        let own = part.map(|part| take(&part_lock_name(part), LockMode::Exclusive)).transpose()?;
        Ok(Self { _own: own, _folder: folder })
    }
}

/// Who this is, for others to read.
fn describe_self() -> String {
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = "unknown";
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format!("process {} on {host}, since {started} s after 1970\n", std::process::id())
}

/// What the holder of a lock wrote: in this file, or, if that is shared by parts, in theirs.
fn holder(disk: Disk<'_>, out: &Path, name: &str) -> String {
    let mut names = vec![name.to_owned()];
    names.extend(disk.list(out).unwrap_or_default().into_iter().filter(|n| n.starts_with(LOCK_NAME) && n != name));
    let texts = names.iter().filter_map(|name| disk.read(&out.join(name), 4096).ok());
    let words = texts.map(|bytes| String::from_utf8_lossy(&bytes).trim().escape_debug().to_string());
    words.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| "holder unknown".into())
}
