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
    /// Of fields that are cut the whole arrays, field by field; empty if patches have memory of their
    /// own.
    pub(crate) held: Vec<Option<WholeScene>>,
    /// The record, of which a stage decodes patches; then nothing else is here.
    pub(crate) record: Option<SceneRecord>,
    /// Of fields that are no patches, field by field: all patches share them.
    pub(crate) shared: Vec<Vec<u8>>,
    /// Fields that the sample has no value for.
    pub(crate) missing: Vec<u32>,
    pub(crate) objects: Vec<Option<Object>>,
    pub(crate) plan: Arc<PatchPlan>,
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
    /// The first `length` bytes of `bytes`, with a memo for each of `fields` fields.
    pub(crate) fn new(bytes: Vec<u8>, length: usize, fields: usize, patches: usize) -> Self {
        Self { bytes, length, memos: (0..fields).map(|_| Memo::new(patches as u64)).collect() }
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
        if let Some(record) = &self.record {
            return Some(record.bytes.len() as u64);
        }
        let bytes = |held: &Option<WholeScene>| held.as_ref().map_or(0, WholeScene::bytes);
        (!self.held.is_empty()).then(|| self.held.iter().map(bytes).fold(0, u64::saturating_add))
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
        if let Some(record) = self.record.take() {
            self.plan.give_back_scene(record.bytes);
        }
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            bytes.into_iter().for_each(|bytes| self.plan.give_back(bytes));
        }
    }
}
