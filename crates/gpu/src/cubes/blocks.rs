//! Finds the blocks that a part of an array needs. Other blocks are neither uploaded nor decoded. For example, a patch
//! of 32 × 32 pixels in a scene of 400 × 400 pixels with 100 adjacent bands needs a twelfth of the blocks.

use super::ask::{Ask, Picks};
use super::wire::BLOCK_ELEMENTS;
use shardpack_array::Region;
use shardpack_format::{ArrayDescriptor, Layout, bug, to_usize};
use shardpack_loader::stage::ArrayPart;
use std::ops::Range;

const EACH: u64 = BLOCK_ELEMENTS as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// True for each block that is needed, by block number. Empty if all blocks are needed.
    needed: Vec<bool>,
}

impl Blocks {
    /// Returns the blocks that hold requested elements. If bands are stored as differences, also returns the blocks
    /// of the preceding bands.
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        let elements = ask.pixels.saturating_mul(ask.bands);
        let is_all = ask.elements() == elements;
        let Some(count) = usize::try_from(elements.div_ceil(EACH)).ok().filter(|_| !is_all) else {
            return Self { needed: Vec::new() };
        };
        let mut blocks = Self { needed: vec![false; count] };
        let gaps = |row: u64| row.checked_div(ask.plane_rows).unwrap_or(0) * ask.plane_gap;
        let rows = (0..ask.rows).map(|row| (ask.y + row) * ask.columns + ask.x + gaps(row));
        if ask.descriptor.layout == Layout::BandMajor {
            let runs = |band: u64| rows.clone().map(move |pixel| (band * ask.pixels + pixel, ask.region_columns));
            match &ask.picks {
                Picks::List(list) if !ask.descriptor.band_difference => {
                    list.iter()
                        .flat_map(|pick| runs(pick.band.into()))
                        .for_each(|(start, length)| blocks.need(start, length));
                }
                _ => ask.bands_read().flat_map(runs).for_each(|(start, length)| blocks.need(start, length)),
            }
        } else {
            let bands = ask.bands_read();
            let length = ask.region_columns.saturating_sub(1) * ask.bands + (bands.end - bands.start);
            rows.for_each(|pixel| blocks.need(pixel * ask.bands + bands.start, length));
        }
        blocks
    }

    fn need(&mut self, start: u64, length: u64) {
        let Some(last) = length.checked_sub(1).map(|more| (start + more) / EACH) else { return };
        if let Some(blocks) = self.needed.get_mut(to_usize(start / EACH)..=to_usize(last)) {
            blocks.fill(true);
        }
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.needed.is_empty() || self.needed.get(number).copied().unwrap_or(false)
    }

    /// Returns the needed blocks that are not yet placed. `placed` has a flag for every block of the array.
    pub(super) fn without(&self, placed: &[bool]) -> Self {
        Self { needed: (0..).zip(placed).map(|(number, &placed)| !placed && self.has(number)).collect() }
    }

    pub(super) const fn is_all(&self) -> bool {
        self.needed.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.needed.is_empty() && !self.needed.contains(&true)
    }

    /// Returns the number of needed blocks of an array with `all` blocks.
    pub(super) fn count(&self, all: u64) -> u64 {
        if self.needed.is_empty() { all } else { self.needed.iter().filter(|needed| **needed).count() as u64 }
    }
}

impl Ask<'_> {
    /// Returns the range of bands to read. If bands are stored as differences, this includes all earlier bands.
    fn bands_read(&self) -> Range<u64> {
        let (low, high) = self.picks.span();
        if self.descriptor.band_difference { 0..high } else { low..high }
    }
}

/// Maximum number of blocks that a part of a given size needs, at any position in the array. A part with a height of 0
/// stands for all pixels.
pub(crate) struct Most {
    blocks: u64,
    all: u64,
    width: u64,
    stored_bytes: u64,
}

impl Most {
    pub(crate) fn of(descriptor: &ArrayDescriptor, part: Option<ArrayPart<'_>>) -> Self {
        let (all, blocks) = match part {
            Some(ArrayPart::Region(region)) => most_blocks(descriptor, Some(region)),
            Some(ArrayPart::Voxels(voxels)) => most_blocks_of_a_box(descriptor, voxels.size),
            None => most_blocks(descriptor, None),
        };
        // This cannot overflow, because `ArrayDescriptor::parse` rejects larger arrays.
        let stored_bytes = descriptor.stored_bytes().unwrap_or_else(|_| bug("the size of a parsed array overflows"));
        Self { blocks, all, width: descriptor.stored.bytes(), stored_bytes }
    }

    /// Returns true if less than half of the array is needed.
    pub(crate) const fn is_small(&self) -> bool {
        self.blocks < self.all / 2
    }

