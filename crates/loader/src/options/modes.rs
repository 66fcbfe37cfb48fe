//! The choices of single options: pictures, arrays, element types, damage, window.

use crate::patches::PatchPlace;
use shardpack_format::{Dtype, ElementType};
use shardpack_jpeg::View;
use shardpack_reader::Error;

/// What a batch holds of the pictures.
///
/// ```
/// use shardpack_loader::View;
/// use shardpack_loader::{ImageMode, LoaderOptions};
/// let evaluate = ImageMode::View(View::center_crop(256, 224));
/// assert_ne!(LoaderOptions::default().view.image, evaluate);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ImageMode {
    /// Pixels, uint8: dense if the view has one size for all pictures, ragged for whole pictures
    /// and others whose size follows the picture.
    View(View),
    /// The encoded bytes as stored, ragged.
    Raw,
}

/// What a batch holds of arrays (cubes, masks).
///
/// ```
/// use shardpack_loader::{Bands, CubeMode, LoaderOptions, PatchPlace};
/// // Batches [32, 64, 64, 40] of patches that are drawn anew in each epoch.
/// let train = LoaderOptions::default().cube(CubeMode::Patch { height: 64, width: 64, place: PatchPlace::Random }).bands(Bands::Range(10..50));
/// assert_ne!(train.view.cube, CubeMode::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CubeMode {
    /// The whole array: dense if all samples have one shape, else ragged.
    #[default]
    Whole,
    /// A rectangle of pixels, dense, of arrays `[height, width]` and `[height, width, channels]`;
    /// only the blocks that it touches are decoded. All such arrays of a sample, a cube and its
    /// mask, are cut alike, so they must be of one height and width, and those at least the
    /// patch's: else the batch is an error that names the sample. Arrays of other numbers of axes
    /// come whole.
    Patch {
        /// Rows, at least 1.
        height: u32,
        /// Columns, at least 1.
        width: u32,
        /// Where.
        place: PatchPlace,
    },
    /// A box of pixels of volumes, arrays `[depth, height, width]` and `[depth, height, width,
    /// channels]`, by the order of their axes; dense. All such arrays of a sample are cut alike, as
    /// with [`CubeMode::Patch`]. The whole volume is decoded. Arrays of other numbers of axes come
    /// whole.
    Volume {
        /// Planes, rows and columns, each at least 1.
        size: [u32; 3],
        /// Where: [`PatchPlace::Random`] or [`PatchPlace::Center`].
        place: PatchPlace,
    },
    /// The encoded bytes as stored, ragged.
    Raw,
}

impl CubeMode {
    /// Whether a part of the pixels is cut out.
    pub(crate) const fn is_cut(self) -> bool {
        matches!(self, Self::Patch { .. } | Self::Volume { .. })
    }
}

/// Element type of the pictures and arrays of a batch. No value of an array changes by it: where one
/// could, the batch is an error that names the sample. But bfloat16, and values that are normalised
/// ([`LoaderOptions::normalise`](crate::LoaderOptions::normalise)), are rounded: to nearest, ties to even. Pictures are uint8, or
/// float16, bfloat16 or float32 made of it ([`LoaderOptions::scaling`](crate::LoaderOptions::scaling)). Where only floats can come
/// out and no type is given, it is float32, or the own type of arrays that are floats.
///
/// ```
/// use shardpack_format::Dtype;
/// use shardpack_loader::{ArrayDtype, LoaderOptions};
/// // Cubes that are stored as float16 come as they are, at half the bytes of float32; their masks
/// // as indices of classes.
/// let fields = [("cube", Dtype::F16), ("mask", Dtype::I64)];
/// let dtype = ArrayDtype::Fields(fields.map(|(name, dtype)| (name.into(), dtype.into())).to_vec());
/// assert_ne!(LoaderOptions::default().dtype(dtype).output.dtype, ArrayDtype::default());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ArrayDtype {
    /// For each field the type of its source, float32 for float32. Where sources differ, a type
    /// that holds the values of all: float32 for uint16 and float32. Up to 64 samples, spread over
    /// the dataset, are looked at for that; one beyond them that does not fit is an error that
    /// names it.
    #[default]
    Source,
    /// This type for arrays of three axes, which are cubes, and for volumes that are cut
    /// ([`CubeMode::Volume`]), but for masks among these; [`ArrayDtype::Source`] for all others, such as
    /// masks of two axes. For pictures too, if there is a [`LoaderOptions::scaling`](crate::LoaderOptions::scaling).
    Cubes(ElementType),
    /// A type for each field that is named, [`ArrayDtype::Source`] for the others.
    Fields(Vec<(String, ElementType)>),
}

