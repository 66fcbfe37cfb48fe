//! Holds the buffers and encoders that a packing thread reuses for every sample.

use crate::encode::{ArrayWorkspace, FidelityTotals, PictureEncoder};

/// Buffers and encoders of one thread. They are reused for every sample, because touching new memory pages
/// takes longer than reusing old ones.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) picture: PictureEncoder,
    pub(super) file: Vec<u8>,
    pub(super) cube: ArrayWorkspace,
    /// Buffer for a cube that is read whole.
    pub(super) array: Vec<u8>,
    pub(super) mask: ArrayWorkspace,
}

/// Figures of an encoded sample, and the oddity of its picture, if any.
pub(super) struct SampleFigures {
    pub(super) totals: FidelityTotals,
    pub(super) oddity: Option<String>,
}
