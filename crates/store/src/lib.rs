//! Datasets in object stores: S3, Google Cloud Storage, Azure and plain HTTP. This crate extends
//! `shardpack-reader`, which can read only files.
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
//! The crate `object_store` handles requests and credentials. This crate decides which bytes to request and when:
//! readers announce their reads, and up to 256 parallel requests fetch the bytes in advance ([`Remote`]). Every
//! object is pinned to the size and ETag of its first response. If a shard changes during a run, reading fails
//! instead of mixing two versions.
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
mod hub;
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

pub use cache::{BlockCount, CacheCheck, CacheFolder, CachedDataset};
pub use location::{SCHEMES, Scheme};
pub use object_store::ObjectStore;
pub use options::{Keys, StoreOptions};
pub use remote::Remote;
pub use upload::Upload;

use location::Location;
use shardpack_io::Storage;
use shardpack_reader::{Dataset, DatasetOptions, Result, VerifyOptions, VerifyReport};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the dataset at a URL: a folder with a manifest, a manifest (`….json`), or a single shard
/// (`….shard`). Local paths and `file://` URLs are accepted too.
///
/// # Errors
/// `Usage` if the URL or an option is invalid; `Io` if the store cannot be reached, refuses the request, or
/// has no such object; otherwise the same as [`DatasetOptions::open`].
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

/// Returns the local path if `text` is a plain path or a `file://` URL, and `None` for other URLs.
///
/// # Errors
/// `Usage` if the URL is invalid.
pub fn local_path(text: &str) -> Result<Option<PathBuf>> {
    Ok(match Location::parse(text)? {
        Location::Local(path) => Some(path),
        Location::Store(_) => None,
    })
}

/// A folder in a store, and a file in it.
#[derive(Debug, Clone)]
pub struct UrlTarget {
    /// The folder.
    pub storage: Arc<dyn Storage>,
    /// Name of the file, or `None` for the folder itself.
    pub file: Option<String>,
}

/// Returns the target of a URL, which has the same form as in [`open`]. Sends no requests.
///
/// # Errors
/// `Usage` if the URL or an option is invalid, or if it is a local path.
pub fn url_target(url: &str, options: &StoreOptions) -> Result<UrlTarget> {
    match Location::parse(url)? {
        Location::Local(_) => Err(shardpack_io::Error::usage(format!("`{url}` is a local path")).into()),
        Location::Store(url) => Ok(UrlTarget { storage: Arc::new(Remote::of_url(&url, options)?), file: url.file }),
    }
}

/// Verifies the dataset at a path, or at a URL as in [`open`].
///
/// # Errors
/// Same as [`open`] and [`shardpack_reader::verify`].
pub fn verify(url: &str, verify: &VerifyOptions<'_>, options: &StoreOptions) -> Result<VerifyReport> {
    match Location::parse(url)? {
        Location::Local(path) => shardpack_reader::verify(Path::new(&path), verify),
        Location::Store(url) => {
            let storage = Arc::new(Remote::of_url(&url, options)?);
            shardpack_reader::verify_in(storage, url.file.as_deref(), verify)
        }
    }
}
