//! A scene: the patches of one sample, decoded together out of a record that is read once. They wait
//! here until their batches come; each is then copied to its row, and its memory goes to the next
//! scene.

use super::objects::Object;
use super::patch::PatchAt;
use super::patches::PatchPlan;
use std::sync::{Arc, Mutex, PoisonError};

/// Which patches of a sample are wanted.
#[derive(Debug)]
pub(super) struct SceneRead {
    pub(super) sample: u64,
    pub(super) epoch: u32,
    /// Which draw of the sample it is, of several in an epoch.
    pub(super) repetition: u32,
    /// Numbers of the patches that this rank takes.
    pub(super) patches: Vec<u32>,
    /// Memory of each of them.
    pub(super) row_bytes: u64,
}

impl SceneRead {
    /// Memory that its patches take.
    pub(super) fn bytes(&self) -> u64 {
        self.row_bytes.saturating_mul(self.patches.len() as u64)
    }
}

/// The patches of a sample.
#[derive(Debug)]
pub(super) struct Scene {
    /// By number.
    pub(super) patches: Vec<Patch>,
    /// Of fields that are no patches, field by field: all patches share them.
    pub(super) shared: Vec<Vec<u8>>,
    /// Fields that the sample has no value for.
    pub(super) missing: Vec<u32>,
    pub(super) objects: Vec<Option<Object>>,
    pub(super) plan: Arc<PatchPlan>,
}

#[derive(Debug)]
pub(super) struct Patch {
    pub(super) number: u32,
    pub(super) at: Option<PatchAt>,
    /// Until it is handed on.
    pub(super) bytes: Mutex<Option<Vec<u8>>>,
}

impl Scene {
    /// Memory for a field of each patch.
    pub(super) fn outs(&mut self, number: usize) -> Vec<&mut [u8]> {
        let range = self.plan.parts.get(number).cloned().unwrap_or_default();
        let mut outs: Vec<&mut [u8]> = Vec::with_capacity(self.patches.len());
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
            outs.extend(bytes.as_mut().and_then(|bytes| bytes.get_mut(range.clone())));
        }
        outs
    }

    /// Notes where patches lie.
    pub(super) fn place(&mut self, places: Vec<PatchAt>) {
        for (patch, at) in self.patches.iter_mut().zip(places) {
            patch.at = Some(at);
        }
    }
}

impl Drop for Scene {
    /// Of an epoch that was broken off.
    fn drop(&mut self) {
        for patch in &mut self.patches {
            let bytes = patch.bytes.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            bytes.into_iter().for_each(|bytes| self.plan.give_back(bytes));
        }
    }
}
