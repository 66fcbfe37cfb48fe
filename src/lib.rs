//! Pack images and hyperspectral cubes into shards, once; feed a GPU from them, every epoch.
//!
//! ```no_run
//! use ndarray::ArrayView4;
//! use shardpack::{Dataset, View};
//!
//! fn main() -> Result<(), shardpack::Error> {
//!     let dataset = Dataset::open("train")?;
//!     let mut loader = dataset
//!         .loader()
//!         .batch_size(256)
//!         .image(View::random_resized_crop(224).with_flip(0.5))
//!         .fields(["image", "label"])
//!         .open()?;
//!     for epoch in 0..90 {
//!         for batch in loader.epoch(epoch) {
//!             let batch = batch?;
//!             let images: ArrayView4<u8> = batch.array("image")?;
//!             let labels: &[i64] = batch.slice("label")?;
//!             step(images, labels);
//!         }
//!     }
//!     Ok(())
//! }
//! # fn step(_: ArrayView4<u8>, _: &[i64]) {}
//! ```
//!
//! - [`pack`] packs a folder into a dataset; [`verify`] checks every byte of a dataset; [`report`] shows the cost of
//!   a lossy choice before you make it.
//! - [`Dataset::create`] lets a program write a dataset sample by sample.
//! - [`Dataset`] opens a dataset in a folder or, with the feature `store`, behind a URL, and gives access to samples
//!   by number and by key.
//! - [`CudaStage`] decodes batches on an NVIDIA GPU.
//! - [`LoaderOptions`] lists the options of a loader: its order, its view, its output, its resources.
//! - [`tutorial`] walks from a folder of files to a training loop: packing, writing from a program, a GPU, a store.
//!
//! Features: `cli` provides the command `shardpack`; `store` reads and writes object stores; `hdf5` reads HDF5. Your
//! program does not need `cli`, and needs `store` only for object stores:
//! `shardpack = { version = "0.1", default-features = false }`.
//!
//! Decoding is slow in a build without optimisation. Add these lines to your `Cargo.toml`:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

#[cfg(feature = "cli")]
pub mod cli;
mod dataset;
#[doc(hidden)]
pub mod explain;
mod limits;
mod packing;
#[doc(hidden)]
pub mod place;
mod recipe;
mod report;
mod sniff;
mod verify;

/// A tutorial from a folder of files to a training loop.
#[doc = include_str!("../docs/rust/tutorial.md")]
pub mod tutorial {}

pub use dataset::Dataset;
pub use limits::{MAX_RECORD_BYTES, read_limits};
pub use packing::pack;
#[doc(hidden)]
pub use recipe::{RecipeOptions, recipe_options};
pub use report::{Reported, report};
pub use verify::{Checked, Checks, check, verify};

pub use ndarray;
pub use place::Settings;
pub use shardpack_format::{Dtype, ElementType, ErrorKind, Explain};
pub use shardpack_gpu::{CudaStage, GpuError};
pub use shardpack_loader::order;
pub use shardpack_loader::{
    Align, Array, ArrayDtype, Augment, Augmentation, BandAugmentation, Bands, Batch, BatchMix, Batches, BoxFormat,
    ClipLayout, CubeMode, Element, Factors, FrameMode, ImageMode, Interpolation, Loader, LoaderOptions, Mix, NoData,
    OnCorrupt, OrderOptions, OutputOptions, PatchClasses, PatchPlace, Patches, PictureCrop, PixelLayout,
    ResourceOptions, Scaling, Tensor, Transform, TransformRow, View, ViewOptions, ViewSize, Window,
};
pub use shardpack_pack::collect::{self, CollectOptions, Collector};
pub use shardpack_pack::options::ReportArguments;
pub use shardpack_pack::pack::{PackOptions, PackReport};
pub use shardpack_pack::{Error, Result};
pub use shardpack_reader::{DatasetOptions, Limits, Problem, Sample, Scalar, VerifyReport};
pub use shardpack_recipe::{OptionValue, PictureOptions};
