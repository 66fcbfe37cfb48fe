//! Compares decoded samples with their sources, to weigh fidelity against size.
//!
//! While encoding, packing measures only a few figures ([`Fidelity`](shardpack_array::Fidelity), and a score
//! for pictures). `docs/report.md` has the definitions and their sources.

mod array;
mod decibels;
mod noise;
mod picture;
mod ssim;

pub use array::{ArrayDifference, BandDifferences, DifferenceOptions, PixelAngle, SpectralAngles, compare_arrays};
pub use noise::{band_noise, noise_bytes};
pub use picture::{PictureDifference, PictureReference, ReferencePixels};
pub use ssim::mean_ssim;