    /// Returns true if decoding `parts` parts separately takes more than twice as many blocks as the array has.
    pub(crate) const fn exceeds(&self, parts: u64) -> bool {
        self.blocks.saturating_mul(parts) > self.all.saturating_mul(2)
    }

    pub(crate) fn decoded_bytes(&self) -> u64 {
        self.blocks.saturating_mul(EACH).saturating_mul(self.width).min(self.stored_bytes)
    }

    /// Returns the number of bytes to upload, without tables. This is the needed blocks' share of the records' bytes,
    /// plus half of that share, because some blocks compress less than others.
    pub(crate) fn coded_bytes(&self, arrays: u64, record_bytes: u64) -> u64 {
        if self.blocks == self.all {
            return record_bytes;
        }
        let all = u128::from(self.all).max(1) * 2;
        let share = u128::from(record_bytes) * u128::from(self.blocks) * 3 / all;
        let share = u64::try_from(share).map_or(record_bytes, |share| share.min(record_bytes));
        share.min(self.decoded_bytes().saturating_mul(arrays))
    }

    /// Returns the size of an array's tables in bytes if some blocks are omitted. The tables take 16 bytes per block
    /// and byte of an element, and 80 bytes per stream.
    pub(crate) fn table_bytes(&self) -> u64 {
        let streams = |blocks: u64| blocks.saturating_mul(self.width);
        let tables = streams(self.all).saturating_mul(16).saturating_add(streams(self.blocks).saturating_mul(80));
        if self.blocks == self.all { 0 } else { tables }
    }
}

/// Returns the number of blocks of the array, and the maximum number of blocks that a part needs.
fn most_blocks(descriptor: &ArrayDescriptor, part: Option<&Region>) -> (u64, u64) {
    // The number of elements cannot overflow: it is at most the number of stored bytes, and `ArrayDescriptor::parse`
    // rejects an overflow of that number.
    let elements = descriptor.elements().unwrap_or_else(|_| bug("the size of a parsed array overflows"));
    let all = elements.div_ceil(EACH);
    let Some(part) = part else { return (all, all) };
    // Invalid bands are reported later, where the part is requested.
    let Ok(picks) = Picks::of(&part.bands, descriptor.bands()) else { return (all, all) };
    let is_whole = part.height == 0;
    let (height, width, bands, columns, asked) = match *descriptor.shape {
        [height, width, bands] => (height, width, bands, part.width, picks.span()),
        // In a two-axis array, the columns count as bands. The part's first column is not known here.
        [height, bands] if is_whole || descriptor.band_difference => (height, 1, bands, 1, (0, bands)),
        [height, bands] => (height, 1, bands, 1, (0, part.width)),
        _ => return (all, all),
    };
    let (rows, columns) = if is_whole { (height, width) } else { (part.height.min(height), columns.min(width)) };
    let span = asked.1.min(bands).saturating_sub(if descriptor.band_difference { 0 } else { asked.0 });
    let needed = match descriptor.layout {
        Layout::BandMajor => match picks {
            Picks::List(list) if !descriptor.band_difference => (list.len() as u64).min(span),
            _ => span,
        }
        .saturating_mul(most_of_runs(rows, columns, width)),
        _ => most_of_runs(
            rows,
            columns.saturating_sub(1).saturating_mul(bands).saturating_add(span),
            width.saturating_mul(bands),
        ),
    };
    (all, needed.min(all))
}

/// Same as `most_blocks`, for a box of a volume. The rows of the box are contiguous runs.
fn most_blocks_of_a_box(descriptor: &ArrayDescriptor, size: [u64; 3]) -> (u64, u64) {
    let (all, _) = most_blocks(descriptor, None);
    let (sides, channels) = match *descriptor.shape {
        [depth, height, width] => ([depth, height, width], None),
        [depth, height, width, channels] => ([depth, height, width], Some(channels)),
        _ => return (all, all),
    };
    let [planes, rows, columns] = [0, 1, 2].map(|axis| size[axis].min(sides[axis]));
    let [_, height, width] = sides;
    let difference = descriptor.band_difference;
    let needed = match (descriptor.layout, channels) {
        // All voxels of the volume that differ only in their plane and row are contiguous.
        (Layout::BandMajor, None) => {
            most_of_runs(planes, rows, height).saturating_mul(if difference { width } else { columns })
        }
        (Layout::BandMajor, Some(channels)) => {
            most_of_planes(planes, [rows, columns], [height, width]).saturating_mul(channels)
        }
        (_, None) if difference => most_of_planes(planes, [rows, width], [height, width]),
        (_, channels) => {
            let each = channels.unwrap_or(1);
            most_of_planes(planes, [rows, columns.saturating_mul(each)], [height, width.saturating_mul(each)])
        }
    };
    (all, needed.min(all))
}

