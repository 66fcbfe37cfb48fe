//! A request for an array: the part, the axis order, and the conversion of the elements.

use crate::finish::{Finish, Target};
use crate::region::{Bands, Region};
use shardpack_format::{ArrayDescriptor, Layout, Result, Transform};

/// The part of an array to decode, and how to order and convert its elements.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Region of the array, or `None` for the whole array.
    pub region: Option<&'a Region>,
    /// Axis order of a whole array. A region specifies its own axis order. Only arrays with three axes can be
    /// reordered.
    pub layout: Layout,
    /// How the elements are converted.
    pub finish: &'a Finish,
}

impl Wanted<'_> {
    /// A request for the whole array, unchanged.
    pub const ALL: Self = Wanted { region: None, layout: Layout::AsShape, finish: &Finish::NOTHING };

    /// True if bands are both requested and stored one by one.
    pub(crate) fn is_given_by_band(&self, descriptor: &ArrayDescriptor) -> bool {
        let (layout, all) =
            self.region.map_or((self.layout, true), |region| (region.layout, region.bands == Bands::All));
        let by_band = descriptor.shape.len() == 3 && layout == Layout::BandMajor;
        by_band && all && given(descriptor, layout) == Layout::BandMajor
    }

    /// Returns the target for all elements of an array.
    ///
    /// # Errors
    /// Same as [`Finish::check`].
    pub(crate) fn of_whole(&self, descriptor: &ArrayDescriptor) -> Result<Target> {
        let layout = if descriptor.shape.len() == 3 { self.layout } else { Layout::AsShape };
        Target::new(self.finish, descriptor.decoded, axes(descriptor)?, given(descriptor, layout), layout)
    }

    /// Returns the target for the elements of a region.
    ///
    /// # Errors
    /// Same as [`Finish::check`] and [`Region::shape_of`].
    pub(crate) fn of_region(&self, descriptor: &ArrayDescriptor, region: &Region) -> Result<Target> {
        let shape = region.shape_of(descriptor)?;
        let bands = match region.layout {
            Layout::AsShape => shape.shape[2],
            Layout::BandMajor => shape.shape[0],
        };
        let layout = if descriptor.shape.len() == 3 { region.layout } else { Layout::AsShape };
        Target::new(self.finish, shape.dtype, [region.height, region.width, bands], Layout::AsShape, layout)
    }

    /// Returns the target for all elements of an array. If a region is requested, it becomes the window of the target.
    ///
    /// # Errors
    /// Same as [`Finish::check`] and [`Region::shape_of`].
    pub(crate) fn of_window(&self, descriptor: &ArrayDescriptor) -> Result<Target> {
        let Some(region) = self.region else { return self.of_whole(descriptor) };
        let target = self.of_region(descriptor, region)?;
        let ([rows, columns, _], bands) = (axes(descriptor)?, target.bands() as u64);
        let layout = if descriptor.shape.len() == 3 { region.layout } else { Layout::AsShape };
        let from = if region.bands == Bands::All { given(descriptor, layout) } else { Layout::AsShape };
        let window = [region.y..region.y + region.height, region.x..region.x + region.width];
        Target::of_window(self.finish, descriptor.decoded, [rows, columns, bands], from, layout, window)
    }
}

fn axes(descriptor: &ArrayDescriptor) -> Result<[u64; 3]> {
    Ok(match *descriptor.shape {
        [rows, columns, bands] => [rows, columns, bands],
        [rows, columns] => [rows, columns, 1],
        _ => [1, descriptor.decoded_bytes()? / descriptor.decoded.bytes(), 1],
    })
}

/// Returns the order of the incoming elements: band by band if bands are both stored and requested one by one,
/// otherwise pixel by pixel.
fn given(descriptor: &ArrayDescriptor, layout: Layout) -> Layout {
    let by_band = matches!(descriptor.transform, Transform::Fixed { .. });
    match descriptor.layout == layout && !descriptor.band_difference && !by_band {
        true => layout,
        false => Layout::AsShape,
    }
}
