//! Decodes the stored elements of a region to values and writes them to the output.

use super::plan::{BandSet, RegionPlan};
use crate::arrange::Arrangement;
use crate::finish::Target;
use crate::values::{To, ValueScratch, Values, is_as_stored};
use shardpack_format::{ArrayDescriptor, Layout, Result, Transform};

impl RegionPlan<'_> {
    /// True if the stored elements are the output itself: they have the right order, and need
    /// neither a conversion nor a check.
    pub(crate) fn is_output(&self, descriptor: &ArrayDescriptor) -> bool {
        self.same_order() && is_as_stored(descriptor)
    }

    pub(crate) fn values(
        &self,
        descriptor: &ArrayDescriptor,
        target: Target,
        stored: &[u8],
        scratch: &mut ValueScratch,
        out: &mut [u8],
    ) -> Result<()> {
        let (layout, difference) = (descriptor.layout, descriptor.band_difference);
        let stored_as = Arrangement {
            layout,
            difference,
            width: descriptor.stored.size(),
            bands: self.fetched().len(),
            pixels: self.pixels(),
        };
        // Fixed point has one table entry per band, so elements must first be assembled into pixels.
        let by_band = matches!(descriptor.transform, Transform::Fixed { .. }) && layout == Layout::BandMajor;
        let direct = self.same_order() && !by_band;
        let target = if direct { target.given(self.layout()) } else { target };
        let mut row = out;
        let to = if target.is_nothing() { To::Plain(row) } else { To::Row(&target, 0, &mut row) };
        let (bands, picks) = (self.asked().iter(), self.picks().map(BandSet::iter));
        let mut values = Values::of_bands(descriptor, stored_as, bands, picks, scratch, to)?;
        match direct {
            true => {
                let in_order = Arrangement { layout: Layout::AsShape, ..stored_as };
                values.take_pixels(&in_order, stored)?;
            }
            false => values.take_pixels(&stored_as, stored)?,
        }
        values.finish()
    }
}
