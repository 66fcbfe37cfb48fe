//! Computes the voxels of a box of a volume, with an affine map across planes and low-resolution channels.

use super::singles::{self, RUN};
use super::target::Target;
use super::warped::QUIET_NAN;
use super::{As, Finish, element_bytes};
use crate::region::Voxels;
use crate::volume_warp::{LowTaps, VolumeShape, VolumeWarp, VoxelTap, low_taps};
use crate::warp::Resampling;
use shardpack_base::parts::{part, part_mut};
use shardpack_format::{Dtype, ElementType, Error, Layout, Result, to_usize};

/// Values of a box as float32, in the order planes, rows, columns, channels.
struct Singles {
    values: Vec<f32>,
    /// For each value, 1 if it is no-data and 0 otherwise. Empty if no value is no-data.
    marks: Vec<u8>,
}

/// A box whose voxels are computed.
struct Made<'a> {
    warp: &'a VolumeWarp,
    part: Voxels,
    reach: Voxels,
    channels: usize,
    finish: &'a Finish,
    element: ElementType,
}

impl Finish {
    /// Computes box `part` of a volume with the map in `volume`, which must be set, and then flips and rotates the
    /// box. `elements` are all decoded elements of the volume. `out` receives the elements of the box. Both are in
    /// the order planes, rows, columns, channels.
    ///
    /// # Errors
    /// Same as [`Finish::check`]; `Usage` if the box is not within the volume, if `volume` does not fit it or is not
    /// set, or if `elements` or `out` have a different length.
    pub fn apply_to_volume(
        &self,
        decoded: Dtype,
        shape: &VolumeShape,
        part: Voxels,
        elements: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let VolumeShape { sides, channels } = *shape;
        let Some(warp) = &self.volume else { return Err(Error::usage("a box without a map across planes")) };
        let [_, rows, columns] = part.size;
        let element = self.check(decoded, [rows, columns, channels])?;
        warp.check(shape, part)?;
        let volume = [&sides[..], &[channels]].concat();
        let outputs = [&part.size[..], &[channels]].concat();
        super::check_bytes(decoded.array_bytes(&volume)?, elements, element.array_bytes(&outputs)?, out)?;
        let made = Made { warp, part, reach: warp.reach(part), channels: to_usize(channels), finish: self, element };
        let pixel = to_usize(channels) * decoded.size();
        let mut held = Vec::with_capacity(to_usize(made.reach.size.iter().product::<u64>()) * pixel);
        let Voxels { origin: [z, y, x], size: [planes, rows, columns] } = made.reach;
        for row in (z..z + planes).flat_map(|plane| (y..y + rows).map(move |row| plane * sides[1] + row)) {
            let start = to_usize(row * sides[2] + x) * pixel;
            held.extend_from_slice(super::part(elements, start..start + to_usize(columns) * pixel, "row of a box")?);
        }
        match warp.sampling {
            Resampling::Nearest { outside } => made.put_nearest(decoded, &held, outside, out),
            Resampling::Bilinear { outside } => {
                let mut singles = made.moved(made.singles(decoded, &held)?, outside);
                made.lower(&mut singles);
                made.put(&singles, out)
            }
        }
    }
}

