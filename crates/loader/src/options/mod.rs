//! What a caller may choose.

mod align;
mod augment;
mod frames;
mod mix;
mod no_data;
mod parse;
mod picture_view;
mod transform;

pub use align::{Align, BoxFormat};
pub use augment::Augment;
pub use frames::FrameMode;
pub use mix::BatchMix;
pub use no_data::NoData;
pub use parse::{Augments, parse_augment, parse_bands, parse_mixes};
pub use transform::{Transform, TransformField, TransformRow};

use crate::memory::{Allocate, Heap};
use crate::order::{End, Mode, Order, Sampling};
use crate::patches::{PatchClasses, Patches, Place};
use crate::stage::{Keeper, Stage};
use shardpack_array::{Bands, Factors};
use shardpack_augment::{Augmentation, BandAugmentation};
use shardpack_format::{Dtype, ElementType};
use shardpack_jpeg::{DecodeOptions, PixelLayout, Scaling, View};
use shardpack_reader::{Error, Result};
use std::sync::Arc;

/// What a batch holds of the pictures.
///
/// ```
/// use shardpack_loader::View;
/// use shardpack_loader::{ImageMode, LoaderOptions};
/// let evaluate = ImageMode::View(View::center_crop(256, 224, 224));
/// assert_ne!(LoaderOptions::default().image, evaluate);
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
/// use shardpack_loader::{Bands, CubeMode, LoaderOptions, Place};
/// // Batches [32, 64, 64, 40] of patches that are drawn anew in each epoch.
/// let train = LoaderOptions {
///     cube: CubeMode::Patch { height: 64, width: 64, place: Place::Random },
///     bands: Bands::Range(10..50),
///     ..Default::default()
/// };
/// assert_ne!(train.cube, CubeMode::default());
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
        place: Place,
    },
    /// A box of pixels of volumes, arrays `[depth, height, width]` and `[depth, height, width,
    /// channels]`, by the order of their axes; dense. All such arrays of a sample are cut alike, as
    /// with [`CubeMode::Patch`]. The whole volume is decoded. Arrays of other numbers of axes come
    /// whole.
    Volume {
        /// Planes, rows and columns, each at least 1.
        size: [u32; 3],
        /// Where: [`Place::Random`] or [`Place::Center`].
        place: Place,
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
/// ([`LoaderOptions::normalise`]), are rounded: to nearest, ties to even. Pictures are uint8, or
/// float16, bfloat16 or float32 made of it ([`LoaderOptions::scaling`]). Where only floats can come
/// out and no type is given, it is float32, or the own type of arrays that are floats.
///
/// ```
/// use shardpack_format::Dtype;
/// use shardpack_loader::{ArrayDtype, LoaderOptions};
/// // Cubes that are stored as float16 come as they are, at half the bytes of float32; their masks
/// // as indices of classes.
/// let fields = [("cube", Dtype::F16), ("mask", Dtype::I64)];
/// let dtype = ArrayDtype::Fields(fields.map(|(name, dtype)| (name.into(), dtype.into())).to_vec());
/// assert_ne!(LoaderOptions { dtype, ..Default::default() }.dtype, ArrayDtype::default());
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
    /// masks of two axes. For pictures too, if there is a [`LoaderOptions::scaling`].
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
/// a sample that is not what [`Align`] says, is never skipped.
///
/// ```
/// use shardpack_loader::{LoaderOptions, OnCorrupt};
/// let lenient = LoaderOptions { on_corrupt: OnCorrupt::Skip { max: 10 }, ..Default::default() };
/// assert_ne!(lenient.on_corrupt, OnCorrupt::default());
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
/// assert_eq!(LoaderOptions::default().window, Window::Auto);
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

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "memory" => Ok(Self::Memory),
            "page-cache" => Ok(Self::PageCache),
            _ => Err(Error::usage("window", "`auto`, `memory` or `page-cache`", format!("`{text}`"))),
        }
    }
}

