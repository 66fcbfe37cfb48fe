//! Noise on rows of cubes: added last of all, to values as they come, whoever decoded them in however
//! many parts.

use super::array_row::axes;
use super::bench::Bench;
use super::recipe::Recipe;
use crate::fields::{FieldPlan, From};
use crate::rows::RowMut;
use crate::sample::SampleAt;
use shardpack_array::change_runs;
use shardpack_augment::BandAugmentation;
use shardpack_format::{Error, Layout, Result};

/// Why the host decodes cubes in place of a device.
pub(crate) const ON_HOST: &str = "the host adds noise to cubes";

impl Bench {
    /// Adds noise to the arrays of a row that get any.
    pub(crate) fn add_noise(&self, recipe: &Recipe, at: SampleAt, row: &mut RowMut, dims: &[u64]) -> Result<()> {
        for (number, field) in recipe.fields.plans.iter().enumerate() {
            let is_missing = || self.made.missing.iter().any(|&missing| usize::try_from(missing) == Ok(number));
            if !field.is_noisy || is_missing() {
                continue;
            }
            let shape = match field.is_ragged() {
                true => dims.get(field.dims_at..field.dims_at + field.shape.len()).unwrap_or_default(),
                false => &field.shape,
            };
            let Some(noise) = BandAugmentation::noise(&recipe.augment_bands, &recipe.key(at).draws()) else { continue };
            let ([rows, columns, bands], layout) = axes(shape, is_channels_first(field))?;
            let pixels = rows.saturating_mul(columns);
            let out = row.part(number);
            let length = field.dtype.array_bytes(shape)?;
            let room = out.len();
            let values = usize::try_from(length).ok().and_then(|length| out.get_mut(..length));
            let values = values.ok_or_else(|| Error::internal("bytes of a row", length, room))?;
            let fill = fill_of(field)?;
            let add = |first: u64, step: u64, run: &mut [f32]| match fill {
                None => noise.add(first, step, run),
                Some(fill) => {
                    let before = run.to_vec();
                    noise.add(first, step, run);
                    let is_fill = before.iter().map(|value| *value == fill);
                    run.iter_mut().zip(is_fill).filter(|(_, is_fill)| *is_fill).for_each(|(value, _)| *value = fill);
                }
            };
            match layout {
                // The place of a value is that in [height, width, bands], whatever the order of the axes.
                Layout::AsShape => change_runs(field.dtype, values, |first, run| add(first, 1, run))?,
                Layout::BandMajor => {
                    let plane = usize::try_from(pixels).unwrap_or(usize::MAX).saturating_mul(field.dtype.size()).max(1);
                    for (band, values) in (0_u64..).zip(values.chunks_mut(plane)) {
                        change_runs(field.dtype, values, |first, run| add(first * bands + band, bands, run))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What comes in the place of no-data, as a value of the output: noise is not added to it.
fn fill_of(field: &FieldPlan) -> Result<Option<f32>> {
    let From::Array { fill: Some(fill), .. } = field.from else { return Ok(None) };
    let mut bytes = vec![0; field.dtype.size()];
    let mut rounded = fill;
    change_runs(field.dtype, &mut bytes, |_, run| run.fill(fill))?;
    change_runs(field.dtype, &mut bytes, |_, run| run.iter().for_each(|value| rounded = *value))?;
    Ok(Some(rounded))
}

fn is_channels_first(field: &FieldPlan) -> bool {
    matches!(field.from, From::Array { channels_first: true, .. })
}
