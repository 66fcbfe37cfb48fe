//! Options for packing a source.

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
    /// Options for reading the source and for handling bad input.
    pub source: SourceOptions,
    /// Storage options for pictures.
    pub pictures: PictureOptions,
    /// Storage options for cubes. Masks use the same codec options, and are always lossless. Default: auto.
    pub arrays: ArrayOptions,
    /// Maximum size of a shard, in bytes. Default: 1 GiB.
    pub shard_bytes: u64,
    /// Seed of the stored order. `None` keeps the order of the keys. Default: seed 0.
    pub shuffle: Option<u64>,
    /// Write only this part of the shards. Default: all shards.
    pub part: Option<Part>,
    /// Replace the output of an earlier run. Default: false.
    pub force: bool,
    /// Number of threads that read and encode. Default: all cores.
    pub threads: usize,
    /// Memory limit for samples, in bytes. Default: enough for one sample per thread plus one, at least 64 MiB.
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
            threads: shardpack_io::cores(),
            memory_bytes: None,
        }
    }
}

impl PackOptions {
    pub(super) fn skips(&self) -> bool {
        self.source.on_bad_input == OnBadInput::Skip
    }
}
