//! A dataset in an object store, written with a folder of this machine beside it: the spool.
//!
//! To the rest of the crate it is one more file system. Names that begin with a dot (files that are
//! being written, journals, locks) are files in the spool; all others are objects. To rename a
//! finished shard to its final name is to send it, and to remove the file. So the order of steps
//! that makes a folder safe makes a store safe.
//!
//! The lock of the spool keeps out other runs on this machine, a *claim* those on others: an object
//! that is created only if its name is free, with the name of its holder and the number of its
//! spool. It goes with the run, unless the run is killed. Whoever holds the lock of a spool knows
//! that each claim with its number is that of a dead run. Any other claim is taken over only if the
//! caller says so, because no clock tells a dead run from a slow one. A run looks at its claim
//! before each object that it writes.

use crate::claimed::{Claim, Claimed};
use crate::error::{Error, Result};
use crate::folder::is_final;
use crate::fs::{Ends, Fs, FsFile, Held, LockMode, StdFs};
use crate::journal::is_part_journal;
use crate::lock::LOCK_NAME;
use crate::objects::Objects;
use sha2::{Digest, Sha256};
use shardpack_format::{FOOTER_BYTES, HEADER_BYTES, Hint, Hinted, Limits, MANIFEST_NAME, Setting};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Names the spool to the runs that use it one after the other.
pub(crate) const TOKEN_NAME: &str = ".shardpack-spool";
/// More than a claim has.
const MAX_CLAIM_BYTES: u64 = 4096;
/// Where a run has ended, it removes the spool that another is about to lock.
const LOCK_TRIES: u32 = 3;

/// A place in an object store that [`write_dataset`](crate::write_dataset) writes to as to a folder.
///
/// The spool holds at most three shards: one that is being written, one that waits, and one that is
/// on its way. Then packing waits for the store.
///
/// - A shard is sent once it is complete, and appears whole or not at all. One that is there
///   already, by its size, header and footer (with the CRCs of all others) the same, is not sent
///   again.
/// - A run that was stopped goes on from the journal in the spool and from the shards that are in
///   the store. Without that spool, shards are packed again.
/// - Two runs do not mix: see [`Bucket::take_over`].
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) objects: Arc<dyn Objects>,
    name: PathBuf,
    pub(crate) spool: PathBuf,
    take_over: bool,
    /// Claims of this run, by name, with their text.
    pub(crate) claims: Arc<Mutex<Vec<(String, String)>>>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket").field("name", &self.0.name).field("spool", &self.0.spool).finish_non_exhaustive()
    }
}

impl Bucket {
    /// The place that messages call `name`, with a spool of its own in the folder `spools`. Nothing
    /// is created yet.
    #[must_use]
    pub fn new(name: &str, objects: Arc<dyn Objects>, spools: &Path) -> Self {
        let name = name.trim_end_matches('/');
        let digest: String = Sha256::digest(name).iter().take(8).map(|b| format!("{b:02x}")).collect();
        Self(Arc::new(Inner {
            objects,
            name: name.into(),
            spool: spools.join(format!("shardpack-spool-{digest}")),
            take_over: false,
            claims: Arc::default(),
        }))
    }

    /// The same, for a run that takes over what another one has claimed: one that was killed, with a
    /// spool that is not this one. If it lives after all, it stops before its next object. Default:
    /// false.
    #[must_use]
    pub fn take_over(self, take_over: bool) -> Self {
        let Inner { objects, name, spool, .. } = &*self.0;
        let (objects, name, spool) = (Arc::clone(objects), name.clone(), spool.clone());
        Self(Arc::new(Inner { objects, name, spool, take_over, claims: Arc::default() }))
    }

    /// The folder of this machine for files that are being written. It exists while a run needs it.
    #[must_use]
    pub fn spool(&self) -> &Path {
        &self.0.spool
    }

