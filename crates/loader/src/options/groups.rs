//! The groups of options. `group!` turns each declaration into a public field with its default, and a method
//! of [`LoaderOptions`] that sets it. `docs/code.md`, "To add an option of the loader", lists the other files
//! to change.

use super::{
    Align, ArrayDtype, Augment, BatchMix, CubeMode, FrameMode, ImageMode, LoaderOptions, NoData, OnCorrupt, Transform,
    Window,
};
use crate::memory::{Allocate, Heap};
use crate::order::{End, Mode, Order, Sampling};
use crate::patches::{PatchClasses, Patches};
use crate::stage::Stage;
use shardpack_array::{Bands, Factors};
use shardpack_augment::{Augmentation, BandAugmentation};
use shardpack_jpeg::{PixelLayout, Scaling, View};
use std::sync::Arc;

/// Declares a group: `name: type = default;`, with `set(argument: type) value` if the method takes a different type.
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
    /// Choice and order of the samples, and this rank's share.
    order: OrderOptions {
        /// Samples per batch of this rank. Default 32.
        batch_size: u32 = 32;
        /// Seed of the order and of random views, patches and turns. Default 0.
        seed: u64 = 0;
        /// First epoch. Default 0.
        epoch: u32 = 0;
        /// Order of the samples. Default [`Mode::Windowed`].
        mode: Mode = Mode::default();
        /// Number of runs that [`Mode::Windowed`] mixes at a time, over all ranks, at least 1; see
        /// [`Order::lanes`]. Default [`Order::LANES`].
        lanes: u64 = Order::LANES;
        /// Custom order (a subset, weights) instead of `seed`, `mode` and `lanes`. A mixture refers to the
        /// parts of a `Dataset::concat`. Random views, patches and turns draw from its seed for each sample
        /// and epoch, and separately for each repetition of a sample. Default none.
        sampling: Option<Arc<dyn Sampling>> = None, set(sampling: Arc<dyn Sampling>) Some(sampling);
        /// This rank, from 0. Default 0.
        rank: u32 = 0;
        /// Number of ranks. Default 1.
        world_size: u32 = 1;
        /// How to treat samples that do not fill a whole batch on every rank. Default [`End::Drop`].
        end: End = End::default();
        /// Number of scenes open at once, over all ranks. Their patches are mixed, and the loader holds those
        /// not yet handed out. Part of the order. Default 0 means 16, or 4 for grids.
        open_scenes: u32 = 0;
    }
}

group! {
    /// The part of each sample that is loaded, and its random changes.
    view: ViewOptions {
        /// Form of pictures. Default: whole, as pixels.
        image: ImageMode = ImageMode::View(View::whole()), set(view: impl Into<ImageMode>) view.into();
        /// Frames of clips, which are lists of pictures. A clip is loaded as `[time, height, width, 3]` or
        /// `[time, 3, height, width]`. Default: all.
        frames: FrameMode = FrameMode::All;
        /// Form of arrays. Default: whole.
        cube: CubeMode = CubeMode::default();
        /// Patches per sample in an epoch. If there are several, the positions of an epoch (its length, order
        /// and states) count patches instead of samples. A scene is read, and its needed parts decoded, once
        /// for all of its patches. Default: one.
        patches: Patches = Patches::One;
        /// Mask classes that patches are placed on, with several patches per sample. Default: patches lie anywhere.
        patch_classes: PatchClasses = PatchClasses::Any;
        /// Bands of arrays with three axes, in the requested order; masks of two axes have none. Every such
        /// array must have these bands. Saves decoding only if the payload is band-major. Default: all.
        bands: Bands = Bands::All;
        /// Fields that follow the view of their picture: masks, boxes, keypoints. Default none.
        align: Vec<(String, Align)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Align)>) named(fields);
        /// Flips and turns of arrays with two or three axes. Default none.
        augment: Augment = Augment::default();
        /// Augmentations of the bands of arrays with three axes, in this order, after
        /// [`normalise`](LoaderOptions::normalise). They apply to all arrays loaded as float16, bfloat16 or
        /// float32 except masks, alike for all arrays of a sample, and also on a device, at no cost. At most
        /// [`BandAugmentation::MOST`]. Default none.
        augment_bands: Vec<BandAugmentation> = Vec::new();
        /// Augmentations of decoded pictures, in this order, on their levels before floats are computed. The
        /// draws depend only on seed, epoch and sample. With a [`stage`](LoaderOptions::stage), the host
        /// decodes these pictures, and [`Loader::refusals`](crate::Loader::refusals) reports them. Default
        /// none.
        augment_pictures: Vec<Augmentation> = Vec::new();
    }
}

