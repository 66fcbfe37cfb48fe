//! Options of a collector.

use crate::pack::PackOptions;
use shardpack_array::ArrayOptions;
use shardpack_recipe::PictureOptions;

/// Storage options for the samples of a program.
///
/// ```
/// use shardpack_pack::collect::CollectOptions;
/// let options = CollectOptions { shuffle: None, ..Default::default() };
/// assert_eq!(options.shard_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// Storage of pictures. Default: tile. Pixels become a PNG, or a JPEG with re-encoding. Checks of a sample of the
    /// pictures take one in 32, by key.
    pub pictures: PictureOptions,
    /// Storage of arrays. Default: auto, tried on the first array of each field.
    pub arrays: ArrayOptions,
    /// Names of the classes, indexed by the integer field `label` from 0; `label` may also be a name. Default: none.
    pub classes: Option<Vec<String>>,
    /// Largest size of a shard, in bytes. Default: 1 GiB.
    pub shard_bytes: u64,
    /// Seed of the stored order, which is independent of the order of adding; `None` keeps the order of adding.
    /// Default: seed 0.
    pub shuffle: Option<u64>,
    /// Replace an existing dataset once the samples are complete. Default: false.
    pub force: bool,
    /// Number of threads that try codecs and write the dataset; the caller's threads encode. Default: all cores.
    pub threads: usize,
    /// Limit on the bytes of samples in flight while the dataset is written. Default: enough for
    /// one sample per thread plus one sample, at least 64 MiB.
    pub memory_bytes: Option<u64>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        PackOptions::default().into()
    }
}

impl From<PackOptions> for CollectOptions {
    /// Takes the options of packing a folder that also apply without a folder.
    fn from(options: PackOptions) -> Self {
        let PackOptions { pictures, arrays, shard_bytes, shuffle, force, threads, memory_bytes, .. } = options;
        Self { pictures, arrays, classes: None, shard_bytes, shuffle, force, threads, memory_bytes }
    }
}
