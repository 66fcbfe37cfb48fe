//! The value of one field in one row, prepared for upload with its batch.

use super::sharing::Identity;
use crate::cubes::StagedArray;
use crate::driver::{Arena, Block};
use crate::pictures::{StagedLevels, StagedPicture};
use std::ops::Range;

pub(super) enum PreparedRow {
    /// A picture, or the frames of a clip. The two numbers are the field and the row of the picture that provides the
    /// samples. All later crops of a picture use the samples of its first crop. Any other picture uses its own.
    Pictures(Vec<StagedPicture>, (u32, u32)),
    /// A cube, and the identity of its array if it shares the blocks of the array with other rows.
    Cube(Box<StagedArray>, Option<Identity>),
    /// Levels of a picture that the host has decoded.
    Levels(StagedLevels),
    Host(HostBytes),
    Zero,
}

pub(super) enum HostBytes {
    Staged(Range<usize>),
    /// Bytes in ordinary memory, because the staging memory is full.
    Heap(Vec<u8>),
}

impl HostBytes {
    pub(super) fn copy<M: Block>(arena: &Arena<M>, bytes: &[u8]) -> Self {
        match arena.claim_back(bytes.len()) {
            Some(claim) => {
                claim.bytes.copy_from_slice(bytes);
                Self::Staged(claim.range())
            }
            None => Self::Heap(bytes.to_vec()),
        }
    }
}
