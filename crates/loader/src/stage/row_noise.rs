//! Applies gamma and adds noise to the final values of a row. A stage does this itself for the rows that it decodes.

use shardpack_array::change_runs;
use shardpack_augment::{Gamma, Noise};
use shardpack_format::{ElementType, Error, Layout, Result, to_usize};

/// The gamma and noise of a row, applied after all other changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowNoise {
    /// The noise, if any. It depends on the position of a value in `[height, width, bands]`, regardless of the order
    /// of the axes in memory.
    pub noise: Option<Noise>,
    /// The power to which values are raised before the noise is added.
    pub gamma: Option<Gamma>,
    /// Value that stays unchanged: the one that replaces no-data, rounded to the type of the row.
    pub keep: Option<f32>,
}

impl RowNoise {
    /// Applies the gamma and adds the noise to a row of this number of rows, columns and bands. Its elements are in
    /// the order of the layout.
    ///
    /// # Errors
    /// `Usage` if the elements are not floats of at most 32 bits, or if `row` is too short.
    pub fn add(
        &self,
        dtype: ElementType,
        ([rows, columns, bands], layout): ([u64; 3], Layout),
        row: &mut [u8],
    ) -> Result<()> {
        let (length, room) = (dtype.array_bytes(&[rows, columns, bands])?, row.len());
        let values = usize::try_from(length).ok().and_then(|length| row.get_mut(..length));
        let values = values.ok_or_else(|| Error::usage(format!("row size: expected {length} bytes, found {room}")))?;
        if let Some(gamma) = &self.gamma {
            let mut range = [f32::INFINITY, f32::NEG_INFINITY];
            change_runs(dtype, values, |_, run| range = Gamma::range_of(range, self.keep, run))?;
            change_runs(dtype, values, |_, run| gamma.change(range, self.keep, run))?;
        }
        let Some(noise) = &self.noise else { return Ok(()) };
        let add = |first: u64, step: u64, run: &mut [f32]| match self.keep {
            None => noise.add(first, step, run),
            Some(keep) => {
                let before = run.to_vec();
                noise.add(first, step, run);
                let is_kept = before.iter().map(|value| *value == keep);
                run.iter_mut().zip(is_kept).filter(|(_, is_kept)| *is_kept).for_each(|(value, _)| *value = keep);
            }
        };
        match layout {
            Layout::AsShape => change_runs(dtype, values, |first, run| add(first, 1, run)),
            Layout::BandMajor => {
                let pixels = to_usize(rows.saturating_mul(columns));
                let plane = pixels.saturating_mul(dtype.size()).max(1);
                (0_u64..).zip(values.chunks_mut(plane)).try_for_each(|(band, values)| {
                    change_runs(dtype, values, |first, run| add(first * bands + band, bands, run))
                })
            }
        }
    }
}
