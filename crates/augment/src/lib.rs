//! Augmentations of pictures, as torchvision v2 defines them for uint8 tensors. Results differ from torchvision's by at
//! most one level. Random choices depend only on the sample's key, and pixels `[height, width, 3]` are changed in
//! place. The crate also augments the bands of cubes ([`BandAugmentation`]).
//!
//! An [`Augmentation`] is an entry of a training recipe, such as TrivialAugmentWide. For each sample, it draws its
//! random choices and returns [`Operation`]s, which [`Operation::apply`] applies to a [`Picture`]. The crate does no
//! I/O and uses no threads: the loader calls it on a row that was just decoded.
//!
//! ```
//! use shardpack_augment::{Augmentation, Picture, ChangeScratch};
//! use shardpack_base::DrawKey;
//! let recipe: Augmentation = "trivial_augment_wide".parse()?;
//! let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
//! let mut pixels = vec![100; 32 * 48 * 3];
//! let mut picture = Picture::new(&mut pixels, 32, 48)?;
//! for operation in recipe.resolve(&draws, 0, 32, 48) {
//!     operation.apply(&mut picture, &mut ChangeScratch::default());
//! }
//! # Ok::<(), shardpack_format::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod affine;
mod augmentation;
mod bands;
mod blur;
mod color;
mod draw;
mod erase;
mod gamma;
mod hue;
mod mix;
mod mosaic;
mod noise;
mod operation;
mod parse;
mod picture;
mod sharpness;
mod space;
mod volume_affine;

pub use affine::{Affine, PixelMap};
pub use augmentation::{Augmentation, Jitter, Outside};
pub use bands::BandAugmentation;
pub use blur::blur_weights;
pub use gamma::Gamma;
pub use mix::{Mix, Mixed};
pub use mosaic::{Mosaic, MosaicPlan};
pub use noise::Noise;
pub use operation::Operation;
pub use parse::split;
pub use picture::{ChangeScratch, Picture};
pub use volume_affine::{VolumeAffine, VolumeMap};
