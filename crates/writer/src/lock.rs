//! Lock files in the output folder. They let only one packer at a time write to it.
//!
//! A run that writes the whole dataset, or a `merge`, holds `.shardpack-lock` exclusively. Runs that write parts share
//! this lock, and the run of part i of n, counted from 1, also holds `.shardpack-lock-0000i-of-0000n` exclusively. The
//! operating system releases a lock when its holder dies, so an old lock file never blocks a later run. On a file
//! system without locks, the existence of the file is the lock ([`FileLock::is_by_name`]). In a store, a run also
//! creates claims.

use crate::error::{Error, Result};
use crate::names::LOCK_NAME;
use crate::part::Part;
use crate::target::Target;
use shardpack_format::{Hint, Setting};
use shardpack_io::{FileLock, Holder, LockMode};
use std::io::Read;

const MAX_TEXT_BYTES: u64 = 4096;

/// Returns the hint for a store, where a claim remains if its run was killed on another machine.
fn store_hint() -> Hint {
    Hint::new("wait for the other packer, or stop it; if it was killed, add ")
        .and([Setting::on("take_over")])
        .then(" to continue its work")
}

fn part_lock_name(part: Part) -> String {
    format!("{LOCK_NAME}{}", part.suffix())
}

/// The locks of one run, released when dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    // Declared before `folder`, because the part's own lock must be released first.
    own: Option<Box<dyn FileLock>>,
    folder: Box<dyn FileLock>,
}

impl RunLock {
    /// Acquires the locks of a run. If another run holds them, the error describes that run.
    pub(crate) fn take(target: &Target<'_>, part: Option<Part>, holder: &Holder) -> Result<Self> {
        let mode = if part.is_some() { LockMode::Shared } else { LockMode::Exclusive };
        let folder = take(target, LOCK_NAME, mode, holder)?;
        let own = part.map(|part| take(target, &part_lock_name(part), LockMode::Exclusive, holder)).transpose()?;
        Ok(Self { own, folder })
    }

    /// True if one of the locks consists only of a file, which remains if the run is killed on another machine.
    pub(crate) fn is_by_name(&self) -> bool {
        self.folder.is_by_name() || self.own.as_ref().is_some_and(|own| own.is_by_name())
    }
}

fn take(target: &Target<'_>, name: &str, mode: LockMode, holder: &Holder) -> Result<Box<dyn FileLock>> {
    let path = target.file(name);
    let (taken, hint) = match &target.store {
        Some(bucket) => {
            (bucket.lock(name, mode, holder)?.map(|lock| Box::new(lock) as Box<dyn FileLock>), store_hint())
        }
        None => {
            let taken = target.files.lock(&path, mode, holder).map_err(|e| Error::io("lock", &path, e))?;
            (taken, "wait for the other packer, or stop it".into())
        }
    };
    taken.ok_or_else(|| Error::Locked { holder: holder_of(target, name), path, hint })
}

/// Describes the holder of a lock, as written in the lock's own file or, for a lock that parts share, in the file of a
/// part.
fn holder_of(target: &Target<'_>, name: &str) -> String {
    let mut names = vec![name.to_owned()];
    names.extend(target.names().unwrap_or_default().into_iter().filter(|n| n.starts_with(LOCK_NAME) && n != name));
    let text = |name: &String| {
        let mut bytes = Vec::new();
        target.open_shared(name).ok()?.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().escape_debug().to_string())
    };
    names.iter().filter_map(text).find(|text| !text.is_empty()).unwrap_or_else(|| "an unknown process".into())
}
