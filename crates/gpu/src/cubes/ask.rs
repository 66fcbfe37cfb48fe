//! A request for an array, in the form that the kernels need: a rectangle of pixels and some bands of a cube
//! `[rows, columns, bands]`.
//!
//! A volume `[depth, height, width]` is treated as such a cube: its planes are the rows, its rows are the columns,
//! and its columns are the bands. The bands of a box are therefore a run. In a volume with channels, the rows of all
//! planes follow each other, and a box skips the rows between its planes.

use super::wire::{Pick, chunk_bands};
use shardpack_array::{Bands, Finish, Region, Turn, Voxels};
use shardpack_format::{ArrayDescriptor, Error, Layout, Result};
use shardpack_loader::stage::{ArrayPart, MaskView};

/// An array treated as a cube, and its requested part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask<'a> {
    pub(super) columns: u64,
    pub(super) pixels: u64,
    pub(super) bands: u64,
    /// Number of bands in the fixed-point tables, which is the number of bands of the array itself.
    pub(super) table_bands: u64,
    /// First row and first column of the requested part.
    pub(super) y: u64,
    pub(super) x: u64,
    pub(super) rows: u64,
    pub(super) region_columns: u64,
    pub(super) picks: Picks,
    /// True if adjacent output elements are pixels of one band rather than bands of one pixel.
    pub(super) out_by_band: bool,
    turn: Turn,
    /// True if an affine map or a view moves the pixels.
    pub(super) is_moved: bool,
    /// True if the bands are the columns of an array with two axes.
    pub(super) is_flat: bool,
    /// Planes, rows, columns and channels of a box whose voxels are flipped, turned or moved.
    turned_box: Option<[u64; 4]>,
    /// Number of rows in each requested plane, and number of pixels to skip between two planes. If the rows are not
    /// divided into planes, they all belong to one plane.
    pub(super) plane_rows: u64,
    pub(super) plane_gap: u64,
    pub(super) descriptor: &'a ArrayDescriptor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Picks {
    /// `count` adjacent bands, starting with band `first`.
    Run { first: u64, count: u64 },
    /// Bands in ascending order, with their indices in the output.
    List(Vec<Pick>),
}

impl Picks {
    /// Returns the requested bands of an array with `bands` bands.
    ///
    /// # Errors
    /// `Limit` if a band number exceeds the 32 bits that the device uses.
    pub(super) fn of(asked: &Bands, bands: u64) -> Result<Self> {
        Ok(match asked {
            Bands::All => Self::Run { first: 0, count: bands },
            Bands::Range(range) => Self::Run { first: range.start, count: range.end.saturating_sub(range.start) },
            Bands::List(list) => Self::list(list)?,
        })
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Run { count, .. } => *count,
            Self::List(list) => list.len() as u64,
        }
    }

    /// Returns the lowest band, and the band after the highest.
    pub(super) fn span(&self) -> (u64, u64) {
        match self {
            Self::Run { first, count } => (*first, first + count),
            Self::List(list) => {
                let (low, high) = (list.first().map_or(0, |p| p.band), list.last().map_or(0, |p| p.band + 1));
                (low.into(), high.into())
            }
        }
    }

    fn list(bands: &[u64]) -> Result<Self> {
        let number =
            |n: u64| u32::try_from(n).map_err(|_| Error::limit("number of bands", "u32::MAX", u32::MAX.into(), n));
        let mut list = Vec::with_capacity(bands.len());
        for (place, band) in (0..).zip(bands) {
            list.push(Pick { band: number(*band)?, place: number(place)? });
        }
        list.sort_unstable_by_key(|pick| (pick.band, pick.place));
        Ok(Self::List(list))
    }
}

impl<'a> Ask<'a> {
    /// Creates the request for `part`, or for the whole array in shape order, with the conversion `finish`.
    ///
    /// # Errors
    /// `Usage` if the part is outside the array, the array has a different number of axes than the part, or the
    /// conversion does not fit the array; `Format` if a size overflows.
    pub(super) fn new(descriptor: &'a ArrayDescriptor, part: Option<ArrayPart<'_>>, finish: &Finish) -> Result<Self> {
        let mut ask = match part {
            Some(ArrayPart::Region(region)) => Self::of_region(descriptor, region)?,
            Some(ArrayPart::Voxels(voxels)) => return Self::of_voxels(descriptor, voxels, finish),
            None if finish.turn.is_none() && finish.warp.is_none() => Self::whole(descriptor)?,
            None => Self::of_region(descriptor, &Region::whole(descriptor)?)?,
        };
        let size = match (&*descriptor.shape, ask.is_flat) {
            ([_, _, _], _) => [ask.rows, ask.region_columns, ask.picks.count()],
            (_, true) => [ask.rows, ask.picks.count(), 1],
            // If the array has no bands, all elements have the same normalisation.
            _ => [ask.rows, 1, 1],
        };
        finish.check(ask.descriptor.decoded, size)?;
        ask.turn = finish.turn;
        ask.is_moved = finish.warp.is_some();
        // If a flat array is transposed, each of its stored columns is contiguous in the output.
        ask.out_by_band |= ask.is_flat && ask.turn.transpose;
        ask.flatten();
        Ok(ask)
    }