    /// The name of the place in messages.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.0.name
    }

    /// Whether a manifest is there.
    ///
    /// # Errors
    /// `Io`.
    pub fn holds_dataset(&self) -> Result<bool> {
        match self.0.objects.read_ends(MANIFEST_NAME, 1, 0) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("read", &self.0.name.join(MANIFEST_NAME), e)),
            Ok(_) => Ok(true),
        }
    }
}

impl Inner {
    fn local(&self, path: &Path) -> PathBuf {
        self.spool.join(path.file_name().unwrap_or_default())
    }

    /// The number of the spool, which is made with the first lock.
    fn token(&self) -> io::Result<String> {
        let path = self.spool.join(TOKEN_NAME);
        let known = || StdFs.read(&path, MAX_CLAIM_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
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
            other => other.and_then(|()| StdFs.sync_dir(&self.spool)).map(|()| token),
        }
    }

    /// Completes the claim `name`, of which `is_new` says whether it was free: takes it over from a
    /// dead run, and removes claims of dead runs that it excludes. False if another run holds it, or
    /// one of those.
    fn claim(&self, name: &str, is_new: bool, token: &str, text: &str) -> io::Result<bool> {
        let is_dead = |text: &str| self.take_over || text.ends_with(&format!("(spool {token})"));
        if !is_new {
            let Some(old) = self.read_claim(name)? else { return Ok(false) };
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
    fn exclude(&self, name: &str, is_dead: impl Fn(&str) -> bool) -> io::Result<bool> {
        for other in self.objects.list()?.iter().filter(|other| excludes(name, other)) {
            match self.read_claim(other)? {
                Some(old) if is_dead(&old) => self.objects.remove(other)?,
                None => {}
                Some(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    pub(crate) fn read_claim(&self, name: &str) -> io::Result<Option<String>> {
        match self.objects.read(name, MAX_CLAIM_BYTES) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Fails if another run has taken over.
    fn check_claims(&self) -> io::Result<()> {
        let claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, text) in claims {
            let found = self.read_claim(&name)?;
            if found.as_ref() != Some(&text) {
                let holder = found.unwrap_or_else(|| "nobody: its claim was removed".into());
                let text = format!("another run has taken over: {holder}");
                let hinted = Hinted::new(text, "this one has stopped, and harmed nothing");
                return Err(io::Error::new(ErrorKind::ResourceBusy, hinted));
            }
        }
        Ok(())
    }

    /// Sends a finished file, unless the very same is there.
    fn send(&self, from: &Path, name: &str) -> io::Result<()> {
        let ends = StdFs.read_ends(from, HEADER_BYTES, FOOTER_BYTES)?;
        match self.objects.read_ends(name, HEADER_BYTES, FOOTER_BYTES) {
            Ok(there) if there == ends => return Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let sent = match self.objects.send(name, &mut *StdFs.open(from)?) {
            // An upload that is not there any more: the answer to its last request may have been
            // lost, and the object be there.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let there = self.objects.read_ends(name, HEADER_BYTES, FOOTER_BYTES);
                return there.ok().filter(|there| *there == ends).map(drop).ok_or(e);
            }
            other => other?,
        };
        if sent == ends.bytes {
            return Ok(());
        }
        Err(io::Error::new(ErrorKind::InvalidData, format!("{} bytes were to be sent, and {sent} were", ends.bytes)))
    }
}

/// Whether the claim `other` excludes the claim `name`: the whole excludes every part.
fn excludes(name: &str, other: &str) -> bool {
    other != name && other.starts_with(LOCK_NAME) && (name == LOCK_NAME || other == LOCK_NAME)
}

/// Whether a path is of the spool, not of the store.
fn is_local(path: &Path) -> bool {
    name_of(path).starts_with('.')
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl Fs for Bucket {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        let spool = &self.0.spool;
        if let Some(parent) = spool.parent() {
            StdFs.create_dir_all(parent)?;
        }
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(spool) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => check_own(spool),
            other => other,
        }
        .map_err(|e| in_spool(e, spool))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        let mut names = match StdFs.list(&self.0.spool) {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|e| in_spool(e, &self.0.spool))?,
        };
        names.retain(|name| name.starts_with('.') && name != TOKEN_NAME);
        for name in self.0.objects.list()? {
            let is_shared = is_part_journal(&name) || name.starts_with(LOCK_NAME);
            if (!name.starts_with('.') || is_shared) && !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn read(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        if is_local(path) {
            match StdFs.read(&self.0.local(path), max_bytes) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                other => return other.map_err(|e| in_spool(e, &self.0.local(path))),
            }
        }
        self.0.objects.read(name_of(path), max_bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        if is_local(path) {
            match StdFs.open(&self.0.local(path)) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                other => return other.map_err(|e| in_spool(e, &self.0.local(path))),
            }
        }
        let bytes = self.0.objects.read(name_of(path), Limits::default().max_manifest_bytes)?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn read_ends(&self, path: &Path, head: u64, tail: u64) -> io::Result<Ends> {
        self.0.objects.read_ends(name_of(path), head, tail)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        let path = self.0.local(path);
        let file = StdFs.create_new(&path).map_err(|e| in_spool(e, &path))?;
        Ok(Arc::new(Spooled { file, path }))
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        let path = self.0.local(path);
        let file = StdFs.append(&path).map_err(|e| in_spool(e, &path))?;
        Ok(Arc::new(Spooled { file, path }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let name = name_of(to);
        let (from_here, to_here) = (self.0.local(from), self.0.local(to));
        match (is_local(from), is_local(to)) {
            (true, true) => return StdFs.rename(&from_here, &to_here).map_err(|e| in_spool(e, &to_here)),
            (true, false) => {}
            // A manifest that is retired.
            (false, _) => {
                self.0.check_claims()?;
                let bytes = self.0.objects.read(name_of(from), Limits::default().max_manifest_bytes)?;
                let written = fs::write(&to_here, bytes).and_then(|()| File::open(&to_here)?.sync_all());
                written.map_err(|e| in_spool(e, &to_here))?;
                return self.0.objects.remove(name_of(from));
            }
        }
        self.0.check_claims()?;
        if name == MANIFEST_NAME {
            let bytes = StdFs.read(&from_here, Limits::default().max_manifest_bytes)?;
            if !self.0.objects.create(name, &bytes)? {
                let hint = Hint::new("choose another place, or add ").and([Setting::on("force")]);
                let hinted =
                    Hinted::new("another manifest has appeared meanwhile", hint.then(" to replace that dataset"));
                return Err(io::Error::new(ErrorKind::AlreadyExists, hinted));
            }
        } else {
            self.0.send(&from_here, name).map_err(to_go_on)?;
            self.0.check_claims().map_err(|e| meanwhile(e, name))?;
        }
        fs::remove_file(&from_here).map_err(|e| in_spool(e, &from_here))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = name_of(path);
        if is_final(name) || is_part_journal(name) {
            self.0.check_claims()?;
            self.0.objects.remove(name)?;
        }
        if is_local(path) { StdFs.remove(&self.0.local(path)) } else { Ok(()) }
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        // A store has no folders.
        StdFs.remove_dir(&self.0.local(dir))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        StdFs.sync_dir(&self.0.spool)
    }

    fn lock(&self, path: &Path, mode: LockMode, text: &str) -> io::Result<Option<Box<dyn Held>>> {
        let name = name_of(path);
        let mut tries = 1;
        let local = loop {
            match StdFs.lock(&self.0.local(path), mode, text) {
                Err(e) if e.kind() == ErrorKind::NotFound && tries < LOCK_TRIES => self.create_dir_all(path)?,
                other => break other.map_err(|e| in_spool(e, &self.0.spool))?,
            }
            tries += 1;
        };
        let Some(local) = local else { return Ok(None) };
        // The parts share this one; each has a claim under the name of its own.
        let mut held =
            Claimed { inner: Arc::clone(&self.0), name: name.to_owned(), claim: Claim::Unknown, local: Some(local) };
        if mode == LockMode::Exclusive {
            let token = self.0.token().map_err(|e| in_spool(e, &self.0.spool))?;
            let text = format!("{} (spool {token})", text.trim());
            let created = self.0.objects.create(name, text.as_bytes()).map_err(no_bucket);
            let is_refused = |e: &io::Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
            if created.as_ref().is_err_and(is_refused) {
                held.claim = Claim::Refused;
            }
            if !self.0.claim(name, created?, &token, &text)? {
                held.claim = Claim::Refused;
                return Ok(None);
            }
            self.0.claims.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), text.clone()));
            held.claim = Claim::Held(text);
        }
        Ok(Some(Box::new(held)))
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        StdFs.free_bytes(&self.0.spool)
    }

    fn place_of(&self, path: &Path) -> PathBuf {
        if is_local(path) { self.0.local(path) } else { path.to_owned() }
    }

    fn is_store(&self) -> bool {
        true
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        self.0.check_claims()?;
        let local = self.0.local(path);
        self.0.objects.send(name_of(path), &mut *StdFs.open(&local)?).map_err(to_go_on)?;
        fs::remove_file(&local).map_err(|e| in_spool(e, &local))
    }
}

/// Refuses a folder that somebody else has put in the spool's place: a folder for temporary files is
/// everybody's.
fn check_own(spool: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(spool)?;
    #[cfg(unix)]
    let is_ours = std::os::unix::fs::MetadataExt::uid(&found) == rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let is_ours = true;
    if found.is_dir() && is_ours {
        return Ok(());
    }
    let text = "expected a folder of this user, found another's, or no folder";
    let hinted = Hinted::new(text, Hint::new("choose another with ").and([Setting::named("spool")]));
    Err(io::Error::new(ErrorKind::PermissionDenied, hinted))
}

/// An error of a file whose path the caller does not know.
fn in_spool(error: io::Error, path: &Path) -> io::Error {
    let text = format!("`{}`: {error}", path.display());
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Hinted>()?.hint()) {
        Some(hint) => io::Error::new(error.kind(), Hinted::new(text, hint)),
        None => io::Error::new(error.kind(), text),
    }
}

/// Says of an object that could not be made that its bucket is missing.
fn no_bucket(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => {
            let hinted = Hinted::new("there is no such bucket or container", "make it first");
            io::Error::new(ErrorKind::NotFound, hinted)
        }
        _ => error,
    }
}

/// Says of a run that was taken over while it was sending an object what may have come of it.
fn meanwhile(error: io::Error, name: &str) -> io::Error {
    if error.kind() != ErrorKind::ResourceBusy {
        return error;
    }
    let hint = Hint::new(format!(
        "`{name}` was on its way then, and may stand in the place of that run's: `shardpack verify` says whether it \
         does, and "
    ));
    let hint = hint.and([Setting::on("force")]).then(" packs anew");
    io::Error::new(error.kind(), Hinted::new(error.to_string(), hint))
}

/// Says what to do about an object that could not be sent.
fn to_go_on(error: io::Error) -> io::Error {
    if error.get_ref().is_some_and(|inner| Hinted::hint_in(inner).is_some()) {
        return error;
    }
    let hint = "run the same command again to go on: what was sent is kept";
    io::Error::new(error.kind(), Hinted::new(error.to_string(), hint))
}

/// A file in the spool.
struct Spooled {
    file: Arc<dyn FsFile>,
    path: PathBuf,
}

impl FsFile for Spooled {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes).map_err(|e| in_spool(e, &self.path))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync().map_err(|e| in_spool(e, &self.path))
    }
}
