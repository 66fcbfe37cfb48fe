//! The options of packing.

use shardpack_array::ArrayOptions;
use shardpack_jpeg::ReencodeOptions;
use shardpack_sources::{OnBadInput, SourceOptions};
use shardpack_writer::Part;

/// How JPEG pictures are stored.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Jpeg {
    /// Byte for byte.
    Keep,
    /// The same pixels in a JPEG of tiles. A reader cuts rectangles out of it without decoding.
    #[default]
    Tile,
    /// Decoded, resized if requested, and re-encoded in tiles.
    Reencode(ReencodeOptions),
}

impl Jpeg {
    /// Name, as the recipe spells it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Tile => "tile",
            Self::Reencode(_) => "reencode",
        }
    }
}

/// Which pictures get a costly check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Share {
    /// None.
    None,
    /// One in 64, and at least 16 if there are that many. The choice depends only on the number of
    /// pictures.
    #[default]
    Sample,
    /// Every one.
    All,
}

impl Share {
    /// Name, as the recipe spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sample => "sample",
            Self::All => "all",
        }
    }

    /// Whether picture `position` of `count` is among them.
    #[must_use]
    pub const fn takes(self, position: u64, count: u64) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Sample => {
                // One from each block of neighbours, at a varying position: every n-th picture
                // might be the first of each class.
                let stride = count / 16;
                let stride = if stride > 64 { 64 } else { stride };
                if stride == 0 {
                    return true;
                }
                let block = (position / stride + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                position % stride == (block >> 32) % stride
            }
        }
    }
}

/// How pictures are stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PictureOptions {
    /// How JPEGs are stored; other pictures are kept to the byte. Default: tile.
    pub jpeg: Jpeg,
    /// Keep all metadata segments in the stored JPEG. Default: false. The ICC profile then goes
    /// into the field `icc`, the Exif orientation into the column `orientation`, and the rest is
    /// dropped. `keep` keeps everything anyway.
    pub keep_metadata: bool,
    /// Turn pictures upright by their coefficients if their edges allow it. Decoders then need not
    /// turn them, but some pixels differ by a rounding step or two. Tiled pictures only. Default:
    /// false.
    pub upright: bool,
    /// Tiled pictures that are decoded and compared with their sources, pixel by pixel. Default: a
    /// sample.
    pub check_pixels: Share,
    /// Re-encoded pictures that are compared with their sources by SSIMULACRA2. Default: a sample.
    pub score: Share,
}

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

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn a_sample_is_sixteen_pictures_and_more_of_many() {
        let taken = |count| (0..count).filter(|&i| Share::Sample.takes(i, count)).count();
        assert_eq!(taken(7), 7);
        assert_eq!(taken(31), 31);
        assert!((16..=17).contains(&taken(1000)), "{}", taken(1000));
        assert_eq!(taken(64_000), 1000);
        let firsts = (0..64_000).filter(|&i| Share::Sample.takes(i, 64_000) && i % 64 == 0).count();
        assert!(firsts < 50, "{firsts} of 1000 are the first of their block");
        assert!((0..100).all(|i| Share::All.takes(i, 100) && !Share::None.takes(i, 100)));
    }
}
