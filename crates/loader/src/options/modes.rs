//! Types of individual options: how pictures and arrays are loaded, the element type, the policy for damage, and the
//! position of the window.

use crate::patches::PatchPlace;
use shardpack_format::{Dtype, ElementType};
use shardpack_jpeg::View;
use shardpack_reader::Error;

/// How pictures are loaded: as pixels, or as encoded bytes.
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
    /// Pixels, uint8. The field is dense if the view gives all pictures the same size. It is ragged for whole
    /// pictures and for other views whose size depends on the picture.
    View(View),
    /// Encoded bytes, as stored. The field is ragged.
    Raw,
}

/// How arrays (cubes, masks) are loaded: whole, in part, or as encoded bytes.
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
    /// The whole array. The field is dense if all samples have the same shape, and ragged otherwise.
    #[default]
    Whole,
    /// A rectangle of pixels from arrays `[height, width]` and `[height, width, channels]`. The field is dense, and
    /// only the blocks that the rectangle touches are decoded. All arrays of a sample with two or three axes, such as
    /// a cube and its mask, are cut at the same position, so they must have the same height and width. If an array is
    /// smaller than the patch, the batch is an error that names the sample. Arrays with any other number of axes are
    /// loaded whole.
    Patch {
        /// Number of rows, at least 1.
        height: u32,
        /// Number of columns, at least 1.
        width: u32,
        /// Where the patch is cut.
        place: PatchPlace,
    },
    /// A box of pixels from a volume. The field is dense. Volumes are arrays `[depth, height, width]` or `[depth,
    /// height, width, channels]`, with the axes in this order. All volumes of a sample are cut at the same position,
    /// as with [`CubeMode::Patch`]. The whole volume is decoded. Arrays with any other number of axes are loaded
    /// whole.
    Volume {
        /// Number of planes, rows and columns, each at least 1.
        size: [u32; 3],
        /// Where the box is cut: [`PatchPlace::Random`] or [`PatchPlace::Center`].
        place: PatchPlace,
    },
    /// Encoded bytes, as stored. The field is ragged.
    Raw,
}

impl CubeMode {
    pub(crate) const fn is_cut(self) -> bool {
        matches!(self, Self::Patch { .. } | Self::Volume { .. })
    }
}

/// Element type of the pictures and arrays of a batch. Conversion must not change any value of an array. If it would,
/// the batch is an error that names the sample. The exceptions are bfloat16 and normalised values
/// ([`LoaderOptions::normalise`](crate::LoaderOptions::normalise)), which are rounded to nearest, ties to even.
/// Pictures are uint8, or float16, bfloat16 or float32 values computed from uint8
/// ([`LoaderOptions::scaling`](crate::LoaderOptions::scaling)). If the output must be floats and no type is
/// requested, it is float32, but arrays of floats keep their stored type.
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
    /// The source type of each field. If the sources of a field differ, a type that can hold all their
    /// values, such as float32 for uint16 and float32. The choice is based on up to 64 samples spread over
    /// the dataset. Any other sample that does not fit the type is an error that names the sample.
    #[default]
    Source,
    /// One type for cubes (arrays of three axes) and for cut volumes ([`CubeMode::Volume`]), unless they are
    /// masks. It also applies to pictures if there is a
    /// [`LoaderOptions::scaling`](crate::LoaderOptions::scaling). All other arrays, such as masks of two
    /// axes, are loaded as with [`ArrayDtype::Source`].
    Cubes(ElementType),
    /// A type for each named field. All other fields are loaded as with [`ArrayDtype::Source`].
    Fields(Vec<(String, ElementType)>),
}

impl ArrayDtype {
    /// Returns the requested type of a picture field. Without a request for the field, returns float32 if the field
    /// is scaled to floats, and uint8 otherwise.
    #[must_use]
    pub fn of_pictures(&self, field: &str, is_scaled: bool) -> ElementType {
        let unnamed = if is_scaled { Dtype::F32 } else { Dtype::U8 };
        match self {
            Self::Cubes(dtype) if is_scaled => *dtype,
            Self::Source | Self::Cubes(_) => unnamed.into(),
            Self::Fields(_) => self.of(field, 3).unwrap_or(unnamed.into()),
        }
    }

    /// Returns the requested type of a field whose arrays have `axes` axes, or `None` if the field keeps the type of
    /// its source.
    #[must_use]
    pub fn of(&self, field: &str, axes: usize) -> Option<ElementType> {
        match self {
            Self::Source => None,
            Self::Cubes(dtype) => (axes == 3).then_some(*dtype),
            Self::Fields(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, dtype)| *dtype),
        }
    }
}

/// Policy for damaged samples. A sample counts as damaged if its bytes are damaged, exceed the limits or contradict
/// the index, or cannot be read from a file whose other samples can be read (a bad sector). A `Usage` error, such as
/// a sample that contradicts [`Align`](crate::Align), is never skipped.
///
/// ```
/// use shardpack_loader::{LoaderOptions, OnCorrupt};
/// let lenient = LoaderOptions::default().on_corrupt(OnCorrupt::Skip { max: 10 });
/// assert_ne!(lenient.output.on_corrupt, OnCorrupt::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnCorrupt {
    /// The sample's batch is an error that names the sample. Other batches are not affected.
    #[default]
    Error,
    /// The sample's row is zero, its mask is false, and the sample counts as skipped.
    Skip {
        /// Maximum number of samples that this loader skips. The next damaged sample is an error.
        max: u64,
    },
}

/// Where to keep the samples in the order's window until their batch is made. This option does not affect the loaded
/// values.
///
/// In windowed order, a rank reads from many runs of 4 MiB at a time. Together, all ranks keep up to 1 GiB of records.
///
/// ```
/// use shardpack_loader::{LoaderOptions, Window};
/// assert_eq!(LoaderOptions::default().resources.window, Window::Auto);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Window {
    /// Chooses the page cache if records average at least 16 KiB and none exceeds 1 MiB, the dataset is on a local
    /// disk or in a store's cache there, and at the start of the epoch the page cache has room for four windows or
    /// already contains the dataset, as 64 probes show. Otherwise chooses the loader's memory. If the page cache is
    /// chosen, later epochs use it too.
    #[default]
    Auto,
    /// The loader's memory. Every run is read once, as a whole. Suits any disk and any network.
    Memory,
    /// The operating system's page cache. The loader announces the runs, the system fetches them, and each
    /// record is read when it is decoded. The process uses less memory, but the system needs that memory
    /// instead. If there is not enough, records are read twice, and slowly. Only for local disks.
    PageCache,
}

/// Parses `auto`, `memory` or `page-cache`, as used by the command and the Python package.
impl std::str::FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "memory" => Ok(Self::Memory),
            "page-cache" => Ok(Self::PageCache),
            _ => Err(Error::usage(format!("window: expected `auto`, `memory` or `page-cache`, found `{text}`"))),
        }
    }
}

impl From<View> for ImageMode {
    fn from(view: View) -> Self {
        Self::View(view)
    }
}
