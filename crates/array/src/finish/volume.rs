//! Computes the voxels of a box of a volume, with an affine map across planes and low-resolution channels.

use super::singles::{self, RUN};
use super::target::Target;
use super::warped::QUIET_NAN;
use super::{As, Finish, element_bytes};
use crate::region::Voxels;
use crate::volume_warp::{LowTaps, Neighbours, VolumeShape, VolumeWarp, VoxelTap, low_taps};
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
        let Some(warp) = &self.volume else {
            return Err(Error::usage("`Finish::volume` must be set to transform a volume"));
        };
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
    /// Converts all elements that the box depends on. `to` is the new type.
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

    /// Calls `each` with the position in the volume that each voxel of the box samples.
    fn places(&self, mut each: impl FnMut([f64; 3])) {
        let [planes, rows, columns] = self.part.size;
        for (plane, row) in (0..planes).flat_map(|plane| (0..rows).map(move |row| (plane, row))) {
            let places = self.warp.row(self.part, [plane, row]);
            (0..columns).for_each(|column| each(places.at(column)));
        }
    }

    /// Computes the voxels of the box from the voxels that it depends on.
    fn moved(&self, from: Singles, outside: f32) -> Singles {
        let quiet = |value: f32| if value.is_nan() { QUIET_NAN } else { value };
        if self.warp.map == VolumeWarp::STILL {
            return Singles { values: from.values.into_iter().map(quiet).collect(), marks: from.marks };
        }
        let each = self.channels;
        let voxels = to_usize(self.part.size.iter().product::<u64>());
        let (mut values, mut marks) = (Vec::with_capacity(voxels * each), Vec::new());
        let [_, rows, columns] = self.reach.size.map(to_usize);
        let steps = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| ((n / 4 * rows + n / 2 % 2) * columns + n % 2) * each);
        self.places(|place| {
            if from.marks.is_empty()
                && let Some(Neighbours { first, weights }) = self.warp.neighbours(place, self.reach)
            {
                for at in first * each..(first + 1) * each {
                    let mut sum = weights[0] * from.values[at];
                    for n in 1..8 {
                        sum += weights[n] * from.values[at + steps[n]];
                    }
                    values.push(quiet(sum));
                }
                return;
            }
            let taps = self.warp.around(place, self.reach);
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
        let ([_, rows, columns], each) = (self.part.size.map(to_usize), self.channels);
        for (channel, low) in self.warp.low.iter().enumerate() {
            let Some(low) = low else { continue };
            let before: Vec<f32> = values.iter().skip(channel).step_by(each).copied().collect();
            let marked: Vec<u8> = marks.iter().skip(channel).step_by(each).copied().collect();
            let taps = |axis: usize| -> Vec<LowTaps> {
                let side = self.part.size[axis];
                (0..to_usize(side)).map(|at| low_taps(at, low[axis], side)).collect()
            };
            let (high, wide, mut at, mut lines) = (taps(1), taps(2), channel, Vec::new());
            for (deep, high) in taps(0).iter().flat_map(|deep| high.iter().map(move |high| (deep, high))) {
                // The weighted rows of voxels between which this row lies.
                lines.clear();
                deep.weighted(|z, deep| {
                    high.weighted(|y, high| lines.push(((z * rows + y) * columns, high, deep)));
                });
                for wide in &wide {
                    let (mut sum, mut is_marked) = (None, false);
                    for &(line, high, deep) in &lines {
                        wide.weighted(|x, wide| {
                            let term = wide * high * deep * before[line + x];
                            sum = Some(sum.map_or(term, |sum| sum + term));
                            is_marked |= marked.get(line + x).is_some_and(|mark| *mark != 0);
                        });
                    }
                    let sum = sum.unwrap_or(0.0);
                    values[at] = if sum.is_nan() { QUIET_NAN } else { sum };
                    if let Some(mark) = marks.get_mut(at) {
                        *mark = is_marked.into();
                    }
                    at += each;
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
            for number in numbers {
                let start = line.len();
                line.extend_from_slice(part(&singles.values, number * each..(number + 1) * each, "voxel")?);
                if !singles.marks.is_empty() {
                    let marks = part(&singles.marks, number * each..(number + 1) * each, "voxel")?;
                    line[start..].iter_mut().zip(marks).filter(|(_, mark)| **mark != 0).for_each(|(to, _)| *to = with);
                }
            }
            for (from, to) in line.chunks(RUN).zip(to.chunks_mut(RUN * size)) {
                singles::store(self.element, from, to);
            }
            Ok(())
        })
    }

    fn put_nearest(&self, decoded: Dtype, held: &[u8], outside: f64, out: &mut [u8]) -> Result<()> {
        let outside = element_bytes(self.element, outside).ok_or_else(|| super::unfit_fill(self.element, outside))?;
        let values = self.converted(self.finish.to, decoded, held)?;
        let mut taken = Vec::new();
        self.places(|place| taken.push(self.warp.nearest(place, self.reach)));
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
