//! Code that the fuzz targets share.
pub mod jpeg;
pub mod payload;
pub mod shard;
pub mod sources;
pub mod targets;
