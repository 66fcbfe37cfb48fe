//! One row of a field, prepared for its batch.

use super::sharing::Identity;
use crate::cubes::StagedArray;
use crate::driver::{Arena, Block};
use crate::pictures::StagedPicture;
use std::ops::Range;

/// The source of a row of a field.
pub(super) enum PreparedRow {
    Picture(Box<StagedPicture>),
    /// With the array whose blocks it shares with other rows.
    Cube(Box<StagedArray>, Option<Identity>),
    /// Host-decoded row.
    Host(HostBytes),
    Zero,
}

/// Host-decoded bytes.
pub(super) enum HostBytes {
    /// In the staging memory.
    Staged(Range<usize>),
    /// In ordinary memory, because the staging memory had no room.
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
