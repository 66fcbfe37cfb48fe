//! Reads the files in a dataset's folder other than shards, and lists the shards.

use crate::error::{Error, Result};
use shardpack_format::{Error as FormatError, HEADER_BYTES, Identity, Limits, Manifest};
use shardpack_io::{ReadAt, Storage, read_exact_at, read_whole};
use std::path::Path;

/// File name of the packer's journal, which exists until the dataset is complete.
const JOURNAL: &str = ".shardpack-journal.jsonl";

pub(crate) fn is_being_packed(storage: &dyn Storage) -> bool {
    storage.open(JOURNAL).is_ok()
}

/// Reads a manifest.
///
/// # Errors
/// `Io` if it cannot be read; `Format` or `Limit` if it is not a complete, valid manifest.
pub(crate) fn read_manifest(file: &dyn ReadAt, path: &Path, limits: &Limits) -> Result<Manifest> {
    let in_file = |e: FormatError| Error::from(e.in_file(path.to_string_lossy()));
    if file.len() > limits.max_manifest_bytes {
        let limit = limits.max_manifest_bytes;
        return Err(in_file(FormatError::limit("manifest", "max_manifest_bytes", limit, file.len())));
    }
    let bytes = read_whole(file, path, limits.max_manifest_bytes)?;
    Manifest::parse(&bytes, limits).map_err(in_file)
}

/// Reads the manifest named `name` in a folder.
///
/// # Errors
/// Same as [`read_manifest`].
pub(crate) fn manifest_in(storage: &dyn Storage, name: &str, limits: &Limits) -> Result<Manifest> {
    read_manifest(&*storage.open(name)?, &storage.path().join(name), limits)
}

/// Returns the identity of a shard, or `None` if its header cannot be read. Opening the shard reports that error.
pub(crate) fn identity_in(storage: &dyn Storage, name: &str) -> Option<Identity> {
    let mut header = vec![0; usize::try_from(HEADER_BYTES).ok()?];
    read_exact_at(&*storage.open(name).ok()?, &storage.path().join(name), &mut header, 0).ok()?;
    Identity::parse_header(&header).ok()
}

/// Returns true if the header of a file says that it is a columns file (spec §3.6).
pub(crate) fn is_columns_file(storage: &dyn Storage, name: &str) -> bool {
    identity_in(storage, name).is_some_and(|identity| identity.is_columns_file())
}

/// Returns the names ending in `.shard` directly in the folder, sorted.
///
/// # Errors
/// `Io` if the folder cannot be listed. Its kind is `Unsupported` if the storage cannot list files.
pub(crate) fn shard_names(storage: &dyn Storage) -> Result<Vec<String>> {
    let mut names = storage.names()?;
    names.retain(|name| name.ends_with(".shard") && !name.starts_with('.'));
    Ok(names)
}
