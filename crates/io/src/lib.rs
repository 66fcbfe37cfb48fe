//! Access to files, either on a disk of this machine or in an object store.
//!
//! - [`Storage`]: a folder for reading. It lists files by name, and reads ranges of their bytes ([`ReadAt`]).
//! - [`Objects`]: storage for writing objects, each of which appears whole or not at all.
//! - [`FileSystem`]: folders of this machine, with growing files, durable names, and locks.
//!
//! [`Folder`] implements storage on a disk, and [`Disk`] is the file system of this machine. The crate
//! `shardpack-store` implements storage behind URLs. This crate knows nothing about shards.
//!
//! The feature `conformance` adds the test suite that all implementations must pass. It also adds three
//! implementations for tests: `MemoryStorage`, `RiggedStorage`, which fails, delays and counts
//! operations, and `FailingStorage`, which fails at a given request.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod cancel;
mod cause;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod disk;
mod error;
#[cfg(any(test, feature = "conformance"))]
mod failing;
mod file;
mod file_system;
mod folder;
mod holder;
mod lock_file;
mod lock_name;
#[cfg(any(test, feature = "conformance"))]
mod memory;
mod objects;
mod page_cache;
mod read_at;
#[cfg(any(test, feature = "conformance"))]
mod rigged;
mod storage;
mod traffic;
mod url;

pub use cancel::{cancel_flag, cancellable, is_cancelled, with_cancel_flag};
pub use cause::Cause;
pub use disk::Disk;
pub use error::{Error, Result};
#[cfg(any(test, feature = "conformance"))]
pub use failing::{FailingStorage, Failure};
pub use file::open_regular;
pub use file_system::{FileLock, FileSystem, GrowingFile, LockMode, is_unsupported};
pub use folder::Folder;
pub use holder::Holder;
#[cfg(any(test, feature = "conformance"))]
pub use memory::MemoryStorage;
pub use objects::Objects;
pub use page_cache::{advise_soon, is_cached};
pub use read_at::{Ends, ReadAt, Reader, read_ends, read_exact_at, read_exact_unchecked_at, read_whole};
#[cfg(any(test, feature = "conformance"))]
pub use rigged::{Fault, Faults, Rig, RiggedStorage};
pub use storage::{Listed, Storage};
pub use traffic::{CacheStats, Traffic};
pub use url::is_url;

/// Returns the number of cores that this process may use, from its affinity and its cgroup, or 1 if it is unknown. This
/// is the default number of threads everywhere.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