    /// Creates the request for `region` of a mask. A view then shows single pixels of the region.
    ///
    /// # Errors
    /// `Usage` if the region is outside the array, or the array has neither two nor three axes.
    pub(super) fn of_view(descriptor: &'a ArrayDescriptor, region: &Region) -> Result<Self> {
        Ok(Self { is_moved: true, ..Self::of_region(descriptor, region)? })
    }

    fn whole(descriptor: &'a ArrayDescriptor) -> Result<Self> {
        let (bands, elements) = (descriptor.bands(), descriptor.elements()?);
        let pixels = elements.checked_div(bands).unwrap_or(0);
        Ok(Self {
            columns: 1,
            pixels,
            bands,
            table_bands: bands,
            y: 0,
            x: 0,
            rows: pixels,
            region_columns: 1,
            picks: Picks::Run { first: 0, count: bands },
            out_by_band: false,
            turn: Turn::NONE,
            is_moved: false,
            is_flat: false,
            turned_box: None,
            plane_rows: pixels,
            plane_gap: 0,
            descriptor,
        })
    }

    fn of_voxels(descriptor: &'a ArrayDescriptor, voxels: &Voxels, finish: &Finish) -> Result<Self> {
        let ([depth, height, width], channels) = voxels.sides_of(descriptor)?;
        let ([z, y, x], [planes, rows, columns]) = (voxels.origin, voxels.size);
        finish.check(descriptor.decoded, [rows, columns, channels.unwrap_or(1)])?;
        let is_moved = finish.warp.is_some() || finish.volume.is_some();
        let turns = !finish.turn.is_none() || is_moved;
        let is_beside = descriptor.layout == Layout::AsShape && !descriptor.band_difference;
        let mut ask = Self::whole(descriptor)?;
        (ask.turn, ask.is_moved) = (finish.turn, is_moved);
        ask.turned_box = turns.then_some([planes, rows, columns, channels.unwrap_or(1)]);
        match channels {
            // Channels of a box are its bands if the voxels are moved or if channels are not stored side by side.
            Some(channels) if turns || !is_beside => {
                (ask.columns, ask.pixels) = (width, depth * height * width);
                (ask.y, ask.x, ask.rows, ask.region_columns) = (z * height + y, x, planes * rows, columns);
                ask.picks = Picks::Run { first: 0, count: channels };
                (ask.plane_rows, ask.plane_gap) = (rows, (height - rows) * width);
            }
            _ => {
                let each = channels.unwrap_or(1);
                (ask.columns, ask.pixels, ask.bands) = (height, depth * height, width * each);
                (ask.y, ask.x, ask.rows, ask.region_columns) = (z, y, planes, rows);
                ask.picks = Picks::Run { first: x * each, count: columns * each };
                ask.plane_rows = depth;
            }
        }
        ask.flatten();
        Ok(ask)
    }

    fn of_region(descriptor: &'a ArrayDescriptor, region: &Region) -> Result<Self> {
        // Check that the region is within the array.
        region.shape_of(descriptor)?;
        let picks = Picks::of(&region.bands, descriptor.bands())?;
        let out_by_band = region.layout == Layout::BandMajor;
        match descriptor.shape[..] {
            [height, width] => Ok(Self {
                columns: 1,
                pixels: height,
                bands: width,
                table_bands: width,
                y: region.y,
                x: 0,
                rows: region.height,
                region_columns: 1,
                picks: Picks::Run { first: region.x, count: region.width },
                out_by_band: false,
                turn: Turn::NONE,
                is_moved: false,
                is_flat: true,
                turned_box: None,
                plane_rows: height,
                plane_gap: 0,
                descriptor,
            }),
            [height, width, bands] => Ok(Self {
                columns: width,
                pixels: height * width,
                bands,
                table_bands: bands,
                y: region.y,
                x: region.x,
                rows: region.height,
                region_columns: region.width,
                picks,
                out_by_band,
                turn: Turn::NONE,
                is_moved: false,
                is_flat: false,
                turned_box: None,
                plane_rows: height,
                plane_gap: 0,
                descriptor,
            }),
            _ => Err(Error::usage(format!(
                "a region can be read only from an array with two or three axes, but this array has {}",
                descriptor.shape.len()
            ))),
        }
    }

