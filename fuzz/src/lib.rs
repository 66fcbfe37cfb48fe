//! What the fuzz targets share.
pub mod payload;
pub mod shard;
