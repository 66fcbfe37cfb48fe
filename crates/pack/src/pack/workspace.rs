//! Memory that is reused for each sample.

use crate::encode::{ArrayWorkspace, FidelityTotals, PictureEncoder};

/// A thread's memory, reused for each sample because fresh pages cost more than used ones.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) picture: PictureEncoder,
    pub(super) file: Vec<u8>,
    pub(super) cube: ArrayWorkspace,
    /// Buffer for a cube that is read whole.
    pub(super) array: Vec<u8>,
    pub(super) mask: ArrayWorkspace,
}

/// Facts about a sample once its fields are in the record.
pub(super) struct SampleFigures {
    pub(super) totals: FidelityTotals,
    pub(super) oddity: Option<String>,
}
