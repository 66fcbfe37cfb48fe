//! Prepares an epoch: its order, this rank's share, and the memory for its window.

use super::held::Held;
use super::predict::Predicted;
use crate::fields::Fields;
use crate::options::Window;
use crate::order::{End, OrderState, Sampling, Share, Steps, World};
use shardpack_reader::{Dataset, Result};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Epochs {
    pub(crate) sampling: Arc<dyn Sampling>,
    pub(crate) world: World,
    pub(crate) end: End,
    pub(crate) dataset: Dataset,
    pub(crate) fields: Arc<Fields>,
    pub(crate) window: Window,
    pub(crate) predicted: Predicted,
    /// True if values stay on a device and no window is kept in memory.
    pub(crate) is_resident: bool,
}

/// An epoch that is ready to begin, or the rest of an epoch after a restored state.
#[derive(Debug)]
pub(crate) struct EpochStart {
    pub(crate) start: OrderState,
    pub(crate) steps: Steps,
    /// A second copy of the steps, used to find the scenes that are decoded ahead of the batches.
    pub(crate) ahead: Option<Steps>,
    pub(crate) held: Held,
}

impl Epochs {
    /// Prepares an epoch. `before` says where the previous epoch's window was kept. The place is checked again,
    /// because the dataset may have entered or left the page cache since then.
    pub(crate) fn begin(&self, start: &OrderState, before: Option<Held>) -> Result<EpochStart> {
        let steps = self.steps(start)?;
        let are_scenes = self.fields.patches.is_some() && !self.is_resident;
        let ahead = are_scenes.then(|| self.steps(start)).transpose()?;
        let decide = || Held::of(self.window, &self.dataset, &self.fields, &self.predicted);
        let held = if self.is_resident { Held::ALONE } else { decide() };
        Ok(EpochStart { start: *start, steps, ahead, held: before.map_or(held, |before| before.then(held)) })
    }

    pub(crate) fn steps(&self, start: &OrderState) -> Result<Steps> {
        let epoch = self.sampling.epoch_of(start)?;
        let share = Share::new(self.world, self.end, &*epoch, start);
        Ok(Steps::new(epoch, share))
    }
}
