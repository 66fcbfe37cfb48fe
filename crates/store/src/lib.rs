//! Datasets in object stores: S3, Google Cloud Storage, Azure and plain HTTP, for the reader of
//! `shardpack-reader`, which knows of files only.
//!
//! ```no_run
//! use shardpack_reader::DatasetOptions;
//! use shardpack_store::{StoreOptions, open};
//! let options = StoreOptions::default().environment(std::env::vars());
//! let dataset = open("s3://bucket/train", &DatasetOptions::new(), &options)?;
//! println!("{} samples", dataset.len());
//! # Ok::<(), shardpack_reader::Error>(())
//! ```
//!
//! Requests and credentials are the business of the crate `object_store`. This one decides what is
//! asked for and when: readers announce what they will read, and up to 256 requests fetch it before
//! it is wanted ([`Remote`]). Every object is pinned to the size and ETag of its first answer, so a
//! shard that changes under a run is an error, never a mixture.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod attempts;
mod cache;
mod client;
mod connect;
mod diagnosis;
mod endpoint;
mod fetch;
mod fetcher;
mod fill;
mod folder;
mod http;
mod latencies;
mod listing;
mod location;
mod object;
mod objects;
mod open_object;
mod options;
mod remote;
mod schedule;
mod upload;

pub use location::{SCHEMES, Scheme};
pub use object_store::ObjectStore;
pub use options::{Keys, StoreOptions};
pub use remote::Remote;
pub use upload::Upload;

use location::Location;
use shardpack_reader::{Dataset, DatasetOptions, Result, VerifyOptions, VerifyReport};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the dataset at a URL: a folder with a manifest, or a manifest (`….json`), or a lone shard
/// (`….shard`). A `file://` URL is opened as the path that it names, and so is a path.
///
/// # Errors
/// `Usage` if the URL or an option of it is not understood; `Io` if the store cannot be reached,
/// refuses, or has no such object; else as [`DatasetOptions::open`].
pub fn open(url: &str, dataset: &DatasetOptions, options: &StoreOptions) -> Result<Dataset> {
    match Location::parse(url)? {
        Location::Local(path) => dataset.open(path),
        Location::Store(url) => {
            let storage = Arc::new(Remote::of_url(&url, options)?);
            match &url.file {
                Some(name) => dataset.open_file_in(storage, name),
                None => dataset.open_in(storage),
            }
        }
    }
}

/// The path of this machine that a text names: a path does, and a `file://` URL; others do not.
///
/// # Errors
/// `Usage` if it is a URL that is not understood.
pub fn local_path(text: &str) -> Result<Option<PathBuf>> {
    Ok(match Location::parse(text)? {
        Location::Local(path) => Some(path),
        Location::Store(_) => None,
    })
}

/// Verifies what stands at a URL, as [`open`] takes it, or at a path.
///
/// # Errors
/// As [`open`], and as [`shardpack_reader::verify`].
pub fn verify(url: &str, verify: &VerifyOptions<'_>, options: &StoreOptions) -> Result<VerifyReport> {
    match Location::parse(url)? {
        Location::Local(path) => shardpack_reader::verify(Path::new(&path), verify),
        Location::Store(url) => {
            let storage = Arc::new(Remote::of_url(&url, options)?);
            shardpack_reader::verify_in(storage, url.file.as_deref(), verify)
        }
    }
}
