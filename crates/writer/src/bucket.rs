//! Writes a dataset to a folder in an object store. Unfinished files are kept in a local folder,
//! the spool.

use crate::claims::{Claims, StoreLock};
use crate::error::{Error, Result};
use crate::uploads::Uploads;
use sha2::{Digest, Sha256};
use shardpack_format::{FOOTER_BYTES, HEADER_BYTES, Hint, Limits, MANIFEST_NAME, Setting, to_hex};
use shardpack_io::{
    Cause, Disk, Ends, FileSystem as _, Holder, LockMode, Objects, ReadAt, Reader, Storage, read_ends, read_whole,
};
use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of attempts to lock the spool. A run that ends may remove the spool just before the next run locks it.
const LOCK_TRIES: u32 = 3;

/// A folder in an object store. [`write_dataset`](crate::write_dataset) writes to it as if it were a folder on a disk.
///
/// The spool holds at most three shards: one being written, one waiting, and one being uploaded. If there are three,
/// packing waits for the store.
///
/// - A shard is uploaded once it is complete, and appears in the store whole or not at all. If the store already has
///   an object with the same size, header and footer, the shard is not uploaded again, because the footer covers all
///   other bytes with CRC32s.
/// - After an interruption, the next run continues from the journal in the spool and the shards in the store. If the
///   spool is lost, the shards are packed again.
/// - Two runs never mix; see [`Bucket::take_over`].
#[derive(Debug, Clone)]
pub struct Bucket {
    name: PathBuf,
    claims: Arc<Claims>,
}

impl Bucket {
    /// Creates a handle for the folder `objects`, with its own spool in the local folder `spools`. Accesses no files.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>, spools: &Path) -> Self {
        let name = objects.path().to_string_lossy().trim_end_matches('/').to_owned();
        let mut digest = to_hex(&Sha256::digest(&name));
        digest.truncate(16);
        let spool = spools.join(format!("shardpack-spool-{digest}"));
        Self { name: name.into(), claims: Arc::new(Claims::new(objects, spool, false)) }
    }

    /// Sets whether to take over the claim of a run that was killed and whose spool is lost. If that run is in fact
    /// still alive, it stops before it writes its next object. Default: false.
    #[must_use]
    pub fn take_over(self, take_over: bool) -> Self {
        let Claims { objects, spool, .. } = &*self.claims;
        let claims = Claims::new(Arc::clone(objects), spool.clone(), take_over);
        Self { claims: Arc::new(claims), ..self }
    }

    /// Returns the local folder for unfinished files. It exists only during a run.
    #[must_use]
    pub fn spool(&self) -> &Path {
        &self.claims.spool
    }

    /// Returns the name of the folder, for messages.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// True if the store contains a manifest.
    ///
    /// # Errors
    /// `Io` if the store cannot be read.
    pub fn holds_dataset(&self) -> Result<bool> {
        match self.objects().read_ends(MANIFEST_NAME, 1, 0) {
            Err(e) if e.is_not_found() => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::<dyn Objects>::clone(&self.claims.objects)
    }

    pub(crate) fn objects(&self) -> &dyn Objects {
        &*self.claims.objects
    }

    /// Creates the spool with access for this user only.
    pub(crate) fn create_spool(&self) -> Result<(), Cause> {
        let spool = self.spool();
        if let Some(parent) = spool.parent() {
            Disk.create_dir_all(parent)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(spool) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => check_own(spool),
            other => Ok(other?),
        }
    }

    /// Locks the spool and creates a claim with the same name in the store. Returns `None` if another run holds the
    /// lock or the claim.
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

    /// Fails if another run has taken over. The error mentions the object `name`.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        Ok(self.claims.check(name)?)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.check(name)?;
        Ok(self.objects().remove(name)?)
    }

    /// Uploads a complete spool file as an object, then removes the file. Counts the bytes of a shard.
    pub(crate) fn commit(&self, file: &Path, name: &str, uploads: &Uploads) -> Result<()> {
        self.check(name)?;
        if name == MANIFEST_NAME {
            self.create_manifest(file)?;
        } else {
            self.send_once(file, name, uploads).map_err(to_go_on)?;
            self.check(name).map_err(|e| meanwhile(e, name))?;
        }
        Disk.remove(file).map_err(|e| Error::io("remove", file, e))
    }

    /// Uploads a complete spool file as a new object, then removes the file. Fails if there is a different object.
    pub(crate) fn take_in(&self, file: &Path, name: &str, uploads: &Uploads) -> Result<()> {
        self.check(name)?;
        if !self.is_sent(&ends(file)?, name)? {
            match self.objects().read_ends(name, 0, 0) {
                Err(e) if e.is_not_found() => {}
                other => return other.map_err(Error::from).and_then(|_| Err(self.taken(name))),
            }
        }
        self.commit(file, name, uploads)
    }

    /// Writes a small object unless there is one with this name. Returns true if the object contains `bytes`
    /// afterwards.
    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.check(name)?;
        Ok(self.objects().create(name, bytes)?)
    }

    /// Replaces a small object that contains `old`. Returns true if the object contains `new` afterwards.
    pub(crate) fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool> {
        self.check(name)?;
        Ok(self.objects().exchange(name, old, new)?)
    }

    /// Uploads the journal of a part, replacing any earlier one.
    pub(crate) fn publish(&self, file: &Path, name: &str) -> Result<()> {
        self.check(name)?;
        self.send(file, name, &|_| {}).map_err(to_go_on)?;
        Disk.remove(file).map_err(|e| Error::io("remove", file, e))
    }

    fn create_manifest(&self, file: &Path) -> Result<()> {
        let bytes = read_whole(&*open(file)?, file, Limits::default().max_manifest_bytes)?;
        if self.objects().create(MANIFEST_NAME, &bytes)? {
            return Ok(());
        }
        let hint = Hint::new("choose another output URL, or add ").and([Setting::on("force")]);
        let cause = Cause::new(ErrorKind::AlreadyExists, "another run has written a manifest in the meantime");
        let cause = cause.with_hint(hint.then(" to replace that dataset"));
        Err(Error::io("write", &self.name.join(MANIFEST_NAME), cause))
    }

    fn send(&self, file: &Path, name: &str, on_sent: &dyn Fn(u64)) -> Result<u64> {
        Ok(self.objects().send(name, &mut Reader::new(open(file)?), on_sent)?)
    }

    fn taken(&self, name: &str) -> Error {
        let cause = Cause::new(ErrorKind::AlreadyExists, "there is a different object with this name");
        let cause = cause.with_hint("move or rename that object, then run the command again");
        Error::io("write", &self.name.join(name), cause)
    }

    /// True if the store already has a shard with this size, header and footer.
    fn is_sent(&self, ends: &Ends, name: &str) -> Result<bool> {
        match self.objects().read_ends(name, HEADER_BYTES, FOOTER_BYTES) {
            Err(e) if e.is_not_found() => Ok(false),
            there => Ok(there? == *ends),
        }
    }

    fn send_once(&self, file: &Path, name: &str, uploads: &Uploads) -> Result<()> {
        let ends = ends(file)?;
        if self.is_sent(&ends, name)? {
            uploads.skip(ends.bytes);
            return Ok(());
        }
        let counted = Cell::new(0);
        let on_sent = |bytes: u64| {
            counted.set(counted.get() + bytes);
            uploads.add(bytes);
        };
        let sent = match self.send(file, name, &on_sent) {
            // The store no longer knows the upload. It may have created the object even though its response was lost,
            // so look for the object.
            Err(Error::Io { source, action, path }) if source.kind() == ErrorKind::NotFound => {
                if !self.is_sent(&ends, name).unwrap_or(false) {
                    return Err(Error::Io { source, action, path });
                }
                uploads.add(ends.bytes.saturating_sub(counted.get()));
                return Ok(());
            }
            other => other?,
        };
        if sent == ends.bytes {
            return Ok(());
        }
        let why = format!("only {sent} of {} bytes were sent", ends.bytes);
        Err(Error::io("write", &self.name.join(name), Cause::new(ErrorKind::InvalidData, why)))
    }
}