/// How a loader works. Every field has a default; `LoaderOptions::default()` loads whole pictures
/// and cubes in windowed order, 32 at a time.
///
/// ```
/// use shardpack_loader::View;
/// use shardpack_loader::{ImageMode, LoaderOptions};
/// let train = LoaderOptions {
///     batch_size: 256,
///     seed: 42,
///     image: ImageMode::View(View::random_resized_crop(224, 224).with_flip(0.5)),
///     ..Default::default()
/// };
/// assert_eq!((train.slots, train.world_size), (3, 1));
/// ```
#[derive(Debug, Clone)]
pub struct LoaderOptions {
    /// Samples in a batch of this rank. Default 32.
    pub batch_size: u32,
    /// Seed of the order, of random views, patches and turns. Default 0.
    pub seed: u64,
    /// First epoch. Default 0.
    pub epoch: u32,
    /// Order of the samples. Default [`Mode::Windowed`].
    pub mode: Mode,
    /// Runs that [`Mode::Windowed`] mixes at a time, over all ranks together, at least 1; see
    /// [`Order::lanes`]. Default [`Order::LANES`].
    pub lanes: u64,
    /// An order of your own (a subset, weights), in place of `seed`, `mode` and `lanes`. A
    /// mixture is one of the parts of a dataset made by `Dataset::concat`. Random views, patches
    /// and turns draw from its seed, for each sample and epoch, and anew each time where a sample stands in
    /// an epoch more than once. Default none.
    pub sampling: Option<Arc<dyn Sampling>>,
    /// This rank, from 0. Default 0.
    pub rank: u32,
    /// Number of ranks. Default 1.
    pub world_size: u32,
    /// What becomes of samples that fill no whole batch on every rank. Default [`End::Drop`].
    pub end: End,
    /// Pictures. Default: whole, as pixels.
    pub image: ImageMode,
    /// Frames of clips: of fields whose values are lists of pictures, which come as `[time, height,
    /// width, 3]`, or `[time, 3, height, width]`. Default: all.
    pub frames: FrameMode,
    /// Arrays. Default: whole.
    pub cube: CubeMode,
    /// How many patches of each sample an epoch has; with several, positions of the epoch are patches:
    /// in its length, its order, its states. A scene is read, and what is needed of it decoded, once
    /// for all of them. Default: one.
    pub patches: Patches,
    /// Which classes of the mask several patches of a sample show. Default: whatever is at a random
    /// place.
    pub patch_classes: PatchClasses,
    /// Scenes whose patches are mixed, over all ranks together: so many are open at once, and the
    /// loader holds what is left of their patches. Part of the order. Default 0: 16, and 4 for
    /// grids.
    pub open_scenes: u32,
    /// Bands of arrays of three axes, in the order asked for; masks of two axes have none to choose
    /// from. Every such array must have them. Cheap where the payload is band-major, and of no help
    /// to decoding where pixels are stored one after the other. Default: all.
    pub bands: Bands,
    /// Order of the axes of pictures and of arrays of three axes. Default
    /// `[height, width, channels]`.
    pub layout: PixelLayout,
    /// Element type of arrays. Default: that of their source.
    pub dtype: ArrayDtype,
    /// Names of the fields to load. Default: all scalars, images and arrays but
    /// [`Dataset::varying_arrays`](crate::varying_arrays). Text, JSON and bytes are not
    /// batched: their sizes are not in the index.
    pub fields: Option<Vec<String>>,
    /// Names of fields whose values come one by one ([`Batch::objects`](crate::Batch::objects)):
    /// texts, JSON, bytes, and arrays whose length differs from sample to sample, such as token ids.
    /// They are taken out of the records with all else; their memory is not part of the slots.
    /// Default none.
    pub objects: Vec<String>,
    /// Fields that follow the view of their picture: masks, boxes, keypoints. Default none.
    pub align: Vec<(String, Align)>,
    /// Threads that read and decode. Default 0: one for each core that the process may use.
    pub threads: usize,
    /// Batches in memory: one in the caller's hands, the others being filled. At least 1, default
    /// 3, see [`LoaderOptions::default_slots`]; with 1, nothing is prepared while the caller works.
    pub slots: usize,
    /// Bytes that may be read ahead of the samples being decoded, besides the window of the order.
    /// Default 32 MiB.
    pub read_ahead_bytes: u64,
    /// Bytes of a part of a large record, about: records of four parts and more are read, checked
    /// and decoded in parts, by all threads together, straight into their rows, where their values
    /// can be (stored bytes, and arrays in the order of their shape, with whatever is made of them:
    /// patches, bands, other types, mean and std, turns); or into staging memory of a
    /// [`stage`](Self::stage), where that wants them as they are stored. What is loaded is the
    /// same. Default 1 MiB; `usize::MAX` leaves each record to one thread.
    pub part_bytes: usize,
    /// Where the window of the order is held. Default [`Window::Auto`].
    pub window: Window,
    /// Whether the loader begins the next epoch while this one ends, once the caller has gone on from
    /// one to the next ([`Loader::set_epoch`](crate::Loader::set_epoch)). Without it, epochs that are
    /// measured have nothing in common. Default yes.
    pub begins_ahead: bool,
    /// Largest batch. Default 8 GiB. Sizes come from the index of the files, so this bounds what a
    /// hostile one can make the loader allocate.
    pub max_batch_bytes: u64,
    /// Damaged samples. Default: an error.
    pub on_corrupt: OnCorrupt,
    /// How pictures are decoded: DCT scaling, lenience. Its limits are replaced by those of the
    /// dataset.
    pub decode: DecodeOptions,
    /// Where the memory of batches comes from. Default [`Heap`].
    pub memory: Arc<dyn Allocate>,
    /// How floats are made of the levels of pictures, where [`dtype`](Self::dtype) makes them
    /// floats. Default `level / 255`.
    pub scaling: Option<Scaling>,
    /// Fields of arrays whose values are normalised, which come as float16, bfloat16 or float32; one
    /// pair of factors for all bands, or one for each band of the array, of which
    /// [`bands`](Self::bands) take their own. Default: none.
    pub normalise: Vec<(String, Factors)>,
    /// What comes in the place of no-data, after [`normalise`](Self::normalise). With a
    /// [`stage`](Self::stage), the host decodes such arrays, and says so
    /// ([`Loader::refusals`](crate::Loader::refusals)). Default: it is a value like any other.
    pub no_data: NoData,
    /// How arrays of two and three axes are flipped and turned. Default: not.
    pub augment: Augment,
    /// How the bands of arrays of three axes are changed at random, in this order, after
    /// [`normalise`](Self::normalise): of all that come as float16, bfloat16 or float32 but masks,
    /// and of a sample alike. On a device too, at no cost. At most
    /// [`BandAugmentation::MOST`]. Default: not.
    pub augment_bands: Vec<BandAugmentation>,
    /// What is done to decoded pictures, in this order, on their levels before floats are made of
    /// them. It draws from seed, epoch and sample alone. With a [`stage`](Self::stage), the host
    /// decodes the pictures then, and says so ([`Loader::refusals`](crate::Loader::refusals)).
    /// Default: nothing.
    pub augment_pictures: Vec<Augmentation>,
    /// Mixup and CutMix, with soft labels. Default none.
    pub mix: Option<BatchMix>,
    /// Code of the caller's that changes every row after all else. It may be changed between two
    /// epochs: none is begun ahead ([`Loader::set_epoch`](crate::Loader::set_epoch)). Not with a
    /// [`stage`](Self::stage). Default none.
    pub transform: Option<Arc<dyn Transform>>,
    /// What decodes instead of the host, where it can: then all fields of a batch are on its
    /// device. Default none.
    pub stage: Option<Arc<dyn Stage>>,
    /// Whether the values of the fields that the stage takes stay on its device: all samples of the
    /// dataset are read and checked once, when the loader opens, and no record is read later but
    /// those of fields that the stage does not take. What is not for the device, or damaged, is read
    /// whenever a batch needs it. Batches are the same. Default false.
    pub resident: bool,
}

