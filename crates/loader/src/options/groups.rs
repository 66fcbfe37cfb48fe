//! The groups of options. `group!` makes of each declaration a public field with its default, and a
//! method of [`LoaderOptions`] that sets it. `docs/code.md`, "To add an option of the loader", lists the other files of
//! a new option.

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

/// Declares a group: `name: type = default;`, where the method takes another type with
/// `set(argument: type) value`.
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
            /// The names of the options.
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
    /// Which samples come, in which order, and which of them on this rank.
    order: OrderOptions {
        /// Samples in a batch of this rank. Default 32.
        batch_size: u32 = 32;
        /// Seed of the order, of random views, patches and turns. Default 0.
        seed: u64 = 0;
        /// First epoch. Default 0.
        epoch: u32 = 0;
        /// Order of the samples. Default [`Mode::Windowed`].
        mode: Mode = Mode::default();
        /// Runs that [`Mode::Windowed`] mixes at a time, over all ranks together, at least 1; see
        /// [`Order::lanes`]. Default [`Order::LANES`].
        lanes: u64 = Order::LANES;
        /// An order of your own (a subset, weights), in place of `seed`, `mode` and `lanes`. A
        /// mixture is one of the parts of a dataset made by `Dataset::concat`. Random views, patches
        /// and turns draw from its seed, for each sample and epoch, and anew each time where a sample stands in
        /// an epoch more than once. Default none.
        sampling: Option<Arc<dyn Sampling>> = None, set(sampling: Arc<dyn Sampling>) Some(sampling);
        /// This rank, from 0. Default 0.
        rank: u32 = 0;
        /// Number of ranks. Default 1.
        world_size: u32 = 1;
        /// What becomes of samples that fill no whole batch on every rank. Default [`End::Drop`].
        end: End = End::default();
        /// Scenes whose patches are mixed, over all ranks together: so many are open at once, and the
        /// loader holds what is left of their patches. Part of the order. Default 0: 16, and 4 for
        /// grids.
        open_scenes: u32 = 0;
    }
}

group! {
    /// The part of each sample that comes, and how it is changed at random.
    view: ViewOptions {
        /// Pictures. Default: whole, as pixels.
        image: ImageMode = ImageMode::View(View::whole()), set(view: impl Into<ImageMode>) view.into();
        /// Frames of clips: of fields whose values are lists of pictures, which come as `[time, height,
        /// width, 3]`, or `[time, 3, height, width]`. Default: all.
        frames: FrameMode = FrameMode::All;
        /// Arrays. Default: whole.
        cube: CubeMode = CubeMode::default();
        /// How many patches of each sample an epoch has; with several, positions of the epoch are patches:
        /// in its length, its order, its states. A scene is read, and what is needed of it decoded, once
        /// for all of them. Default: one.
        patches: Patches = Patches::One;
        /// Which classes of the mask several patches of a sample show. Default: whatever is at a random
        /// place.
        patch_classes: PatchClasses = PatchClasses::Any;
        /// Bands of arrays of three axes, in the order asked for; masks of two axes have none to choose
        /// from. Every such array must have them. Cheap where the payload is band-major, and of no help
        /// to decoding where pixels are stored one after the other. Default: all.
        bands: Bands = Bands::All;
        /// Fields that follow the view of their picture: masks, boxes, keypoints. Default none.
        align: Vec<(String, Align)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Align)>) named(fields);
        /// How arrays of two and three axes are flipped and turned. Default: not.
        augment: Augment = Augment::default();
        /// How the bands of arrays of three axes are changed at random, in this order, after
        /// [`normalise`](LoaderOptions::normalise): of all that come as float16, bfloat16 or float32 but masks,
        /// and of a sample alike. On a device too, at no cost. At most
        /// [`BandAugmentation::MOST`]. Default: not.
        augment_bands: Vec<BandAugmentation> = Vec::new();
        /// What is done to decoded pictures, in this order, on their levels before floats are made of
        /// them. It draws from seed, epoch and sample alone. With a [`stage`](LoaderOptions::stage), the host
        /// decodes the pictures then, and says so ([`Loader::refusals`](crate::Loader::refusals)).
        /// Default: nothing.
        augment_pictures: Vec<Augmentation> = Vec::new();
    }
}

