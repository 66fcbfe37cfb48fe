//! What goes from sample to sample, and from the fields of a sample to its record.

use crate::encode::{ArrayWorkspace, PictureEncoder, Tally};

/// What a thread works with, reused from sample to sample: fresh pages cost more than used ones.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) picture: PictureEncoder,
    /// A picture file.
    pub(super) file: Vec<u8>,
    pub(super) cube: ArrayWorkspace,
    /// An earlier cube that was read as a whole.
    pub(super) array: Vec<u8>,
    pub(super) mask: ArrayWorkspace,
}

/// What is known of a sample once its fields are in the record.
pub(super) struct SampleFigures {
    pub(super) tally: Tally,
    pub(super) oddity: Option<String>,
}
