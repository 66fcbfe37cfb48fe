//! Decoders and memory of one thread: used again for every field of every row.

use super::changes::Changes;
use crate::fields::CutOf;
use shardpack_array::ArrayDecoder;
use shardpack_format::Limits;
use shardpack_jpeg::PictureDecoder;

/// One thread's decoders and scratch memory.
pub(crate) struct Tools {
    pub(crate) arrays: ArrayDecoder,
    /// Decoded elements that are not finished.
    pub(crate) decoded: Vec<u8>,
    /// A whole volume, or a whole scene.
    pub(crate) whole: Vec<u8>,
    /// The window of the arrays of the row at hand, once it is known.
    pub(crate) window: Option<CutOf>,
    pub(crate) pictures: PictureDecoder,
    pub(crate) changes: Changes,
    /// Levels that floats are made of.
    pub(crate) levels: Vec<u8>,
    /// Of values that are no tensors.
    pub(crate) objects: ArrayDecoder,
}

impl Tools {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            arrays: ArrayDecoder::new(),
            decoded: Vec::new(),
            whole: Vec::new(),
            window: None,
            pictures: PictureDecoder::new(limits.clone()),
            changes: Changes::default(),
            levels: Vec::new(),
            objects: ArrayDecoder::new(),
        }
    }
}
