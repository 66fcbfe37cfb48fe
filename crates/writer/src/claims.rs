//! Acquires and releases the locks of a run that writes to a store. There are two locks: a lock file in the spool and a
//! claim in the store.
//!
//! The lock file excludes other runs on this machine, and a *claim* excludes runs on other machines. A claim is an
//! object that is created only if its name is free. It contains the name of the run and the number of its spool. The
//! claim is removed when the run ends, also if it was cancelled, but not if it was killed.
//!
//! Only one run at a time can lock a spool, so other claims with that spool's number are from dead runs. All other
//! claims are taken over only on the caller's request, because no timeout can distinguish a dead run from a slow one.
//! Before a run writes an object, it checks that it still has its claims.

use crate::names::{LOCK_NAME, TOKEN_NAME};
use shardpack_io::{Cause, Disk, Error, FileLock, FileSystem as _, Holder, LockMode, Objects, Result, read_whole};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAX_CLAIM_BYTES: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) spool: PathBuf,
    pub(crate) take_over: bool,
    held: Mutex<Vec<HeldClaim>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldClaim {
    name: String,
    text: String,
}

impl Claims {
    pub(crate) fn new(objects: Arc<dyn Objects>, spool: PathBuf, take_over: bool) -> Self {
        Self { objects, spool, take_over, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Vec<HeldClaim>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if another run has taken over. Call this before writing the object `name`.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        let held = self.held().clone();
        for claim in held {
            let found = self.read(&claim.name)?;
            if found.as_ref() != Some(&claim.text) {
                let (text, hint) = match found {
                    None => ("another run removed this run's lock".to_owned(), "run the command again"),
                    Some(holder) => (
                        format!("another run has taken over, and its lock reads `{holder}`"),
                        "wait for the other run to finish; this run has not changed the other run's files",
                    ),
                };
                let cause = Cause::new(ErrorKind::ResourceBusy, text).with_hint(hint);
                return Err(Error::io(self.objects.path().join(name), "write", cause));
            }
        }
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Option<String>> {
        match self.objects.read(name, MAX_CLAIM_BYTES) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates the claim `name` for a run that holds the spool lock `file`. Returns `None` if another run holds the
    /// claim. The runs of different parts share the spool lock, but each has its own claim.
    pub(crate) fn take(
        self: &Arc<Self>,
        name: &str,
        mode: LockMode,
        holder: &Holder,
        file: Box<dyn FileLock>,
    ) -> Result<Option<StoreLock>> {
        let mut lock =
            StoreLock { claims: Arc::clone(self), name: name.into(), claim: ClaimState::Unknown, file: Some(file) };
        if mode == LockMode::Shared {
            return Ok(Some(lock));
        }
        let token = self.token().map_err(|e| Error::io(self.spool.join(TOKEN_NAME), "lock", e))?;
        let text = format!("{holder} (spool {token})");
        let created = self.objects.create(name, text.as_bytes());
        if created.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)) {
            lock.claim = ClaimState::Refused;
        }
        let is_new = created.map_err(|e| match e.is_not_found() {
            true => {
                let cause = Cause::new(ErrorKind::NotFound, "there is no such bucket or container");
                Error::io(
                    self.objects.path().join(name),
                    "lock",
                    cause.with_hint("create the bucket or container first"),
                )
            }
            false => e,
        })?;
        if !self.complete(name, is_new, &token, &text)? {
            lock.claim = ClaimState::Refused;
            return Ok(None);
        }
        self.held().push(HeldClaim { name: name.to_owned(), text: text.clone() });
        lock.claim = ClaimState::Held(text);
        Ok(Some(lock))
    }

    /// Takes over the claim of a dead run, and removes the claims of dead runs that this claim excludes. `is_new` is
    /// true if the name was free. Returns false if another run holds this claim or one that it excludes.
    fn complete(&self, name: &str, is_new: bool, token: &str, text: &str) -> Result<bool> {
        let is_dead = |text: &str| self.take_over || text.ends_with(&format!("(spool {token})"));
        if !is_new {
            let Some(old) = self.read(name)? else { return Ok(false) };
            if !is_dead(&old) || !self.objects.exchange(name, old.as_bytes(), text.as_bytes())? {
                return Ok(false);
            }
        }
        // Check for conflicts only after writing the claim, so that at least one of two conflicting runs sees the
        // other's claim.
        let alone = self.exclude(name, is_dead);
        if !matches!(alone, Ok(true)) {
            self.objects.remove(name)?;
        }
        alone
    }

    /// Removes the claims that the claim `name` excludes. Returns false if one of their runs may still be alive.
    fn exclude(&self, name: &str, is_dead: impl Fn(&str) -> bool) -> Result<bool> {
        for other in self.objects.names()?.iter().filter(|other| excludes(name, other)) {
            match self.read(other)? {
                Some(old) if is_dead(&old) => self.objects.remove(other)?,
                None => {}
                Some(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the number of the spool, which is assigned when the spool is first locked.
    fn token(&self) -> Result<String, Cause> {
        let path = self.spool.join(TOKEN_NAME);
        let known = || -> Result<String, Cause> {
            let bytes = read_whole(&*Disk.open(&path)?, &path, MAX_CLAIM_BYTES).map_err(Error::into_cause)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match known() {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        // The standard library has no random number generator, but its hashers have random keys.
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        // Several parts may share a spool. The first one to create the file sets the number. Other parts must not see
        // the file half written.
        let mine = self.spool.join(format!("{TOKEN_NAME}-{token}"));
        let linked = fs::write(&mine, &token).and_then(|()| {
            File::open(&mine)?.sync_all()?;
            match fs::hard_link(&mine, &path) {
                // Some file systems do not support hard links.
                Err(e) if e.kind() != ErrorKind::AlreadyExists => fs::rename(&mine, &path),
                other => other,
            }
        });
        // This fails if the file was renamed instead of linked.
        let _ = fs::remove_file(&mine);
        match linked {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => known(),
            other => {
                other?;
                Disk.sync_dir(&self.spool).map(|()| token)
            }
        }
    }
}

/// True if the two claims exclude each other. The claim of a whole run excludes the claims of all parts.
fn excludes(name: &str, other: &str) -> bool {
    other != name && other.starts_with(LOCK_NAME) && (name == LOCK_NAME || other == LOCK_NAME)
}

#[derive(Debug)]
pub(crate) struct StoreLock {
    claims: Arc<Claims>,
    name: String,
    claim: ClaimState,
    file: Option<Box<dyn FileLock>>,
}

#[derive(Debug)]
enum ClaimState {
    /// The claim exists and contains this text, unless another run has taken over.
    Held(String),
    /// Another run holds the claim, or the store rejected the request to create it.
    Refused,
    /// The claim may or may not exist, because the store did not respond. Also used for locks that need no claim.
    Unknown,
}

impl FileLock for StoreLock {
    fn is_by_name(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_by_name())
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let Claims { objects, spool, .. } = &*self.claims;
        let name = &self.name;
        self.claims.held().retain(|held| held.name != *name);
        let is_free = match &self.claim {
            ClaimState::Unknown => false,
            ClaimState::Refused => true,
            ClaimState::Held(text) => objects.release(name, text.as_bytes()).is_ok(),
        };
        // While the lock is still held, remove the file with the spool's number, so that a folder with no other files
        // can be removed too. If the claim could not be removed, keep the file: the next run with this spool then takes
        // over the claim.
        let ours = [TOKEN_NAME, LOCK_NAME, name];
        let is_ours = |names: Vec<String>| names.iter().all(|name| ours.contains(&name.as_str()));
        if is_free && Disk.names(spool).is_ok_and(is_ours) {
            let _ = fs::remove_file(spool.join(TOKEN_NAME));
        }
        self.file = None;
        let _ = fs::remove_dir(spool);
    }
}
