//! Code shared by the fuzz targets.
pub mod jpeg;
pub mod payload;
pub mod shard;
pub mod sources;
pub mod targets;