fn open(file: &Path) -> Result<Arc<dyn ReadAt>> {
    Disk.open(file).map_err(|e| Error::io("read", file, e))
}

/// Returns the size, header and footer of a shard in the spool.
fn ends(file: &Path) -> Result<Ends> {
    Ok(read_ends(&*open(file)?, file, HEADER_BYTES, FOOTER_BYTES)?)
}

/// Checks that the spool belongs to this user. The spool may be in a shared temporary folder, where any user could have
/// created it.
fn check_own(spool: &Path) -> Result<(), Cause> {
    let found = fs::symlink_metadata(spool)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let cause = Cause::new(ErrorKind::PermissionDenied, "the path exists, but is not a folder owned by this user");
    Err(cause.with_hint(Hint::new("choose another folder with ").and([Setting::named("spool")])))
}

fn meanwhile(error: Error, name: &str) -> Error {
    match error {
        Error::Io { action, path, source } if source.kind() == ErrorKind::ResourceBusy => {
            let hint = Hint::new(format!(
                "this run was uploading `{name}` and may have overwritten the other run's object: check the dataset \
                 with `shardpack verify`, or pack it again with "
            ));
            let hint = hint.and([Setting::on("force")]);
            Error::Io { action, path, source: source.with_hint(hint) }
        }
        other => other,
    }
}

fn to_go_on(error: Error) -> Error {
    if error.hint().is_some() {
        return error;
    }
    match error {
        Error::Io { action, path, source } => {
            let hint = "run the same command again to continue: uploaded objects are kept";
            Error::Io { action, path, source: source.with_hint(hint) }
        }
        other => other,
    }
}
