//! Reads the intact records of damaged files, so that the caller can write them to new files.

mod folder;
mod metadata;
mod newest;
mod rebuild;
mod scan;
pub(crate) mod walk;

pub use folder::SalvageFolder;
pub use metadata::MetadataSource;
pub use newest::Newest;
pub use rebuild::{Rebuilt, rebuild_manifest};
pub use scan::{Lost, SalvageScan, SalvageSource, Salvaged, WholeRecord};
