//! The locks of a run that writes to a store: a lock file in the spool, and a claim in the store.
//!
//! The lock of the spool keeps out other runs on this machine, a *claim* those on other machines: an
//! object that is created only if its name is free, with the name of its holder and the number of
//! its spool. It goes with the run, unless the run is killed. Whoever holds the lock of a spool knows
//! that each claim with its number is that of a dead run. Any other claim is taken over only if the
//! caller says so, because no clock tells a dead run from a slow one. A run looks at its claims
//! before each object that it writes.

use crate::names::{LOCK_NAME, TOKEN_NAME};
use shardpack_format::Hinted;
use shardpack_io::{Disk, Error, FileLock, FileSystem as _, Holder, LockMode, Objects, Result, read_whole};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More than a claim has.
const MAX_CLAIM_BYTES: u64 = 4096;

/// The claims of one run.
#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) spool: PathBuf,
    pub(crate) take_over: bool,
    held: Mutex<Vec<HeldClaim>>,
}

/// An object that says who writes.
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

    /// Fails if another run has taken over, before the object `name` is written.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        let held = self.held().clone();
        for claim in held {
            let found = self.read(&claim.name)?;
            if found.as_ref() != Some(&claim.text) {
                let holder = found.unwrap_or_else(|| "nobody: its claim was removed".into());
                let text = format!("another run has taken over: {holder}");
                let hinted = Hinted::new(text, "this one has stopped, and harmed nothing");
                let path = self.objects.path().join(name);
                return Err(Error::io(path, "write", io::Error::new(ErrorKind::ResourceBusy, hinted)));
            }
        }
        Ok(())
    }

    /// The text of a claim.
    fn read(&self, name: &str) -> Result<Option<String>> {
        match self.objects.read(name, MAX_CLAIM_BYTES) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Claims `name` for a run that holds the lock `file` of the spool; `None` if another run holds
    /// the claim. The parts share a lock, and each has a claim under the name of its own.
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
                let hinted = Hinted::new("there is no such bucket or container", "make it first");
                Error::io(self.objects.path().join(name), "lock", io::Error::new(ErrorKind::NotFound, hinted))
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

    /// Completes the claim `name`, of which `is_new` says whether it was free: takes it over from a
    /// dead run, and removes claims of dead runs that it excludes. False if another run holds it, or
    /// one of those.
    fn complete(&self, name: &str, is_new: bool, token: &str, text: &str) -> Result<bool> {
        let is_dead = |text: &str| self.take_over || text.ends_with(&format!("(spool {token})"));
        if !is_new {
            let Some(old) = self.read(name)? else { return Ok(false) };
            if !is_dead(&old) || !self.objects.exchange(name, old.as_bytes(), text.as_bytes())? {
                return Ok(false);
            }
        }
        // Only now: of two that exclude each other, at least one sees the other.
        let alone = self.exclude(name, is_dead);
        if !matches!(alone, Ok(true)) {
            self.objects.remove(name)?;
        }
        alone
    }

    /// Removes claims of dead runs that the claim `name` excludes. False if one is not dead.
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

    /// The number of the spool, which is made with the first lock.
    fn token(&self) -> io::Result<String> {
        let path = self.spool.join(TOKEN_NAME);
        let known = || -> io::Result<String> {
            let bytes = read_whole(&*Disk.open(&path)?, &path, MAX_CLAIM_BYTES).map_err(Error::into_source)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match known() {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        // The keys of a hasher are what the standard library has of chance.
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        // Parts share the spool: the first to name it is right, and the name comes whole.
        let mine = self.spool.join(format!("{TOKEN_NAME}-{token}"));
        let linked = fs::write(&mine, &token).and_then(|()| {
            File::open(&mine)?.sync_all()?;
            match fs::hard_link(&mine, &path) {
                // Some file systems have no links.
                Err(e) if e.kind() != ErrorKind::AlreadyExists => fs::rename(&mine, &path),
                other => other,
            }
        });
        // Gone already if it was renamed.
        let _ = fs::remove_file(&mine);
        match linked {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => known(),
            other => other.and_then(|()| Disk.sync_dir(&self.spool)).map(|()| token),
        }
    }
}

/// Returns whether the claim `other` excludes the claim `name`: the whole excludes every part.
fn excludes(name: &str, other: &str) -> bool {
    other != name && other.starts_with(LOCK_NAME) && (name == LOCK_NAME || other == LOCK_NAME)
}

/// A lock in the spool, and the claim in the store.
#[derive(Debug)]
pub(crate) struct StoreLock {
    claims: Arc<Claims>,
    name: String,
    claim: ClaimState,
    file: Option<Box<dyn FileLock>>,
}

/// State of a claim of this run.
#[derive(Debug)]
enum ClaimState {
    /// It is there, with this text, unless another run has taken over.
    Held(String),
    /// Another run has it.
    Refused,
    /// Perhaps it is there: the store did not say. Or this lock needs none.
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
            ClaimState::Held(text) => match self.claims.read(name) {
                Ok(Some(found)) if found == *text => objects.remove(name).is_ok(),
                other => other.is_ok(),
            },
        };
        // The number goes while the lock is held, the folder once it is empty. A claim that could not
        // be removed is taken over by the next run, if that has the number.
        let ours = [TOKEN_NAME, LOCK_NAME, name];
        let is_ours = |names: Vec<String>| names.iter().all(|name| ours.contains(&name.as_str()));
        if is_free && Disk.names(spool).is_ok_and(is_ours) {
            let _ = fs::remove_file(spool.join(TOKEN_NAME));
        }
        self.file = None;
        let _ = fs::remove_dir(spool);
    }
}
