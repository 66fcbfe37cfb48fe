//! Applies gamma and adds noise to rows of cubes, as the last step. The result is the same on host and device, and
//! for any number of parts.

use super::decoder::RowDecoder;
use super::fields::image_axes;
use super::recipe::Recipe;
use super::record::RowRecord;
use crate::fields::{ArrayField, FieldPlan, FieldType};
use crate::rows::RowMut;
use crate::sample::SampleAt;
use crate::stage::RowNoise;
use shardpack_array::change_runs;
use shardpack_augment::BandAugmentation;
use shardpack_format::Result;

impl Recipe {
    pub(crate) fn noise(&self, field: &FieldPlan, at: SampleAt) -> Result<Option<RowNoise>> {
        if !field.is_noisy {
            return Ok(None);
        }
        let draws = self.key(at).draws();
        let noise = BandAugmentation::noise(&self.augment_bands, &draws);
        let gamma = BandAugmentation::gamma(&self.augment_bands, &draws);
        if noise.is_none() && gamma.is_none() {
            return Ok(None);
        }
        Ok(Some(RowNoise { noise, gamma, keep: fill_of(field)? }))
    }

    /// Applies gamma and adds noise to a row. `dims` are the axes of the row if it is ragged.
    pub(crate) fn add_noise(&self, field: &FieldPlan, at: SampleAt, row: &mut [u8], dims: &[u64]) -> Result<()> {
        let Some(noise) = self.noise(field, at)? else { return Ok(()) };
        let shape = if field.is_ragged() { dims } else { &field.shape };
        noise.add(field.dtype, image_axes(shape, is_channels_first(field))?, row)
    }
}

impl RowDecoder {
    /// Applies gamma and adds noise to all arrays of a row, except arrays that a stage decodes.
    pub(super) fn add_noise(&self, record: RowRecord<'_>, row: &mut RowMut, dims: &[u64]) -> Result<()> {
        let RowRecord { recipe, at, .. } = record;
        for (number, field) in recipe.fields.plans.iter().enumerate().filter(|(_, field)| !field.staged) {
            let is_missing = || self.notes.missing.iter().any(|&missing| usize::try_from(missing) == Ok(number));
            if !field.is_noisy || is_missing() {
                continue;
            }
            let dims = dims.get(field.dims_range()).unwrap_or_default();
            recipe.add_noise(field, at, row.part(number), dims)?;
        }
        Ok(())
    }
}

/// Returns the fill value that replaces no-data, rounded to the output type. Elements with this value get no noise.
fn fill_of(field: &FieldPlan) -> Result<Option<f32>> {
    let Some(fill) = field.kind.fill() else { return Ok(None) };
    let mut bytes = vec![0; field.dtype.size()];
    let mut rounded = fill;
    change_runs(field.dtype, &mut bytes, |_, run| run.fill(fill))?;
    change_runs(field.dtype, &mut bytes, |_, run| run.iter().for_each(|value| rounded = *value))?;
    Ok(Some(rounded))
}

fn is_channels_first(field: &FieldPlan) -> bool {
    matches!(field.kind, FieldType::Array(ArrayField { channels_first: true, .. }))
}