impl ArrayDtype {
    /// What is asked of a field of pictures: uint8, unless the field is named, or there is a scaling
    /// for it, which makes floats: float32.
    #[must_use]
    pub fn of_pictures(&self, field: &str, is_scaled: bool) -> ElementType {
        let unnamed = if is_scaled { Dtype::F32 } else { Dtype::U8 };
        match self {
            Self::Cubes(dtype) if is_scaled => *dtype,
            Self::Source | Self::Cubes(_) => unnamed.into(),
            Self::Fields(_) => self.of(field, 3).unwrap_or(unnamed.into()),
        }
    }

    /// What is asked of a field whose arrays have so many axes; `None` for the type of its source.
    #[must_use]
    pub fn of(&self, field: &str, axes: usize) -> Option<ElementType> {
        match self {
            Self::Source => None,
            Self::Cubes(dtype) => (axes == 3).then_some(*dtype),
            Self::Fields(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, dtype)| *dtype),
        }
    }
}

/// What becomes of a sample whose bytes are damaged, cannot be read though others of its file can
/// (a bad sector), are over the limits, or are not what the index says. An error of `Usage`, such as
/// a sample that is not what [`Align`](crate::Align) says, is never skipped.
///
/// ```
/// use shardpack_loader::{LoaderOptions, OnCorrupt};
/// let lenient = LoaderOptions::default().on_corrupt(OnCorrupt::Skip { max: 10 });
/// assert_ne!(lenient.output.on_corrupt, OnCorrupt::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnCorrupt {
    /// The batch that should hold it is an error that names it. The batches before and after it
    /// come as usual.
    #[default]
    Error,
    /// Its row is zero, its mask false, and it is counted.
    Skip {
        /// Most samples to skip in the life of the loader; the next one is an error.
        max: u64,
    },
}

/// Where the samples of the window of the order wait until their batch comes. What is loaded is the
/// same.
///
/// In windowed order, a rank reads from many runs at a time, 4 MiB each: up to 1 GiB of records,
/// divided by the number of ranks.
///
/// ```
/// use shardpack_loader::{LoaderOptions, Window};
/// assert_eq!(LoaderOptions::default().resources.window, Window::Auto);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Window {
    /// In the page cache, if records take at least 16 KiB on average and at most 1 MiB, the dataset
    /// is on a disk of this machine, and, at the start of the epoch, the page cache holds the
    /// dataset, as far as 64 places tell, or has room for four windows; else in memory. Once there,
    /// it stays there in later epochs.
    #[default]
    Auto,
    /// In memory of the loader: every run is read once, as a whole. Right for any disk and any
    /// network.
    Memory,
    /// In the page cache of the operating system, which is told to fetch the runs: records are read
    /// one by one when they are decoded. The process takes less memory; the system must have it, or
    /// it will read records twice, and slowly. For local disks.
    PageCache,
}

/// The words that the command and the Python package take: `auto`, `memory`, `page-cache`.
impl std::str::FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "memory" => Ok(Self::Memory),
            "page-cache" => Ok(Self::PageCache),
            _ => Err(Error::usage("window", "`auto`, `memory` or `page-cache`", format!("`{text}`"))),
        }
    }
}

impl From<View> for ImageMode {
    fn from(view: View) -> Self {
        Self::View(view)
    }
}
