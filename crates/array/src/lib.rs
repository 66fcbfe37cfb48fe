//! Encodes arrays as bytes and decodes them, on the CPU.
//!
//! This crate covers every step between the values of an array and the bytes of a shard (spec §4 and §5): a value
//! transform, the axis order and band difference, and a codec. It is independent of files and shards.
//!
//! - [`ArrayOptions`] are the user's options. [`trial`] turns them into [`ArraySettings`], and [`ArrayEncoder`] applies
//!   these settings to an [`Array`] or to data in a file ([`ArraySource`]).
//! - [`ArrayDecoder`] needs only the payload, its codec and its descriptor. For a [`Region`] it decodes only the blocks
//!   that the region touches. An [`ArraySplit`] lets several threads decode one large array.
//! - A [`Finish`] converts decoded elements to batch elements: it changes the float type, normalises the bands, and
//!   flips or rotates the pixels.
//! - [`encode_bytes`] and [`decode_bytes`] handle text and JSON.
//! - [`blosc2`] exposes the parser of Blosc2 chunks to programs that have their own decoder.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod angles;
mod arrange;
mod array;
mod block;
pub mod blosc2;
mod bytes;
mod codecs;
mod coded;
mod cost;
mod decoder;
mod element;
mod elements;
mod encoder;
mod error;
mod exact;
mod fidelity;
mod filter;
mod finish;
mod floats;
mod halves;
mod options;
mod region;
mod settings;
mod source;
mod split;
mod sums;
mod trial;
mod turn;
mod units;
mod values;
mod volume_warp;
mod wanted;
mod warp;
mod zstd_frame;

pub use angles::Angles;
pub use array::Array;
pub use bytes::{UNIT_BYTES, ZstdDecoder, decode_bytes, encode_bytes};
pub use codecs::{Coder, Units};
pub use decoder::ArrayDecoder;
pub use encoder::{ArrayEncoder, EncodedArray, StoredArray};
pub use error::{EncodeError, EncodeResult};
pub use exact::{common_dtype, decoded_as};
pub use fidelity::{F16_MIN_NORMAL, Fidelity};
pub use filter::Filter;
pub use finish::{
    As, Factors, Fill, Finish, NoDataBits, Origins, OutputRow, change_runs, element_bytes, integer_bytes,
};
pub use floats::floats_of;
pub use options::{ArrayOptions, BandDifference, Prefer, Values};
pub use region::{Bands, Region, RegionDecoded, RegionShape, Voxels};
pub use settings::{ArrayLayout, ArraySettings, ValueRule};
pub use source::ArraySource;
pub use split::{ArraySplit, Ends, SplitPart};
pub use trial::{Candidate, MAX_TRIAL_SAMPLES, Trial, crop_for_trial, trial};
pub use turn::Turn;
pub use units::reserved_values;
pub use volume_warp::{VolumeShape, VolumeWarp};
pub use wanted::Wanted;
pub use warp::{Resampling, Warp};
