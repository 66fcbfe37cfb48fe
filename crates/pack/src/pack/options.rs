//! The options of packing.

use shardpack_array::ArrayOptions;
use shardpack_recipe::PictureOptions;
use shardpack_sources::{OnBadInput, SourceOptions};
use shardpack_writer::Part;

/// Options of [`pack`](super::pack).
///
/// ```
/// let options = shardpack_pack::pack::PackOptions { shard_bytes: 64 << 20, ..Default::default() };
/// assert_eq!(options.shuffle, Some(0));
/// ```
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// How to read the source, and what to do about bad input.
    pub source: SourceOptions,
    /// How to store pictures.
    pub pictures: PictureOptions,
    /// How to store cubes. Masks use the options about the codec, and are always lossless. Default:
    /// auto.
    pub arrays: ArrayOptions,
    /// A shard ends before the sample that would make it larger than this, in bytes. Default 1 GiB.
    pub shard_bytes: u64,
    /// Seed of the order in which samples are stored; `None` keeps the order of the keys. Default:
    /// seed 0.
    pub shuffle: Option<u64>,
    /// Write only one part of the shards; default all.
    pub part: Option<Part>,
    /// Replace what an earlier run wrote. Default: false.
    pub force: bool,
    /// Threads that read and encode. Default: all cores.
    pub threads: usize,
    /// Limit on the bytes of samples in flight. Default: enough for one sample per thread and one
    /// more, at least 64 MiB.
    pub memory_bytes: Option<u64>,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            source: SourceOptions::default(),
            pictures: PictureOptions::default(),
            arrays: ArrayOptions::default(),
            shard_bytes: 1 << 30,
            shuffle: Some(0),
            part: None,
            force: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: None,
        }
    }
}

impl PackOptions {
    /// Whether a sample that turns out to be damaged is left out instead of stopping the run.
    pub(super) fn skips(&self) -> bool {
        self.source.on_bad_input == OnBadInput::Skip
    }
}
