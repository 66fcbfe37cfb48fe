//! Decodes cubes and all other arrays from stored payloads (spec §4 and §5) to the values of a batch.
//!
//! The host parses a payload and checks every number in it ([`PreparedArray`]). Compressed bytes are uploaded to the
//! device unchanged, and only once. There, kernels decode the requested region in two steps. First, LZ4 streams, zstd
//! frames and bit planes become bytes. Then bytes become values: the kernels apply band differences, transforms,
//! reserved codes, and the conversion to the type and order of the output. Parts of plain zstd arrays are an
//! exception: the host decodes their frames into the slot.
//!
//! The values are bit-identical to the result of [`ArrayDecoder`](shardpack_array::ArrayDecoder) followed by
//! [`Finish::apply`](shardpack_array::Finish::apply).

mod affine;
mod ask;
mod blocks;
mod fault;
mod kept;
mod kernels;
mod payload;
mod place;
mod places;
mod prepared;
mod put;
mod scratch;
mod staged;
#[cfg(test)]
pub(crate) mod tests;
mod view;
mod volume;
mod wire;
mod work;

pub(crate) use blocks::Most;
pub(crate) use fault::Fault;
pub(crate) use kept::keep;
pub(crate) use kernels::SOURCE;
pub(crate) use payload::KeptPayload;
pub(crate) use place::{CONSTANT_BYTES, write_constants};
pub(crate) use places::BlockPlaces;
pub(crate) use prepared::{AfterDecoding, PreparedArray, is_taken_as_stored, known, takes};
pub(crate) use scratch::most_scratch_bytes;
pub(crate) use staged::StagedArray;
pub(crate) use work::{CubeWork, GAPS, MOST_CUBES, assemble};
