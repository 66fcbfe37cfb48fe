//! Cubes and all other arrays, from stored payloads (spec §4 and §5) to the values of a batch.
//!
//! The host walks a payload and checks every number in it ([`PreparedArray`]); compressed bytes go to the
//! device once, unchanged. There, kernels decode LZ4 streams and zstd frames, turn bit planes to
//! byte planes, and make values from bytes: differences along the bands, transforms, reserved codes, the type
//! and the order of the output. They decode only the requested region of each array. Plain zstd, whose frames
//! are too long for that, is decoded by the host into the slot.
//!
//! The values equal the values of [`ArrayDecoder`](shardpack_array::ArrayDecoder) after
//! [`Finish::apply`](shardpack_array::Finish::apply), to the bit.

mod ask;
mod blocks;
mod fault;
mod kept;
mod kernels;
mod payload;
mod place;
mod places;
mod prepared;
mod scratch;
mod staged;
#[cfg(test)]
pub(crate) mod tests;
mod wire;
mod work;

pub(crate) use blocks::Most;
pub(crate) use fault::Fault;
pub(crate) use kept::keep;
pub(crate) use kernels::SOURCE;
pub(crate) use payload::KeptPayload;
pub(crate) use place::{CONSTANT_BYTES, write_constants};
pub(crate) use places::BlockPlaces;
pub(crate) use prepared::{PreparedArray, is_taken_as_stored, known, takes};
pub(crate) use scratch::most_scratch_bytes;
pub(crate) use staged::StagedArray;
pub(crate) use work::{CubeWork, GAPS, MOST_CUBES, assemble};