impl LoaderOptions {
    /// What takes the values that stay on the device, if they do: then the stage is one that knows
    /// of them.
    ///
    /// # Errors
    /// `Usage` if there is no device for them.
    pub(crate) fn keeper(&mut self) -> Result<Option<Arc<dyn Keeper>>> {
        if !self.resident {
            return Ok(None);
        }
        let keeping = self.stage.as_ref().and_then(|stage| stage.keeping()).ok_or_else(|| {
            let found = if self.stage.is_some() { "one that cannot keep them" } else { "none: the host decodes" };
            Error::usage("values that stay on a device (`resident`)", "a device that decodes", found)
        })?;
        self.stage = Some(keeping.stage);
        Ok(Some(keeping.keeper))
    }

    /// How many slots are right for most: on a device one more, because a batch is under way there
    /// while others are filled.
    #[must_use]
    pub const fn default_slots(on_device: bool) -> usize {
        if on_device { 4 } else { 3 }
    }
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            batch_size: 32,
            seed: 0,
            epoch: 0,
            mode: Mode::default(),
            lanes: Order::LANES,
            sampling: None,
            rank: 0,
            world_size: 1,
            end: End::default(),
            image: ImageMode::View(View::whole()),
            frames: FrameMode::All,
            cube: CubeMode::default(),
            patches: Patches::One,
            patch_classes: PatchClasses::Any,
            open_scenes: 0,
            bands: Bands::All,
            layout: PixelLayout::default(),
            dtype: ArrayDtype::default(),
            fields: None,
            objects: Vec::new(),
            align: Vec::new(),
            threads: 0,
            slots: Self::default_slots(false),
            read_ahead_bytes: 32 << 20,
            part_bytes: 1 << 20,
            begins_ahead: true,
            window: Window::default(),
            max_batch_bytes: 8 << 30,
            on_corrupt: OnCorrupt::default(),
            decode: DecodeOptions::default(),
            memory: Arc::new(Heap),
            scaling: None,
            normalise: Vec::new(),
            no_data: NoData::AsStored,
            augment: Augment::default(),
            augment_bands: Vec::new(),
            augment_pictures: Vec::new(),
            mix: None,
            transform: None,
            stage: None,
            resident: false,
        }
    }
}

impl LoaderOptions {
    /// How a field follows its picture, if it does.
    pub(crate) fn aligned(&self, field: &str) -> Option<&Align> {
        self.align.iter().find(|(name, _)| name == field).map(|(_, align)| align)
    }

    /// Whether a field is aligned and no tensor.
    pub(crate) fn is_aligned_object(&self, field: &str) -> bool {
        self.aligned(field).is_some_and(|align| !matches!(align, Align::Mask { .. }))
    }
}
