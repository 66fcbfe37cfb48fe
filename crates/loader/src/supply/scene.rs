//! A scene: the patches of one sample. Its record is read once, its patches are decoded together, and they
//! stay in memory until their batches are filled. The scene is kept whole instead if that does not take more
//! memory. If a stage decodes the patches, the stored record is kept instead.

use super::whole_scene::WholeScene;
use crate::fields::Object;
use crate::patches::{PatchAt, PatchPlan};
use crate::stage::Memo;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct SceneRead {
    pub(crate) sample: u64,
    pub(crate) epoch: u32,
    /// Distinguishes repeated draws of a sample in an epoch.
    pub(crate) repetition: u32,
    /// Indices of the patches that this rank needs.
    pub(crate) patches: Vec<u32>,
    /// Size of a patch in bytes.
    pub(crate) row_bytes: u64,
    /// True if the stored record is kept instead of the patches.
    pub(crate) is_stored: bool,
}

impl SceneRead {
    pub(crate) fn bytes(&self) -> u64 {
        self.row_bytes.saturating_mul(self.patches.len() as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    /// The patches, in ascending order of their indices.
    pub(crate) patches: Vec<ScenePatch>,
    /// True if the scene is kept whole. Its patches then have no memory of their own.
    pub(crate) is_whole: bool,
    pub(crate) content: SceneContent,
    pub(crate) plan: Arc<PatchPlan>,
}

#[derive(Debug)]
pub(crate) enum SceneContent {
    /// The record. A stage decodes patches from it.
    Stored(SceneRecord),
    /// Decoded fields, and values that are not tensors.
    Decoded { fields: Vec<SceneField>, objects: Vec<Option<Object>> },
}

#[derive(Debug)]
pub(crate) enum SceneField {
    Missing,
    /// Each patch has its own memory, which contains the value.
    Patches,
    Whole(WholeScene),
    /// One row that all patches share.
    Shared(Vec<u8>),
    /// The field is not part of the scene. Rows read its value from the index.
    FromIndex,
}

impl Default for SceneContent {
    fn default() -> Self {
        Self::Decoded { fields: Vec::new(), objects: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct SceneRecord {
    /// The record's buffer, which may be longer than the record.
    bytes: Vec<u8>,
    length: usize,
    /// The stage's notes, one for each field.
    pub(crate) memos: Vec<Memo>,
}

impl SceneRecord {
    /// Creates a record from the first `length` bytes of `bytes`, with a memo for each field.
    pub(crate) const fn new(bytes: Vec<u8>, length: usize, memos: Vec<Memo>) -> Self {
        Self { bytes, length, memos }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(crate) struct ScenePatch {
    pub(crate) number: u32,
    pub(crate) at: Option<PatchAt>,
    /// First plane, row and column of the patch, if the sample's mask determines them.
    pub(crate) origin: Option<[u64; 3]>,
    /// Bytes of the patch until they are copied to its row, or `None` if the scene is kept whole.
    pub(crate) bytes: Mutex<Option<Vec<u8>>>,
}

impl Scene {
    /// Returns the memory for field `number` of each patch.
    pub(crate) fn outs(&mut self, number: usize) -> Vec<&mut [u8]> {
        let range = self.plan.parts.get(number).cloned().unwrap_or_default();
        let mut outs: Vec<&mut [u8]> = Vec::with_capacity(self.patches.len());
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
            outs.extend(bytes.as_mut().and_then(|bytes| bytes.get_mut(range.clone())));
        }
        outs
    }

    /// Returns the number of bytes of a scene that is kept whole, or `None` if patches have their own memory.
    pub(crate) fn held_bytes(&self) -> Option<u64> {
        let bytes = match &self.content {
            SceneContent::Stored(record) => record.bytes.len() as u64,
            SceneContent::Decoded { fields, .. } => {
                let whole = fields.iter().map(|field| if let SceneField::Whole(all) = field { all.bytes() } else { 0 });
                whole.fold(0, u64::saturating_add)
            }
        };
        self.is_whole.then_some(bytes)
    }

    pub(crate) fn place(&mut self, places: Vec<PatchAt>) {
        for (patch, at) in self.patches.iter_mut().zip(places) {
            patch.at = Some(at);
        }
    }
}

impl Drop for Scene {
    /// Recycles the memory of the record, and of patches that were never used because their epoch was interrupted.
    fn drop(&mut self) {
        if let SceneContent::Stored(record) = &mut self.content {
            self.plan.give_back_scene(std::mem::take(&mut record.bytes));
        }
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            bytes.into_iter().for_each(|bytes| self.plan.give_back(bytes));
        }
    }
}
