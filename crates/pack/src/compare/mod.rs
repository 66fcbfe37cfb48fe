//! The difference of decoded samples and their sources, for comparing fidelity with bytes.
//!
//! Packing measures its own figures while it encodes ([`Fidelity`](shardpack_array::Fidelity), and a score for
//! pictures). This module compares any two pictures or arrays afterwards, with more figures. `docs/report.md` has the
//! definitions and their sources.

mod array;
mod decibels;
mod noise;
mod picture;
mod ssim;

pub use array::{ArrayDifference, BandDifferences, DifferenceOptions, PixelAngle, SpectralAngles, compare_arrays};
pub use noise::{band_noise, noise_bytes};
pub use picture::{PictureDifference, PictureReference, ReferencePixels};
pub use ssim::mean_ssim;