group! {
    /// The fields of a batch, their types and layout.
    output: OutputOptions {
        /// Names of the fields to load. Default: all scalars, images and arrays except
        /// [`Dataset::varying_arrays`](crate::varying_arrays). Text, JSON and bytes are not batched, because
        /// the index lacks their sizes.
        fields: Option<Vec<String>> = None,
            set(names: impl IntoIterator<Item = impl Into<String>>) Some(names.into_iter().map(Into::into).collect());
        /// Names of fields whose values are loaded one by one ([`Batch::objects`](crate::Batch::objects)):
        /// texts, JSON, bytes, and arrays whose length differs between samples, such as token ids. They come
        /// from the same records as the other fields; their memory is not part of the slots. Default none.
        objects: Vec<String> = Vec::new(),
            set(names: impl IntoIterator<Item = impl Into<String>>) names.into_iter().map(Into::into).collect();
        /// Axis order of pictures and of arrays with three axes. Default `[height, width, channels]`.
        layout: PixelLayout = PixelLayout::default();
        /// Element type of arrays. Default: their source's type.
        dtype: ArrayDtype = ArrayDtype::default();
        /// Conversion of picture levels to floats, if [`dtype`](LoaderOptions::dtype) requests floats.
        /// Default `level / 255`.
        scaling: Option<Scaling> = None, set(scaling: Scaling) Some(scaling);
        /// Array fields to normalise and load as float16, bfloat16 or float32, with one pair of factors for
        /// all bands, or one for each band of the array, from which [`bands`](LoaderOptions::bands) select.
        /// Default none.
        normalise: Vec<(String, Factors)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Factors)>) named(fields);
        /// Replacement for no-data, after [`normalise`](LoaderOptions::normalise). With a
        /// [`stage`](LoaderOptions::stage), the host decodes such arrays, and
        /// [`Loader::refusals`](crate::Loader::refusals) reports them. Default: no-data is a value like any
        /// other.
        no_data: NoData = NoData::AsStored;
        /// Mixup and CutMix, with soft labels. Default none.
        mix: Option<BatchMix> = None, set(mix: BatchMix) Some(mix);
        /// Caller code that changes every row after all other changes. It may be replaced between two epochs,
        /// so the next epoch is not started ahead ([`Loader::set_epoch`](crate::Loader::set_epoch)). Not
        /// allowed with a [`stage`](LoaderOptions::stage). Default none.
        transform: Option<Arc<dyn Transform>> = None, set(transform: Arc<dyn Transform>) Some(transform);
        /// How to treat damaged samples. Default: an error.
        on_corrupt: OnCorrupt = OnCorrupt::default();
    }
}

group! {
    /// Threads, memory and device. They do not affect the content of batches.
    resources: ResourceOptions {
        /// Threads that read and decode. Default 0 means one per core that the process may use.
        threads: usize = 0;
        /// Batches in memory: the caller holds one while the others are filled. At least 1; default 3, see
        /// [`LoaderOptions::default_slots`]. With 1, no batch is prepared while the caller works.
        slots: usize = LoaderOptions::default_slots(false);
        /// Bytes that may be read ahead of the samples being decoded, besides the window of the order. Default 32 MiB.
        read_ahead_bytes: u64 = 32 << 20;
        /// Approximate bytes of a part of a large record. All threads together read, check and decode records
        /// of four or more parts, straight into their rows, if their values allow it (stored bytes, and
        /// arrays in the order of their shape, with any conversion: patches, bands, other types, mean and
        /// std, turns); or into staging memory of a [`stage`](LoaderOptions::stage) that needs the stored
        /// bytes. The loaded values are the same. Default 1 MiB; `usize::MAX` leaves each record to one
        /// thread.
        part_bytes: usize = 1 << 20;
        /// Where the window of the order is kept. Default [`Window::Auto`].
        window: Window = Window::default();
        /// Starts the next epoch while the current one ends, once the caller has continued from one to the
        /// next ([`Loader::set_epoch`](crate::Loader::set_epoch)). Set to false for measurements, so that
        /// epochs do not overlap. Default true.
        begins_ahead: bool = true;
        /// Maximum bytes of a batch. Default 8 GiB. Sizes come from the index of the files, so this limits
        /// the allocations that a hostile index can cause.
        max_batch_bytes: u64 = 8 << 30;
        /// Allocator of batch memory. Default [`Heap`].
        memory: Arc<dyn Allocate> = Arc::new(Heap);
        /// Stage that decodes instead of the host, where it can; then all fields of a batch are on its
        /// device. Default none.
        stage: Option<Arc<dyn Stage>> = None, set(stage: Arc<dyn Stage>) Some(stage);
        /// Keeps the values of fields that the stage accepts on its device. All samples of the dataset are
        /// read and checked once, when the loader opens, and later only for other fields. Values that are
        /// damaged, or that the device cannot decode, are read whenever a batch needs them. Batches are the
        /// same. Default false.
        resident: bool = false;
    }
}

fn named<T>(fields: impl IntoIterator<Item = (impl Into<String>, T)>) -> Vec<(String, T)> {
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
