//! A scene: the patches of one sample, decoded together out of a record that is read once. They wait
//! here until their batches come; each is then copied to its row, and its memory goes to the next
//! scene. Where patches would take at least as much memory as the scene, it waits as a whole. Where a
//! stage decodes them, the record waits as it is stored.

use super::whole_scene::WholeScene;
use crate::fields::Object;
use crate::patches::{PatchAt, PatchPlan};
use crate::stage::Memo;
use std::sync::{Arc, Mutex, PoisonError};

/// Which patches of a sample are wanted.
#[derive(Debug)]
pub(crate) struct SceneRead {
    pub(crate) sample: u64,
    pub(crate) epoch: u32,
    /// Which draw of the sample it is, of several in an epoch.
    pub(crate) repetition: u32,
    /// Numbers of the patches that this rank takes.
    pub(crate) patches: Vec<u32>,
    /// Memory of each of them.
    pub(crate) row_bytes: u64,
    /// Whether the record waits in place of them.
    pub(crate) is_stored: bool,
}

impl SceneRead {
    /// Memory that its patches take.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_bytes.saturating_mul(self.patches.len() as u64)
    }
}

/// The patches of a sample.
#[derive(Debug)]
pub(crate) struct Scene {
    /// By number.
    pub(crate) patches: Vec<ScenePatch>,
    /// Whether it waits as a whole: then patches have no memory of their own.
    pub(crate) is_whole: bool,
    pub(crate) content: SceneContent,
    pub(crate) plan: Arc<PatchPlan>,
}

/// What waits of a scene.
#[derive(Debug)]
pub(crate) enum SceneContent {
    /// The record, of which a stage decodes patches.
    Stored(SceneRecord),
    /// Field by field what was decoded, and values that are no tensors.
    Decoded { fields: Vec<SceneField>, objects: Vec<Option<Object>> },
}

/// What waits of a field.
#[derive(Debug)]
pub(crate) enum SceneField {
    /// The sample has no value.
    Missing,
    /// In the memory of each patch.
    Patches,
    Whole(WholeScene),
    /// One row for all patches.
    Shared(Vec<u8>),
    /// Nothing: it stands in the index.
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
    /// Perhaps longer than the record.
    bytes: Vec<u8>,
    length: usize,
    /// What the stage has noted, field by field.
    pub(crate) memos: Vec<Memo>,
}

impl SceneRecord {
    /// The first `length` bytes of `bytes`, with a memo for each field.
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
    /// First plane, row and column, if its mask decides.
    pub(crate) origin: Option<[u64; 3]>,
    /// Until it is handed on; nothing where scenes wait as a whole.
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

    /// Memory of what waits as a whole; `None` if patches have memory of their own.
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

    /// Notes where patches lie.
    pub(crate) fn place(&mut self, places: Vec<PatchAt>) {
        for (patch, at) in self.patches.iter_mut().zip(places) {
            patch.at = Some(at);
        }
    }
}

impl Drop for Scene {
    /// Of an epoch that was broken off; a record always.
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
