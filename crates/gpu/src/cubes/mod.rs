//! Cubes and all other arrays, from stored payloads (spec §4 and §5) to the values of a batch.
//!
//! The host walks a payload and checks every number in it ([`PreparedArray`]). Compressed bytes go to the
//! device unchanged, once. There, kernels decode the requested region: LZ4 streams, zstd frames and bit
//! planes become bytes, and bytes become values by band differences, transforms, reserved codes, and
//! conversion to the output's type and order. The host itself decodes plain zstd into the slot, because its
//! frames are too long for the device.
//!
//! The values are bit-equal to [`ArrayDecoder`](shardpack_array::ArrayDecoder) followed by
//! [`Finish::apply`](shardpack_array::Finish::apply).

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
