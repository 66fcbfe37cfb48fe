//! Options of a collector.

use crate::pack::{PackOptions, PictureOptions};
use shardpack_codec::ArrayOptions;

/// How the samples of a program are stored.
///
/// ```
/// use shardpack::collect::CollectOptions;
/// let options = CollectOptions { shuffle: None, ..Default::default() };
/// assert_eq!(options.shard_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// How to store pictures. Default: tile; pixels become a PNG, or a JPEG where pictures are re-encoded. The looks that are taken at a sample of the pictures are taken at one in 32, chosen by their keys.
    pub pictures: PictureOptions,
    /// How to store arrays. Default: auto, tried on the first array of each field.
    pub arrays: ArrayOptions,
    /// Names of the classes, which the integer field `label` counts into from 0; it may be given by name. Default: none.
    pub classes: Option<Vec<String>>,
    /// A shard ends before the sample that would take it past this size, in bytes. Default 1 GiB.
    pub shard_bytes: u64,
    /// Seed of the order in which samples are stored, whatever the order in which they came: they are numbered as their keys sort. `None` keeps the order in
    /// which they came. Default: seed 0.
    pub shuffle: Option<u64>,
    /// Replace the dataset that is there, once the samples are complete. Default: false.
    pub force: bool,
    /// Threads that try codecs and write the dataset; samples are encoded by the threads that add them. Default: all cores.
    pub threads: usize,
    /// Bound on the bytes of samples in flight while the dataset is written. Default: what one sample for each thread and one more take, at least 64 MiB.
    pub memory_bytes: Option<u64>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        PackOptions::default().into()
    }
}

impl From<PackOptions> for CollectOptions {
    /// Those of packing a folder that have a meaning without one.
    fn from(options: PackOptions) -> Self {
        let PackOptions { pictures, arrays, shard_bytes, shuffle, force, threads, memory_bytes, .. } = options;
        Self { pictures, arrays, classes: None, shard_bytes, shuffle, force, threads, memory_bytes }
    }
}