fn most_of_planes(planes: u64, [rows, columns]: [u64; 2], [height, width]: [u64; 2]) -> u64 {
    let of_a_plane = most_of_runs(rows, columns, width);
    let length = width.saturating_mul(rows.saturating_sub(1)).saturating_add(columns);
    of_a_plane.saturating_mul(planes).min(most_of_runs(planes, length, width.saturating_mul(height)))
}

fn most_of_runs(runs: u64, length: u64, step: u64) -> u64 {
    if runs == 0 || length == 0 {
        return 0;
    }
    // A run may begin with the last element of a block.
    let blocks = |length: u64| length.saturating_add(2 * EACH - 2) / EACH;
    let together = step.saturating_mul(runs - 1).saturating_add(length);
    blocks(length).saturating_mul(runs).min(blocks(together))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_array::{Bands, Finish};
    use shardpack_format::Dtype;

    fn descriptor(shape: Vec<u64>, layout: Layout, band_difference: bool) -> ArrayDescriptor {
        ArrayDescriptor { layout, band_difference, ..ArrayDescriptor::plain(Dtype::U16, shape) }
    }

    fn by_elements(descriptor: &ArrayDescriptor, region: &Region) -> Vec<bool> {
        let &[height, width, bands] = &*descriptor.shape else { unreachable!("three axes") };
        let asked: Vec<u64> = match &region.bands {
            Bands::All => (0..bands).collect(),
            Bands::Range(range) => range.clone().collect(),
            Bands::List(list) => list.clone(),
        };
        let read: Vec<u64> = match asked.iter().max() {
            Some(&last) if descriptor.band_difference => (0..=last).collect(),
            _ => asked,
        };
        let mut needed = vec![false; (height * width * bands).div_ceil(EACH) as usize];
        for (y, x) in
            (region.y..region.y + region.height).flat_map(|y| (region.x..region.x + region.width).map(move |x| (y, x)))
        {
            for &band in &read {
                let element = match descriptor.layout {
                    Layout::BandMajor => band * height * width + y * width + x,
                    _ => (y * width + x) * bands + band,
                };
                needed[(element / EACH) as usize] = true;
            }
        }
        needed
    }

    proptest! {
        #[test]
        fn requested_blocks_are_needed_and_counted(
            (height, width, bands) in (1..90_u64, 1..900_u64, 1..40_u64),
            part in (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()),
            some in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>())),
            by_band: bool,
            band_difference: bool,
        ) {
            let layout = if by_band { Layout::BandMajor } else { Layout::AsShape };
            let descriptor = descriptor(vec![height, width, bands], layout, band_difference);
            let (y, x) = (part.0.index(height as usize) as u64, part.1.index(width as usize) as u64);
            let size = [1 + part.2.index((height - y) as usize) as u64, 1 + part.3.index((width - x) as usize) as u64];
            let mut region = Region::new(y, x, size[0], size[1]);
            if let Some((one, other, is_list)) = some {
                let (one, other) = (one.index(bands as usize) as u64, other.index(bands as usize) as u64);
                region.bands = match is_list {
                    true => Bands::List(vec![one, other, one]),
                    false => Bands::Range(one.min(other)..one.max(other) + 1),
                };
            }
            let ask = Ask::new(&descriptor, Some(ArrayPart::Region(&region)), &Finish::NOTHING).unwrap();
            let blocks = Blocks::of(&ask);
            let expected = by_elements(&descriptor, &region);
            for (number, needed) in expected.iter().enumerate() {
                // If bands are stored side by side, omitting blocks between listed bands is not worthwhile.
                prop_assert!(blocks.has(number) || !needed, "{number}");
                let is_exact = matches!(layout, Layout::BandMajor) || !matches!(region.bands, Bands::List(_));
                prop_assert!(!is_exact || blocks.needed.is_empty() || blocks.has(number) == *needed, "{number}");
            }
            let (all, most) = most_blocks(&descriptor, Some(&region));
            prop_assert_eq!(all, expected.len() as u64);
            prop_assert!(blocks.count(all) <= most, "{} of at most {most}", blocks.count(all));
            prop_assert_eq!(most_blocks(&descriptor, None), (all, all));
        }
    }

    #[test]
    fn a_patch_of_a_scene_needs_a_twelfth() {
        let (small, scene) = (Region::new(0, 0, 32, 32), vec![400, 400, 100]);
        let most = |layout| most_blocks(&descriptor(scene.clone(), layout, false), Some(&small));
        assert_eq!(most(Layout::AsShape), (245, 20));
        assert_eq!(most(Layout::BandMajor), (245, 200));
        assert_eq!(most_blocks(&descriptor(vec![0, 4, 4], Layout::AsShape, false), Some(&small)), (0, 0));
        let rows = Region { bands: Bands::Range(3..5), ..Region::new(0, 0, 0, 0) };
        assert_eq!(most_blocks(&descriptor(scene, Layout::BandMajor, false), Some(&rows)), (245, 8));
    }
}