impl Made<'_> {
    /// Converts all elements that the box depends on to this type.
    fn converted(&self, to: As, decoded: Dtype, held: &[u8]) -> Result<Vec<u8>> {
        let [planes, rows, columns] = self.reach.size;
        let shape = [planes * rows, columns, self.channels as u64];
        let Finish { factors, fill, .. } = self.finish;
        let plain = Finish { to, factors: factors.clone(), fill: *fill, ..Finish::NOTHING };
        let mut out = vec![0; to_usize(to.of(decoded)?.array_bytes(&shape)?)];
        plain.apply(decoded, shape, Layout::AsShape, held, &mut out)?;
        Ok(out)
    }

    fn singles(&self, decoded: Dtype, held: &[u8]) -> Result<Singles> {
        let values = self.converted(As::F32, decoded, held)?;
        let values: Vec<f32> = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut marks = Vec::new();
        if self.finish.fill.is_some() {
            let plain = Finish { to: As::F32, fill: self.finish.fill, ..Finish::NOTHING };
            let shape = [1, values.len() as u64, 1];
            marks.resize(values.len(), 0);
            Target::new(&plain, decoded, shape, Layout::AsShape, Layout::AsShape)?.mark(held, &mut marks)?;
        }
        Ok(Singles { values, marks })
    }

    /// Calls `each` with the plane, row and column of every voxel of the box.
    fn voxels(&self, mut each: impl FnMut([u64; 3])) {
        let [planes, rows, columns] = self.part.size;
        for (plane, row) in (0..planes).flat_map(|plane| (0..rows).map(move |row| (plane, row))) {
            (0..columns).for_each(|column| each([plane, row, column]));
        }
    }

    /// Computes the voxels of the box from the voxels that it depends on.
    fn moved(&self, from: Singles, outside: f32) -> Singles {
        let quiet = |value: f32| if value.is_nan() { QUIET_NAN } else { value };
        if self.warp.map == VolumeWarp::STILL {
            return Singles { values: from.values.into_iter().map(quiet).collect(), marks: from.marks };
        }
        let (each, mut values, mut marks) = (self.channels, Vec::new(), Vec::new());
        self.voxels(|voxel| {
            let taps = self.warp.around(self.warp.place(self.part, voxel), self.reach);
            let start = values.len();
            values.resize(start + each, 0.0);
            let (mut is_first, to) = (true, &mut values[start..]);
            for VoxelTap { weight, voxel } in taps.iter().filter(|tap| tap.weight != 0.0) {
                for (channel, to) in to.iter_mut().enumerate() {
                    let term = weight * voxel.map_or(outside, |voxel| from.values[voxel * each + channel]);
                    *to = if is_first { term } else { *to + term };
                }
                is_first = false;
            }
            to.iter_mut().for_each(|to| *to = quiet(*to));
            if !from.marks.is_empty() {
                let is_marked = |tap: &&VoxelTap, channel: usize| {
                    tap.weight != 0.0 && tap.voxel.is_some_and(|voxel| from.marks[voxel * each + channel] != 0)
                };
                marks.extend((0..each).map(|channel| u8::from(taps.iter().any(|tap| is_marked(&tap, channel)))));
            }
        });
        Singles { values, marks }
    }

    /// Lowers the resolution of the requested channels.
    fn lower(&self, singles: &mut Singles) {
        let Singles { values, marks } = singles;
        let ([planes, rows, columns], each) = (self.part.size.map(to_usize), self.channels);
        for (channel, low) in self.warp.low.iter().enumerate() {
            let Some(low) = low else { continue };
            let before: Vec<f32> = values.iter().skip(channel).step_by(each).copied().collect();
            let marked: Vec<u8> = marks.iter().skip(channel).step_by(each).copied().collect();
            let [deep, high, wide] = [0, 1, 2].map(|axis| {
                let side = self.part.size[axis];
                (0..to_usize(side)).map(|at| low_taps(at, low[axis], side)).collect::<Vec<LowTaps>>()
            });
            for n in 0..planes * rows * columns {
                let taps = [deep[n / (rows * columns)], high[n / columns % rows], wide[n % columns]];
                let (mut sum, mut is_first, mut is_marked) = (0.0, true, false);
                for corner in 0..8 {
                    let seconds = [corner / 4, corner / 2 % 2, corner % 2];
                    let weight = |axis: usize| match seconds[axis] {
                        0 => 1.0 - taps[axis].second_weight,
                        _ => taps[axis].second_weight,
                    };
                    let weight = weight(2) * weight(1) * weight(0);
                    if weight == 0.0 {
                        continue;
                    }
                    let [z, y, x] = [0, 1, 2].map(|axis| taps[axis].places[seconds[axis]]);
                    let from = (z * rows + y) * columns + x;
                    let term = weight * before[from];
                    sum = if is_first { term } else { sum + term };
                    is_first = false;
                    is_marked |= marked.get(from).is_some_and(|mark| *mark != 0);
                }
                values[n * each + channel] = if sum.is_nan() { QUIET_NAN } else { sum };
                if let Some(mark) = marks.get_mut(n * each + channel) {
                    *mark = is_marked.into();
                }
            }
        }
    }

    /// Calls `put` for each row of the output, with the row's bytes and the indices of its voxels in the box.
    fn rows(&self, out: &mut [u8], mut put: impl FnMut(&[usize], &mut [u8]) -> Result<()>) -> Result<()> {
        let (turn, [planes, rows, columns]) = (&self.finish.turn, self.part.size.map(to_usize));
        let mut numbers = Vec::with_capacity(columns);
        let lines = out.chunks_exact_mut((columns * self.channels * self.element.size()).max(1));
        for (line, to) in lines.enumerate() {
            let (plane, row) = (line / rows, line % rows);
            let plane = if turn.flip_planes { planes - 1 - plane } else { plane };
            numbers.clear();
            numbers.extend((0..columns).map(|column| {
                let [y, x] = turn.source([row, column], [rows, columns]);
                (plane * rows + y) * columns + x
            }));
            put(&numbers, to)?;
        }
        Ok(())
    }

    fn put(&self, singles: &Singles, out: &mut [u8]) -> Result<()> {
        let (each, size) = (self.channels, self.element.size());
        let with = self.finish.fill.map_or(0.0, |fill| fill.with);
        let mut line = Vec::new();
        self.rows(out, |numbers, to| {
            line.clear();
            line.extend(numbers.iter().flat_map(|number| number * each..(number + 1) * each).map(|at| {
                let is_marked = singles.marks.get(at).is_some_and(|mark| *mark != 0);
                if is_marked { with } else { singles.values[at] }
            }));
            for (from, to) in line.chunks(RUN).zip(to.chunks_mut(RUN * size)) {
                singles::store(self.element, from, to);
            }
            Ok(())
        })
    }

    fn put_nearest(&self, decoded: Dtype, held: &[u8], outside: f64, out: &mut [u8]) -> Result<()> {
        let outside = element_bytes(self.element, outside)
            .ok_or_else(|| Error::internal("value outside a volume", self.element, outside))?;
        let values = self.converted(self.finish.to, decoded, held)?;
        let mut taken = Vec::new();
        self.voxels(|voxel| taken.push(self.warp.nearest(self.warp.place(self.part, voxel), self.reach)));
        let unit = self.channels * self.element.size();
        self.rows(out, |numbers, line| {
            for (n, number) in numbers.iter().enumerate() {
                let to = part_mut(line, n * unit..(n + 1) * unit, "voxel")?;
                match taken[*number] {
                    Some(voxel) => to.copy_from_slice(part(&values, voxel * unit..(voxel + 1) * unit, "voxel")?),
                    None => to.chunks_exact_mut(outside.len()).for_each(|to| to.copy_from_slice(&outside)),
                }
            }
            Ok(())
        })
    }
}
