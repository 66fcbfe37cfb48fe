//! Decoded scenes that are kept whole because separate patches would not take less memory.

use crate::patches::PatchPlan;
use shardpack_array::Finish;
use shardpack_base::parts::part;
use shardpack_format::{Dtype, Layout, Result, bug, to_usize};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct WholeScene {
    pub(crate) bytes: Vec<u8>,
    pub(crate) dtype: Dtype,
    /// Rows, columns and bands.
    pub(crate) shape: [u64; 3],
    pub(crate) layout: Layout,
    pub(crate) patches: Vec<PatchWindow>,
    pub(crate) plan: Arc<PatchPlan>,
}

#[derive(Debug)]
pub(crate) struct PatchWindow {
    pub(crate) rows: Range<u64>,
    pub(crate) columns: Range<u64>,
    pub(crate) finish: Finish,
}

impl WholeScene {
    pub(crate) fn cut(&self, place: usize, out: &mut [u8]) -> Result<()> {
        let Some(PatchWindow { rows, columns, finish }) = self.patches.get(place) else {
            bug("a patch does not belong to its scene")
        };
        let window = [rows.clone(), columns.clone()];
        let length = to_usize(self.dtype.array_bytes(&self.shape)?);
        let elements = part(&self.bytes, 0..length, "elements in a scene")?;
        finish.apply_to_window(self.dtype, self.shape, self.layout, window, elements, out)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Drop for WholeScene {
    fn drop(&mut self) {
        self.plan.give_back_scene(std::mem::take(&mut self.bytes));
    }
}
