//! An array as stored in a shard, before decoding.

use shardpack_format::{ArrayDescriptor, Codec};

#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedArray<'a> {
    pub(crate) codec: Codec,
    pub(crate) descriptor: &'a ArrayDescriptor,
    pub(crate) payload: &'a [u8],
}
