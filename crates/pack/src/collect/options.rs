//! Options for collecting samples from a program.

use crate::pack::PackOptions;
use shardpack_array::ArrayOptions;
use shardpack_recipe::PictureOptions;

/// Storage options for a program's samples.
///
/// ```
/// use shardpack_pack::collect::CollectOptions;
/// let options = CollectOptions { shuffle: None, ..Default::default() };
/// assert_eq!(options.shard_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// Storage options for pictures. Default: tile. A picture given as pixels is stored as a PNG, or as a JPEG
    /// if pictures are re-encoded. The option `sample` checks one picture in 32, chosen by key.
    pub pictures: PictureOptions,
    /// Storage options for arrays. Default: auto, which tries codecs on the first array of each field.
    pub arrays: ArrayOptions,
    /// Class names. The integer field `label` stores positions in this list, counted from 0. A program may also
    /// pass the name of a class. Default: none.
    pub classes: Option<Vec<String>>,
    /// Maximum size of a shard, in bytes. Default: 1 GiB.
    pub shard_bytes: u64,
    /// Seed of the stored order, which is independent of the order in which samples are added. `None` keeps the
    /// order of addition. Default: seed 0.
    pub shuffle: Option<u64>,
    /// Replace an existing dataset once all samples have been collected. Default: false.
    pub force: bool,
    /// Number of threads that try codecs and write the dataset. Samples are encoded on the caller's threads.
    /// Default: all cores.
    pub threads: usize,
    /// Memory limit for samples during writing, in bytes. Default: enough for one sample per thread plus one,
    /// at least 64 MiB.
    pub memory_bytes: Option<u64>,
}

impl Default for CollectOptions {
    fn default() -> Self {
        PackOptions::default().into()
    }
}

impl From<PackOptions> for CollectOptions {
    fn from(options: PackOptions) -> Self {
        let PackOptions { pictures, arrays, shard_bytes, shuffle, force, threads, memory_bytes, .. } = options;
        Self { pictures, arrays, classes: None, shard_bytes, shuffle, force, threads, memory_bytes }
    }
}
