//! A scene: the patches of one sample, decoded together from a record that is read once, and held
//! until their batches come. If patches would take as much memory as the scene, it is kept as a
//! whole. If a stage decodes the patches, the stored record is kept.

use super::whole_scene::WholeScene;
use crate::fields::Object;
use crate::patches::{PatchAt, PatchPlan};
use crate::stage::Memo;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct SceneRead {
    pub(crate) sample: u64,
    pub(crate) epoch: u32,
    /// Number of the draw, if an epoch draws the sample several times.
    pub(crate) repetition: u32,
    /// Numbers of the patches that this rank takes.
    pub(crate) patches: Vec<u32>,
    /// Memory of each patch, in bytes.
    pub(crate) row_bytes: u64,
    /// The record is kept in place of the patches.
    pub(crate) is_stored: bool,
}

impl SceneRead {
    /// Memory of its patches, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_bytes.saturating_mul(self.patches.len() as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    /// Patches, in the order of their numbers.
    pub(crate) patches: Vec<ScenePatch>,
    /// The scene is kept as a whole: patches have no memory of their own.
    pub(crate) is_whole: bool,
    pub(crate) content: SceneContent,
    pub(crate) plan: Arc<PatchPlan>,
}

#[derive(Debug)]
pub(crate) enum SceneContent {
    /// The record, for a stage that decodes patches.
    Stored(SceneRecord),
    /// Decoded fields, and values that are not tensors.
    Decoded { fields: Vec<SceneField>, objects: Vec<Option<Object>> },
}

#[derive(Debug)]
pub(crate) enum SceneField {
    Missing,
    /// Stored in the memory of each patch.
    Patches,
    Whole(WholeScene),
    /// One row for all patches.
    Shared(Vec<u8>),
    /// Nothing: rows take the value from the index.
    FromIndex,
}

impl Default for SceneContent {
    fn default() -> Self {
        Self::Decoded { fields: Vec::new(), objects: Vec::new() }
    }
}

/// A record that was read and checked.
#[derive(Debug)]
pub(crate) struct SceneRecord {
    /// May be longer than the record.
    bytes: Vec<u8>,
    length: usize,
    /// Notes of the stage, one for each field.
    pub(crate) memos: Vec<Memo>,
}

impl SceneRecord {
    /// A record in the first `length` bytes of `bytes`, with a memo for each field.
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
    /// First plane, row and column, if its mask determines them.
    pub(crate) origin: Option<[u64; 3]>,
    /// Its memory, until it is handed on; `None` if the scene is kept as a whole.
    pub(crate) bytes: Mutex<Option<Vec<u8>>>,
}

impl Scene {
    /// Memory for a field of each patch.
    pub(crate) fn outs(&mut self, number: usize) -> Vec<&mut [u8]> {
        let range = self.plan.parts.get(number).cloned().unwrap_or_default();
        let mut outs: Vec<&mut [u8]> = Vec::with_capacity(self.patches.len());
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
            outs.extend(bytes.as_mut().and_then(|bytes| bytes.get_mut(range.clone())));
        }
        outs
    }

    /// Memory of a scene that is kept as a whole; `None` if patches have memory of their own.
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
    /// Reuses the memory of unused patches of an interrupted epoch, and of a record.
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
