//! A folder in an object store that a dataset is written to, with a folder of this machine beside
//! it: the spool.

use crate::claims::{Claims, StoreLock};
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use shardpack_format::{FOOTER_BYTES, HEADER_BYTES, Hint, Hinted, Limits, MANIFEST_NAME, Setting};
use shardpack_io::{Disk, FileSystem as _, Holder, LockMode, Objects, ReadAt, Reader, read_ends, read_whole};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a run has ended, it removes the spool that another is about to lock.
const LOCK_TRIES: u32 = 3;

/// A folder in an object store that [`write_dataset`](crate::write_dataset) writes to as to a folder
/// on a disk.
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
#[derive(Debug, Clone)]
pub struct Bucket {
    name: PathBuf,
    claims: Arc<Claims>,
}

impl Bucket {
    /// The folder `objects`, with a spool of its own in the folder `spools` of this machine. Nothing
    /// is created yet.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, spools: &Path) -> Self {
        let name = objects.path().to_string_lossy().trim_end_matches('/').to_owned();
        let digest: String = Sha256::digest(&name).iter().take(8).map(|b| format!("{b:02x}")).collect();
        let spool = spools.join(format!("shardpack-spool-{digest}"));
        Self { name: name.into(), claims: Arc::new(Claims::new(objects, spool, false)) }
    }

    /// The same, for a run that takes over what another one has claimed: one that was killed, with a
    /// spool that is not this one. If it lives after all, it stops before its next object. Default:
    /// false.
    #[must_use]
    pub fn take_over(self, take_over: bool) -> Self {
        let Claims { objects, spool, .. } = &*self.claims;
        let claims = Claims::new(Arc::clone(objects), spool.clone(), take_over);
        Self { claims: Arc::new(claims), ..self }
    }

    /// The folder of this machine for files that are being written. It exists while a run needs it.
    #[must_use]
    pub fn spool(&self) -> &Path {
        &self.claims.spool
    }

    /// The name of the folder in messages.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns whether a manifest is there.
    ///
    /// # Errors
    /// `Io`.
    pub fn holds_dataset(&self) -> Result<bool> {
        match self.objects().read_ends(MANIFEST_NAME, 1, 0) {
            Err(e) if e.is_not_found() => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    pub(crate) fn objects(&self) -> &dyn Objects {
        &*self.claims.objects
    }

    /// Creates the spool, for this user alone.
    pub(crate) fn create_spool(&self) -> io::Result<()> {
        let spool = self.spool();
        if let Some(parent) = spool.parent() {
            Disk.create_dir_all(parent)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(spool) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => check_own(spool),
            other => other,
        }
    }

    /// Takes the lock `name` in the spool, and the claim of this name in the store; `None` if another
    /// run holds one of them.
    pub(crate) fn lock(&self, name: &str, mode: LockMode, holder: &Holder) -> Result<Option<StoreLock>> {
        let path = self.spool().join(name);
        let mut tries = 1;
        let file = loop {
            match Disk.lock(&path, mode, holder) {
                Err(e) if e.kind() == ErrorKind::NotFound && tries < LOCK_TRIES => {
                    self.create_spool().map_err(|e| Error::io("create folder", self.spool(), e))?;
                }
                other => break other.map_err(|e| Error::io("lock", &path, e))?,
            }
            tries += 1;
        };
        let Some(file) = file else { return Ok(None) };
        Ok(self.claims.take(name, mode, holder, file)?)
    }

    /// Fails once another run has taken over. The error names the object `name`.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        Ok(self.claims.check(name)?)
    }

    /// Removes an object, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.check(name)?;
        Ok(self.objects().remove(name)?)
    }

    /// Makes a complete file of the spool an object, and removes the file.
    pub(crate) fn commit(&self, file: &Path, name: &str) -> Result<()> {
        self.check(name)?;
        if name == MANIFEST_NAME {
            self.create_manifest(file)?;
        } else {
            self.send_once(file, name).map_err(to_go_on)?;
            self.check(name).map_err(|e| meanwhile(e, name))?;
        }
        Disk.remove(file).map_err(|e| Error::io("remove", file, e))
    }

    /// The same for the journal of a part, in the place of one that is there.
    pub(crate) fn publish(&self, file: &Path, name: &str) -> Result<()> {
        self.check(name)?;
        self.send(file, name).map_err(to_go_on)?;
        Disk.remove(file).map_err(|e| Error::io("remove", file, e))
    }

    fn create_manifest(&self, file: &Path) -> Result<()> {
        let bytes = read_whole(&*open(file)?, file, Limits::default().max_manifest_bytes)?;
        if self.objects().create(MANIFEST_NAME, &bytes)? {
            return Ok(());
        }
        let hint = Hint::new("choose another place, or add ").and([Setting::on("force")]);
        let hinted = Hinted::new("another manifest has appeared meanwhile", hint.then(" to replace that dataset"));
        let source = io::Error::new(ErrorKind::AlreadyExists, hinted);
        Err(Error::io("write", &self.name.join(MANIFEST_NAME), source))
    }

    fn send(&self, file: &Path, name: &str) -> Result<u64> {
        Ok(self.objects().send(name, &mut Reader::new(open(file)?))?)
    }

    /// Sends a shard, unless the very same is there.
    fn send_once(&self, file: &Path, name: &str) -> Result<()> {
        let ends = read_ends(&*open(file)?, file, HEADER_BYTES, FOOTER_BYTES)?;
        let there = || self.objects().read_ends(name, HEADER_BYTES, FOOTER_BYTES);
        match there() {
            Ok(there) if there == ends => return Ok(()),
            Err(e) if !e.is_not_found() => return Err(e.into()),
            _ => {}
        }
        let sent = match self.send(file, name) {
            // An upload that is not there any more: the answer to its last request may have been
            // lost, and the object be there.
            Err(Error::Io { source, action, path }) if source.kind() == ErrorKind::NotFound => {
                let is_there = there().is_ok_and(|there| there == ends);
                return if is_there { Ok(()) } else { Err(Error::Io { source, action, path }) };
            }
            other => other?,
        };
        if sent == ends.bytes {
            return Ok(());
        }
        let why = format!("{} bytes were to be sent, and {sent} were", ends.bytes);
        Err(Error::io("write", &self.name.join(name), io::Error::new(ErrorKind::InvalidData, why)))
    }
}