group! {
    /// The fields of a batch: which there are, and of which type and layout.
    output: OutputOptions {
        /// Names of the fields to load. Default: all scalars, images and arrays but
        /// [`Dataset::varying_arrays`](crate::varying_arrays). Text, JSON and bytes are not
        /// batched: their sizes are not in the index.
        fields: Option<Vec<String>> = None,
            set(names: impl IntoIterator<Item = impl Into<String>>) Some(names.into_iter().map(Into::into).collect());
        /// Names of fields whose values come one by one ([`Batch::objects`](crate::Batch::objects)):
        /// texts, JSON, bytes, and arrays whose length differs from sample to sample, such as token ids.
        /// They are taken out of the records with all else; their memory is not part of the slots.
        /// Default none.
        objects: Vec<String> = Vec::new(),
            set(names: impl IntoIterator<Item = impl Into<String>>) names.into_iter().map(Into::into).collect();
        /// Order of the axes of pictures and of arrays of three axes. Default
        /// `[height, width, channels]`.
        layout: PixelLayout = PixelLayout::default();
        /// Element type of arrays. Default: that of their source.
        dtype: ArrayDtype = ArrayDtype::default();
        /// How floats are made of the levels of pictures, where [`dtype`](LoaderOptions::dtype) makes them
        /// floats. Default `level / 255`.
        scaling: Option<Scaling> = None, set(scaling: Scaling) Some(scaling);
        /// Fields of arrays whose values are normalised, which come as float16, bfloat16 or float32; one
        /// pair of factors for all bands, or one for each band of the array, of which
        /// [`bands`](LoaderOptions::bands) take their own. Default: none.
        normalise: Vec<(String, Factors)> = Vec::new(),
            set(fields: impl IntoIterator<Item = (impl Into<String>, Factors)>) named(fields);
        /// What comes in the place of no-data, after [`normalise`](LoaderOptions::normalise). With a
        /// [`stage`](LoaderOptions::stage), the host decodes such arrays, and says so
        /// ([`Loader::refusals`](crate::Loader::refusals)). Default: it is a value like any other.
        no_data: NoData = NoData::AsStored;
        /// Mixup and CutMix, with soft labels. Default none.
        mix: Option<BatchMix> = None, set(mix: BatchMix) Some(mix);
        /// Code of the caller's that changes every row after all else. It may be changed between two
        /// epochs: none is begun ahead ([`Loader::set_epoch`](crate::Loader::set_epoch)). Not with a
        /// [`stage`](LoaderOptions::stage). Default none.
        transform: Option<Arc<dyn Transform>> = None, set(transform: Arc<dyn Transform>) Some(transform);
        /// Damaged samples. Default: an error.
        on_corrupt: OnCorrupt = OnCorrupt::default();
    }
}

group! {
    /// Threads, memory and device. Batches are the same with any of them.
    resources: ResourceOptions {
        /// Threads that read and decode. Default 0: one for each core that the process may use.
        threads: usize = 0;
        /// Batches in memory: one in the caller's hands, the others being filled. At least 1, default
        /// 3, see [`LoaderOptions::default_slots`]; with 1, nothing is prepared while the caller works.
        slots: usize = LoaderOptions::default_slots(false);
        /// Bytes that may be read ahead of the samples being decoded, besides the window of the order.
        /// Default 32 MiB.
        read_ahead_bytes: u64 = 32 << 20;
        /// Bytes of a part of a large record, about: records of four parts and more are read, checked
        /// and decoded in parts, by all threads together, straight into their rows, where their values
        /// can be (stored bytes, and arrays in the order of their shape, with whatever is made of them:
        /// patches, bands, other types, mean and std, turns); or into staging memory of a
        /// [`stage`](LoaderOptions::stage), where that wants them as they are stored. What is loaded is the
        /// same. Default 1 MiB; `usize::MAX` leaves each record to one thread.
        part_bytes: usize = 1 << 20;
        /// Where the window of the order is held. Default [`Window::Auto`].
        window: Window = Window::default();
        /// Whether the loader begins the next epoch while this one ends, once the caller has gone on from
        /// one to the next ([`Loader::set_epoch`](crate::Loader::set_epoch)). Without it, epochs that are
        /// measured have nothing in common. Default yes.
        begins_ahead: bool = true;
        /// Largest batch. Default 8 GiB. Sizes come from the index of the files, so this bounds what a
        /// hostile one can make the loader allocate.
        max_batch_bytes: u64 = 8 << 30;
        /// Where the memory of batches comes from. Default [`Heap`].
        memory: Arc<dyn Allocate> = Arc::new(Heap);
        /// What decodes instead of the host, where it can: then all fields of a batch are on its
        /// device. Default none.
        stage: Option<Arc<dyn Stage>> = None, set(stage: Arc<dyn Stage>) Some(stage);
        /// Whether the values of the fields that the stage takes stay on its device: all samples of the
        /// dataset are read and checked once, when the loader opens, and no record is read later but
        /// those of fields that the stage does not take. What is not for the device, or damaged, is read
        /// whenever a batch needs it. Batches are the same. Default false.
        resident: bool = false;
    }
}

fn named<T>(fields: impl IntoIterator<Item = (impl Into<String>, T)>) -> Vec<(String, T)> {
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
