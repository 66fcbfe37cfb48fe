//! The groups of options. `group!` turns each declaration into a public field with its default, and into a
//! method of [`LoaderOptions`] that sets it. `docs/code.md`, "To add an option of the loader", lists the
//! other files to change.

use super::{
    Align, ArrayDtype, Augment, BatchMix, ClipLayout, CubeMode, FrameMode, ImageMode, LoaderOptions, NoData, OnCorrupt,
    PictureCrop, Transform, Window,
};
use crate::memory::{Allocate, Heap};
use crate::order::{End, Mode, Order, Sampling};
use crate::patches::{PatchClasses, Patches};
use crate::stage::Stage;
use shardpack_array::{Bands, Factors};
use shardpack_augment::{Augmentation, BandAugmentation};
use shardpack_jpeg::{PixelLayout, Scaling, View};
use std::sync::Arc;

/// Declares a group. Each option is `name: type = default;`. If its method takes a different type,
/// `set(argument: type) value` follows.
macro_rules! group {
    ($(#[$group_doc:meta])* $group:ident: $name:ident {
        $($(#[$doc:meta])* $option:ident: $type:ty = $default:expr $(, set($argument:ident: $taken:ty) $value:expr)?;)*
    }) => {
        $(#[$group_doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $($(#[$doc])* pub $option: $type,)*
        }

        impl $name {
            /// Names of the options.
            pub const NAMES: &[&str] = &[$(stringify!($option)),*];
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($option: $default,)* }
            }
        }

        impl<D> LoaderOptions<D> {
            $(group! { @set $(#[$doc])* $group $option $type $(, $argument: $taken => $value)? })*
        }
    };
    (@set $(#[$doc:meta])* $group:ident $option:ident $type:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $option(mut self, $option: $type) -> Self {
            self.$group.$option = $option;
            self
        }
    };
    (@set $(#[$doc:meta])* $group:ident $option:ident $type:ty, $argument:ident: $taken:ty => $value:expr) => {
        $(#[$doc])*
        #[must_use]
        pub fn $option(mut self, $argument: $taken) -> Self {
            self.$group.$option = $value;
            self
        }
    };
}

group! {
    /// Which samples to load, in which order, and which of them this rank gets.
    order: OrderOptions {
        /// Number of samples per batch of this rank. Default 32.
        batch_size: u32 = 32;
        /// Seed for the order and for random views, patches and rotations. Default 0.
        seed: u64 = 0;
        /// First epoch. Default 0.
        epoch: u32 = 0;
        /// Order of the samples. Default [`Mode::Windowed`].
        mode: Mode = Mode::default();
        /// Number of runs that [`Mode::Windowed`] mixes at a time, over all ranks, at least 1. See [`Order::lanes`].
        /// Default [`Order::LANES`].
        lanes: u64 = Order::LANES;
        /// Custom order, such as a subset or a weighted choice. It replaces `seed`, `mode` and `lanes`. A mixture
        /// refers to the parts of a `Dataset::concat`. The seed of this order also determines random views, patches
        /// and rotations, which are drawn for each sample and epoch, and separately for each repetition of a sample.
        /// Default none.
        sampling: Option<Arc<dyn Sampling>> = None, set(sampling: Arc<dyn Sampling>) Some(sampling);
        /// Index of this rank. Default 0.
        rank: u32 = 0;
        /// Number of ranks. Default 1.
        world_size: u32 = 1;
        /// Policy for the last samples of an epoch, which do not fill a batch on every rank. Default [`End::Drop`].
        end: End = End::default();
        /// Number of scenes that are open at once, over all ranks. Their patches are mixed, and the loader
        /// keeps the patches that are not delivered yet. The number affects the order. Default 0, which means
        /// 16, or 4 for grids.
        open_scenes: u32 = 0;
    }
}

group! {
    /// The part of each sample to load, and its random changes.
    view: ViewOptions {
        /// How pictures are loaded. Default: whole pictures, as pixels.
        image: ImageMode = ImageMode::View(View::whole()), set(view: impl Into<ImageMode>) view.into();
        /// Several crops of each picture, instead of [`image`](LoaderOptions::image). Each crop is a separate
        /// field with its own draws and augmentations
        /// ([`DrawKey::of_crop`](shardpack_jpeg::DrawKey::of_crop)). The picture is read once. It is also
        /// decoded once for all crops, unless decoding the crops one by one is faster. Default none.
        crops: Vec<PictureCrop> = Vec::new(),
            set(crops: impl IntoIterator<Item = impl Into<PictureCrop>>) crops.into_iter().map(Into::into).collect();
        /// Frames to load from clips, which are lists of pictures. A clip is loaded as
        /// `[time, height, width, 3]`, `[time, 3, height, width]` or `[3, time, height, width]`. Default: all
        /// frames.
        frames: FrameMode = FrameMode::All;
        /// How arrays are loaded. Default: whole arrays.
        cube: CubeMode = CubeMode::default();
        /// Number of patches to cut from each sample in an epoch. If there are several, the positions of an
        /// epoch (its length, order and states) count patches instead of samples. Each scene is read once for
        /// all of its patches, and the parts that they need are decoded once. Default: one.
        patches: Patches = Patches::One;
        /// Mask classes on which patches are placed, if several patches are cut from each sample. Default:
        /// patches may lie anywhere.
        patch_classes: PatchClasses = PatchClasses::Any;
        /// Bands of arrays with three axes, in the requested order. Every array of three axes must have these bands.
        /// Masks of two axes have none. Choosing bands saves decoding time only if the payload is band-major.
        /// Default: all.
        bands: Bands = Bands::All;
        /// Fields that follow the view of their picture: masks, boxes and keypoints. Default none.
        align: Vec<(String, Align)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Align)>) named(fields);
        /// Flips and rotations of arrays with two or three axes. Default none.
        augment: Augment = Augment::default();
        /// Augmentations for the bands of arrays with three axes, applied in this order after
        /// [`normalise`](LoaderOptions::normalise). They apply to all arrays loaded as float16, bfloat16 or
        /// float32, except masks, and are the same for all arrays of a sample. A device applies them at no
        /// extra cost. At most [`BandAugmentation::MOST`]. Default none.
        augment_bands: Vec<BandAugmentation> = Vec::new();
        /// Augmentations for decoded pictures, applied in this order to the levels, before they are converted
        /// to floats. The draws depend only on seed, epoch and sample. With a
        /// [`stage`](LoaderOptions::stage), the host decodes these pictures, and
        /// [`Loader::refusals`](crate::Loader::refusals) reports them. Default none.
        ///
        /// If no picture is decoded, a single `random_affine` or `random_rotation` moves arrays of two or three axes
        /// instead. All arrays of a sample get the same moves. Patches are moved after they are cut and before they
        /// are flipped and rotated, and each plane of a volume's box is moved separately. Masks, and integer arrays
        /// of two axes, use the nearest pixel. All others are loaded as float16, bfloat16 or float32 and interpolated
        /// between four pixels, after [`normalise`](LoaderOptions::normalise) and before noise. See
        /// [`Resampling`](shardpack_array::Resampling).
        augment_pictures: Vec<Augmentation> = Vec::new();
    }
}

group! {
    /// The fields of a batch, with their types and layout.
    output: OutputOptions {
        /// Names of the fields to load. Default: all scalars, images and arrays, except
        /// [`Dataset::varying_arrays`](crate::varying_arrays). Text, JSON and bytes cannot be batched,
        /// because the index does not contain their sizes.
        fields: Option<Vec<String>> = None,
            set(names: impl IntoIterator<Item = impl Into<String>>) Some(names.into_iter().map(Into::into).collect());
        /// Names of fields whose values are loaded one by one ([`Batch::objects`](crate::Batch::objects)): strings,
        /// JSON, bytes, and arrays whose length differs between samples, such as token ids. The values come from the
        /// same records as the other fields, but their memory is not part of the slots. Default none.
        objects: Vec<String> = Vec::new(),
            set(names: impl IntoIterator<Item = impl Into<String>>) names.into_iter().map(Into::into).collect();
        /// Axis order of pictures and of arrays with three axes. Default `[height, width, channels]`.
        layout: PixelLayout = PixelLayout::default();
        /// Position of the time axis in clips. Default: first, before the axes of [`layout`](LoaderOptions::layout).
        clip_layout: ClipLayout = ClipLayout::default();
        /// Element type of arrays. Default: the type of their source.
        dtype: ArrayDtype = ArrayDtype::default();
        /// Conversion of picture levels to floats, if [`dtype`](LoaderOptions::dtype) requests floats.
        /// Default `level / 255`.
        scaling: Option<Scaling> = None, set(scaling: Scaling) Some(scaling);
        /// Array fields to normalise and load as float16, bfloat16 or float32. Each field has one pair of
        /// factors for all bands, or one pair for each band of the stored array, from which
        /// [`bands`](LoaderOptions::bands) selects. Default none.
        normalise: Vec<(String, Factors)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Factors)>) named(fields);
        /// Value that replaces no-data after [`normalise`](LoaderOptions::normalise). With a
        /// [`stage`](LoaderOptions::stage), the host decodes the affected arrays, and
        /// [`Loader::refusals`](crate::Loader::refusals) reports them. Default: no-data is loaded like any
        /// other value.
        no_data: NoData = NoData::AsStored;
        /// Mixup and CutMix, which make labels soft, and mosaics. Default none.
        mix: Option<BatchMix> = None, set(mix: BatchMix) Some(mix);
        /// The caller's code that changes every row after all other changes. The code may be replaced between
        /// epochs, so the next epoch does not start early ([`Loader::set_epoch`](crate::Loader::set_epoch)).
        /// Not allowed with a [`stage`](LoaderOptions::stage). Default none.
        transform: Option<Arc<dyn Transform>> = None, set(transform: Arc<dyn Transform>) Some(transform);
        /// Policy for damaged samples. Default: an error.
        on_corrupt: OnCorrupt = OnCorrupt::default();
    }
}

group! {
    /// Threads, memory and device. These options do not affect the loaded values.
    resources: ResourceOptions {
        /// Number of threads that read and decode. Default 0, which means one per core that the process may use.
        threads: usize = 0;
        /// Number of batches in memory, at least 1. The caller uses one of them while the others are filled. Default
        /// 3 (see [`LoaderOptions::default_slots`]). With 1, no batch is prepared while the caller works.
        slots: usize = LoaderOptions::default_slots(false);
        /// Number of bytes that may be read ahead of the samples being decoded, in addition to the order's window.
        /// Default 32 MiB.
        read_ahead_bytes: u64 = 32 << 20;
        /// Approximate size of a part of a large record, in bytes. All threads together read, check and decode each
        /// record that has at least four parts of this size. Stored bytes, and arrays stored in the order of their
        /// shape, are decoded directly into their rows, with any conversion (patches, bands, other types, mean and
        /// std, rotations). If a [`stage`](LoaderOptions::stage) needs the stored bytes, they are read into its
        /// staging memory. The loaded values are the same in all cases. Default 1 MiB. With `usize::MAX`, one thread
        /// decodes each record.
        part_bytes: usize = 1 << 20;
        /// Where to keep the order's window. Default [`Window::Auto`].
        window: Window = Window::default();
        /// If true, the next epoch starts while the current one ends, once the caller has continued from one epoch to
        /// the next ([`Loader::set_epoch`](crate::Loader::set_epoch)). Set this to false in benchmarks, where epochs
        /// must not overlap. Default true.
        begins_ahead: bool = true;
        /// Maximum size of a batch in bytes. Default 8 GiB. Sizes come from the index, so this limits the
        /// memory that a hostile file can make the loader allocate.
        max_batch_bytes: u64 = 8 << 30;
        /// Allocator of batch memory. Default [`Heap`].
        memory: Arc<dyn Allocate> = Arc::new(Heap);
        /// Stage that decodes instead of the host wherever it can. All fields of a batch are then on its
        /// device. Default none.
        stage: Option<Arc<dyn Stage>> = None, set(stage: Arc<dyn Stage>) Some(stage);
        /// If true, the values of all fields that the stage accepts stay on its device. All samples of the
        /// dataset are read and checked once, when the loader opens. After that, they are read only for other
        /// fields. Values that are damaged, or that the device cannot decode, are read whenever a batch needs
        /// them. The content of batches is the same. Default false.
        resident: bool = false;
    }
}

fn named<T>(fields: impl IntoIterator<Item = (impl Into<String>, T)>) -> Vec<(String, T)> {
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