fn open(file: &Path) -> Result<Arc<dyn ReadAt>> {
    Disk.open(file).map_err(|e| Error::io("read", file, e))
}

/// Refuses a folder that somebody else has put in the spool's place: a folder for temporary files is
/// everybody's.
fn check_own(spool: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(spool)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let text = "expected a folder of this user, found another's, or no folder";
    let hinted = Hinted::new(text, Hint::new("choose another with ").and([Setting::named("spool")]));
    Err(io::Error::new(ErrorKind::PermissionDenied, hinted))
}

/// Says of a run that was taken over while it was sending an object what may have come of it.
fn meanwhile(error: Error, name: &str) -> Error {
    match error {
        Error::Io { action, path, source } if source.kind() == ErrorKind::ResourceBusy => {
            let hint = Hint::new(format!(
                "`{name}` was on its way then, and may stand in the place of that run's: `shardpack verify` says \
                 whether it does, and "
            ));
            let hint = hint.and([Setting::on("force")]).then(" packs anew");
            let source = io::Error::new(source.kind(), Hinted::new(source.to_string(), hint));
            Error::Io { action, path, source }
        }
        other => other,
    }
}

/// Says what to do about an object that could not be sent.
fn to_go_on(error: Error) -> Error {
    if error.hint().is_some() {
        return error;
    }
    match error {
        Error::Io { action, path, source } => {
            let hint = "run the same command again to go on: what was sent is kept";
            let source = io::Error::new(source.kind(), Hinted::new(source.to_string(), hint));
            Error::Io { action, path, source }
        }
        other => other,
    }
}
