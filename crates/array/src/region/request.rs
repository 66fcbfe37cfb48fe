//! Describes the region that a caller requests, and the result of decoding it.

use shardpack_format::{ArrayDescriptor, Dtype, Error, Layout, Result, to_usize};
use std::ops::Range;

/// The requested bands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Bands {
    /// All bands of the array, in order.
    #[default]
    All,
    /// Bands from `start` up to, but not including, `end`.
    Range(Range<u64>),
    /// These bands, in this order. A band may occur more than once.
    List(Vec<u64>),
}

impl Bands {
    /// Returns the indices of the requested bands, or nothing for [`Bands::All`].
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> {
        let (range, list) = match self {
            Self::All => (0..0, &[][..]),
            Self::Range(range) => (range.clone(), &[][..]),
            Self::List(list) => (0..0, list.as_slice()),
        };
        range.chain(list.iter().copied()).map(to_usize)
    }
}

/// A rectangle of pixels, with some or all bands, of an array `[height, width, channels]`. An array with two axes has a
/// single band, band 0.
///
/// ```
/// use shardpack_array::{Bands, Region};
/// use shardpack_format::{ArrayDescriptor, Dtype, Layout};
/// let cube = ArrayDescriptor::plain(Dtype::F32, vec![480, 640, 100]);
/// let region = Region { bands: Bands::List(vec![7, 3]), layout: Layout::BandMajor, ..Region::new(10, 20, 64, 32) };
/// let shape = region.shape_of(&cube)?;
/// assert_eq!((shape.dtype, shape.shape, shape.bytes), (Dtype::F32, [2, 64, 32], 16_384));
/// assert!(Region::new(417, 0, 64, 64).shape_of(&cube).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// First row.
    pub y: u64,
    /// First column.
    pub x: u64,
    /// Number of rows.
    pub height: u64,
    /// Number of columns.
    pub width: u64,
    /// The requested bands.
    pub bands: Bands,
    /// Axis order of the output: `[height, width, bands]`, or `[bands, height, width]` if band-major.
    pub layout: Layout,
}

/// Type, shape and size of a decoded region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionShape {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Lengths of the axes, in the order `[height, width, bands]` or `[bands, height, width]`.
    pub shape: [u64; 3],
    /// Size of all elements in bytes.
    pub bytes: u64,
}

/// Shape of a decoded region, and the number of blocks that were decoded for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionDecoded {
    /// Type, shape and size of the data in `out`.
    pub shape: RegionShape,
    /// Number of Blosc2 blocks, or units of plain zstd, that were decoded at least in part. Units that are stored
    /// unchanged or as one repeated value do not count, because they need no decoding.
    pub blocks_decoded: u64,
    /// Number of blocks or units in the whole payload, or 0 if it is raw.
    pub blocks: u64,
}

impl Region {
    /// Creates a region with all bands of a rectangle. The output consists of values in the order
    /// `[height, width, bands]`.
    #[must_use]
    pub const fn new(y: u64, x: u64, height: u64, width: u64) -> Self {
        Self { y, x, height, width, bands: Bands::All, layout: Layout::AsShape }
    }

    /// Creates a region of the whole array.
    ///
    /// # Errors
    /// `Usage` if the array has neither two nor three axes.
    pub fn whole(descriptor: &ArrayDescriptor) -> Result<Self> {
        let [height, width, _] = cube_shape(descriptor)?;
        Ok(Self::new(0, 0, height, width))
    }

    /// Returns the type, shape and length of the output.
    ///
    /// # Errors
    /// `Usage` if the region is not within the array, or the array has neither two nor three axes; `Format`
    /// if a size overflows.
    pub fn shape_of(&self, descriptor: &ArrayDescriptor) -> Result<RegionShape> {
        let [height, width, channels] = cube_shape(descriptor)?;
        within("rows", self.y, self.height, height)?;
        within("columns", self.x, self.width, width)?;
        let bands = match &self.bands {
            Bands::All => channels,
            Bands::Range(range) => {
                let count = range.end.checked_sub(range.start);
                let count =
                    count.ok_or_else(|| Error::usage(format!("the range of bands {range:?} ends before it starts")))?;
                within("bands", range.start, count, channels)?;
                count
            }
            Bands::List(list) => {
                if let Some(band) = list.iter().find(|band| **band >= channels) {
                    return Err(Error::usage(format!(
                        "band {band} was requested, but the array has only {channels} bands, numbered from 0"
                    )));
                }
                list.len() as u64
            }
        };
        if descriptor.shape.len() == 2 && bands != 1 {
            return Err(Error::usage(format!(
                "the array has two axes, so it has one band, but {bands} were requested"
            )));
        }
        let shape = match self.layout {
            Layout::AsShape => [self.height, self.width, bands],
            Layout::BandMajor => [bands, self.height, self.width],
        };
        let dtype = descriptor.decoded;
        Ok(RegionShape { dtype, shape, bytes: dtype.array_bytes(&shape)? })
    }
}

fn cube_shape(descriptor: &ArrayDescriptor) -> Result<[u64; 3]> {
    match descriptor.shape[..] {
        [height, width] => Ok([height, width, 1]),
        [height, width, channels] => Ok([height, width, channels]),
        _ => Err(Error::usage(format!(
            "regions need an array of shape [height, width] or [height, width, channels], not {:?}",
            descriptor.shape
        ))),
    }
}

fn within(what: &'static str, first: u64, count: u64, length: u64) -> Result<()> {
    match first.checked_add(count) {
        Some(end) if end <= length => Ok(()),
        _ => Err(Error::usage(format!(
            "the region has {count} {what} starting at {first}, but the array has only {length} {what}"
        ))),
    }
}