    /// If whole pixels are adjacent and stay adjacent, treats all elements of a row as bands of a single pixel. The
    /// lanes of a warp divide the bands among themselves, so with few bands most of them would be idle.
    fn flatten(&mut self) {
        let all = Picks::Run { first: 0, count: self.bands };
        let beside = self.descriptor.layout == Layout::AsShape && !self.descriptor.band_difference;
        if !beside || self.out_by_band || self.picks != all || self.is_moved || !self.turn.is_none() {
            return;
        }
        if self.columns == 1 && self.rows == self.pixels {
            let elements = self.pixels * self.bands;
            let row = (0..=10).rev().map(|n| self.bands << n).find(|row| *row <= 4096 && elements.is_multiple_of(*row));
            let row = row.unwrap_or(self.bands).max(1);
            (self.pixels, self.rows, self.bands) = (elements / row, elements / row, row);
            self.picks = Picks::Run { first: 0, count: row };
            return;
        }
        self.picks = Picks::Run { first: self.x * self.bands, count: self.region_columns * self.bands };
        self.pixels /= self.columns.max(1);
        self.bands *= self.columns;
        (self.columns, self.x, self.region_columns) = (1, 0, 1);
    }

    /// Returns the output index of the first element; the steps to the next row, column and band; and the extra step
    /// from the last row of a plane to the next plane, all modulo 2³².
    ///
    /// # Errors
    /// `Limit` if an axis is too long for the device.
    pub(super) fn steps(&self) -> Result<[u32; 5]> {
        let number = |n: u64| u32::try_from(n).map_err(|_| Error::limit("axis length", "u32::MAX", u32::MAX.into(), n));
        let (rows, columns, picks) = (number(self.rows)?, number(self.region_columns)?, number(self.picks.count())?);
        let columns = if self.is_flat { picks } else { columns };
        if let Some([a, b, c, d]) = self.turned_box {
            return Ok(self.steps_of_box([number(a)?, number(b)?, number(c)?, number(d)?]));
        }
        let (pixel, band) = match (self.is_flat, self.out_by_band) {
            (false, false) => (picks, 1),
            (true, _) | (_, true) => (1, rows.wrapping_mul(columns)),
        };
        let (top, down) = along(self.turn.flip_rows, columns.wrapping_mul(pixel), rows);
        let (left, right) = along(self.turn.flip_columns, pixel, columns);
        let (row, column) = if self.turn.transpose { (right, down) } else { (down, right) };
        let origin = top.wrapping_add(left);
        Ok(if self.is_flat { [origin, row, 0, column, 0] } else { [origin, row, column, band, 0] })
    }

    fn steps_of_box(&self, [planes, rows, columns, channels]: [u32; 4]) -> [u32; 5] {
        let row_step = columns.wrapping_mul(channels);
        let (front, deeper) = along(self.turn.flip_planes, rows.wrapping_mul(row_step), planes);
        let (top, down) = along(self.turn.flip_rows, row_step, rows);
        let (left, right) = along(self.turn.flip_columns, channels, columns);
        let (row, column) = if self.turn.transpose { (right, down) } else { (down, right) };
        let origin = front.wrapping_add(top).wrapping_add(left);
        match self.descriptor.shape.len() {
            4 => [origin, row, column, 1, deeper.wrapping_sub(row.wrapping_mul(rows))],
            _ => [origin, deeper, row, column, 0],
        }
    }

    /// Returns true for a box whose voxels are flipped, turned or moved.
    pub(super) const fn is_box(&self) -> bool {
        self.turned_box.is_some()
    }

    /// Returns true if the rows of a box belong to several planes that are not adjacent in the array or in the
    /// output.
    pub(super) fn has_planes(&self) -> bool {
        self.plane_gap > 0 || self.is_box() && self.descriptor.shape.len() == 4
    }

    pub(super) fn elements(&self) -> u64 {
        self.rows * self.region_columns * self.picks.count()
    }

    pub(super) fn viewed_elements(&self, view: &MaskView) -> u64 {
        let bands = if self.is_flat { 1 } else { self.picks.count() };
        (view.rows.len() as u64).saturating_mul(view.columns.len() as u64).saturating_mul(bands)
    }

    /// Returns the first chunk of bands to read, and the number of chunks.
    pub(super) fn chunks(&self, width: usize) -> (u64, u64) {
        if self.elements() == 0 {
            return (0, 0);
        }
        let (low, high) = self.picks.span();
        let each = chunk_bands(width);
        let first = if self.descriptor.band_difference { 0 } else { low / each };
        (first, high.div_ceil(each) - first)
    }
}

/// Returns the offset of the first element along an axis of the output, and the step to the next element.
fn along(flips: bool, step: u32, count: u32) -> (u32, u32) {
    match flips {
        true => (step.wrapping_mul(count.wrapping_sub(1)), step.wrapping_neg()),
        false => (0, step),
    }
}
