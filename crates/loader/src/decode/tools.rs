//! The decoders and scratch memory of one thread. They are reused for every field of every row.

use super::changes::Changes;
use super::crops::CropPixels;
use crate::fields::CutOf;
use shardpack_array::ArrayDecoder;
use shardpack_format::Limits;
use shardpack_jpeg::PictureDecoder;

pub(crate) struct Tools {
    pub(crate) arrays: ArrayDecoder,
    /// Decoded elements of an array before its `Finish` is applied.
    pub(crate) decoded: Vec<u8>,
    pub(crate) whole: Vec<u8>,
    /// Window that all arrays of the current row share, or `None` until the first array sets it.
    pub(crate) window: Option<CutOf>,
    pub(crate) pictures: PictureDecoder,
    pub(crate) crops: CropPixels,
    pub(crate) changes: Changes,
    pub(crate) levels: Vec<u8>,
    /// A frame of a clip before its planes are copied to the row.
    pub(crate) frame: Vec<u8>,
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
            crops: CropPixels::default(),
            changes: Changes::default(),
            levels: Vec::new(),
            frame: Vec::new(),
            objects: ArrayDecoder::new(),
        }
    }
}
