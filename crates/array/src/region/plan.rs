//! Maps a region to the stored elements that it needs.

use super::request::{Bands, Region};
use super::source::StoredRange;
use shardpack_format::{ArrayDescriptor, Error, Layout, Result, bug};
use std::ops::Range;

#[derive(Default)]
pub(crate) struct Lists {
    asked: Vec<usize>,
    fetched: Vec<usize>,
    picks: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum BandSet<'a> {
    Range(Range<usize>),
    List(&'a [usize]),
}

impl<'a> BandSet<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        self.clone().into_iter()
    }

    fn into_iter(self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let (range, list) = match self {
            Self::Range(range) => (range, &[][..]),
            Self::List(list) => (0..0, list),
        };
        range.chain(list.iter().copied())
    }
}

/// A non-empty region that has been checked to be inside its array.
///
/// An array with two axes `[height, width]` is treated as a cube `[height, 1, width]`. The difference, the layout and
/// the fixed-point tables treat the last axis as bands (spec §4.2).
pub(crate) struct RegionPlan<'a> {
    height: usize,
    width: usize,
    bands: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    difference: bool,
    stored_layout: Layout,
    layout: Layout,
    asked: BandSet<'a>,
    fetched: BandSet<'a>,
    picks: Option<BandSet<'a>>,
}

impl<'a> RegionPlan<'a> {
    /// Plans `region`, which must have passed [`Region::shape_of`] and must not be empty.
    pub(crate) fn new(descriptor: &ArrayDescriptor, region: &Region, lists: &'a mut Lists) -> Result<Self> {
        let size =
            |n: u64| usize::try_from(n).map_err(|_| Error::limit("axis length", "max_axis", usize::MAX as u64, n));
        let range = |first: u64, count: u64| Ok(size(first)?..size(first + count)?);
        let rows = range(region.y, region.height)?;
        let flat = descriptor.shape.len() == 2;
        let (height, width, bands) = match descriptor.shape[..] {
            [height, width, bands] => (size(height)?, size(width)?, size(bands)?),
            [height, bands] => (size(height)?, 1, size(bands)?),
            _ => {
                return Err(Error::usage(format!(
                    "a region can be read only from an array with two or three axes, but this array has {}",
                    descriptor.shape.len()
                )));
            }
        };
        let columns = if flat { 0..1 } else { range(region.x, region.width)? };
        let layout = if flat { Layout::AsShape } else { region.layout };
        let Lists { asked: asked_list, fetched: fetched_list, picks: pick_list } = lists;
        let asked = match &region.bands {
            _ if flat => BandSet::Range(range(region.x, region.width)?),
            Bands::All => BandSet::Range(0..bands),
            Bands::Range(bands) => BandSet::Range(size(bands.start)?..size(bands.end)?),
            Bands::List(list) => {
                asked_list.clear();
                for band in list {
                    asked_list.push(size(*band)?);
                }
                BandSet::List(asked_list)
            }
        };
        let (low, high) = match &asked {
            BandSet::Range(range) => (range.start, range.end),
            BandSet::List(list) => {
                (list.iter().copied().min().unwrap_or(0), list.iter().copied().max().map_or(0, |last| last + 1))
            }
        };
        let stored_layout = descriptor.layout;
        // Fetch all bands between the lowest and the highest one in a single run. A difference
        // needs the lower bands anyway.
        let fetched = match (descriptor.band_difference, stored_layout, &asked) {
            (true, ..) => BandSet::Range(0..high),
            (false, Layout::AsShape, _) | (false, _, BandSet::Range(_)) => BandSet::Range(low..high),
            (false, Layout::BandMajor, BandSet::List(list)) => {
                fetched_list.clear();
                fetched_list.extend_from_slice(list);
                fetched_list.sort_unstable();
                fetched_list.dedup();
                BandSet::List(fetched_list)
            }
        };
        let picks = match (&asked, &fetched) {
            _ if asked.iter().eq(fetched.iter()) => None,
            (BandSet::Range(asked), BandSet::Range(fetched)) => {
                Some(BandSet::Range(asked.start - fetched.start..asked.end - fetched.start))
            }
            _ => {
                pick_list.clear();
                for band in asked.iter() {
                    let place = match &fetched {
                        BandSet::Range(range) => band.checked_sub(range.start),
                        BandSet::List(list) => list.binary_search(&band).ok(),
                    };
                    let Some(place) = place else { bug("a requested band was not fetched") };
                    pick_list.push(place);
                }
                Some(BandSet::List(pick_list))
            }
        };
        let difference = descriptor.band_difference;
        Ok(Self { height, width, bands, rows, columns, difference, stored_layout, layout, asked, fetched, picks })
    }

    pub(crate) const fn bands(&self) -> usize {
        self.bands
    }

    pub(crate) fn pixels(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    pub(crate) const fn asked(&self) -> &BandSet<'a> {
        &self.asked
    }

    /// Returns the bands that must be decoded for the requested bands, in ascending order.
    pub(crate) const fn fetched(&self) -> &BandSet<'a> {
        &self.fetched
    }

    /// Returns the indices of the requested bands among the fetched bands, or `None` if no other bands are fetched.
    pub(crate) const fn picks(&self) -> Option<&BandSet<'a>> {
        self.picks.as_ref()
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of elements in [`RegionPlan::runs`].
    pub(crate) fn fetched_elements(&self) -> usize {
        self.pixels() * self.fetched.len()
    }

    /// True if the output consists of the fetched elements in the same order.
    pub(crate) fn same_order(&self) -> bool {
        let one = self.fetched.len() == 1 || self.pixels() == 1;
        self.picks.is_none() && !self.difference && (one || self.stored_layout == self.layout)
    }

    /// Returns the ranges of stored bytes that the region needs, in ascending order. Each element has `size` bytes.
    pub(crate) fn runs(&self, size: usize) -> impl Iterator<Item = StoredRange> + Clone {
        let Self { rows, columns, width, bands, height, fetched, .. } = self;
        let whole_rows = columns.len() == *width;
        let row = width * bands;
        // The runs form `outer` groups, `outer_step` elements apart. Each group has `count` runs of `length`
        // elements, `step` elements apart.
        let (outer, outer_step, first, count, step, length) = match (self.stored_layout, fetched) {
            (Layout::AsShape, BandSet::Range(fetched)) => match (fetched.len() == *bands, whole_rows) {
                (true, true) => (BandSet::Range(0..1), 0, rows.start * row, 1, 0, rows.len() * row),
                (true, false) => {
                    (BandSet::Range(rows.clone()), row, columns.start * bands, 1, 0, columns.len() * bands)
                }
                (false, _) => {
                    let first = columns.start * bands + fetched.start;
                    (BandSet::Range(rows.clone()), row, first, columns.len(), *bands, fetched.len())
                }
            },
            (_, fetched) => {
                let (first, plane) = (rows.start * width + columns.start, height * width);
                match whole_rows {
                    true => (fetched.clone(), plane, first, 1, 0, rows.len() * width),
                    false => (fetched.clone(), plane, first, rows.len(), *width, columns.len()),
                }
            }
        };
        outer.into_iter().flat_map(move |outer| {
            (0..count).map(move |inner| {
                let start = first + outer * outer_step + inner * step;
                start * size..(start + length) * size
            })
        })
    }
}
