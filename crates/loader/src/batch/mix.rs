//! Mixup and CutMix. A batch is mixed just before the caller gets it, on the caller's thread or on the device.

use super::Lent;
use crate::fields::FieldType;
use crate::rows::Rows;
use crate::stage::RowMix;
use shardpack_augment::{Mix, Mixed};
use shardpack_format::bug;
use shardpack_jpeg::PixelLayout;
use shardpack_reader::{Error, Result};

/// Mixes the rows of a batch in place, before the caller gets it.
///
/// # Errors
/// `Io` if the device cannot mix the batch.
pub(crate) fn mix(choices: &[Mix], layout: PixelLayout, lent: &mut Lent) -> Result<()> {
    let plan = &lent.plan;
    let rows = plan.indices.len();
    let is_whole = |row: &usize| {
        let missing = |&(at, _): &(u32, u32)| usize::try_from(at) == Ok(*row);
        plan.mask.get(*row) == Some(&true) && !plan.missing.iter().any(missing)
    };
    let whole: Vec<usize> = (0..rows).filter(is_whole).collect();
    let first = whole.first().and_then(|&row| Some((*plan.indices.get(row)?, plan.rows.get(row)?)));
    let (Some((sample, row)), true) = (first, whole.len() > 1) else { return Ok(()) };
    let draws = lent.draw_key(sample, row).draws();
    let Lent { slot: Some(slot), plan, fields, .. } = lent else { return Ok(()) };
    for (number, field) in fields.plans.iter().enumerate() {
        let mixed = |height: u64, width: u64| {
            let side = |side: u64| usize::try_from(side).unwrap_or(0);
            Mix::resolve(choices, &draws, side(height), side(width))
        };
        let picture = fields.plans.iter().find(|plan| matches!(plan.kind, FieldType::Picture(_)));
        let shape = match (&field.kind, picture) {
            (FieldType::Picture(_), _) => &field.shape,
            // One-hot labels take the shape of the first picture, because a CutMix rectangle is rounded to
            // whole pixels of that shape.
            (FieldType::OneHot(_), Some(picture)) => &picture.shape,
            _ => continue,
        };
        let &[a, b, c] = &**shape else { continue };
        let [height, width] = if layout == PixelLayout::HeightWidthChannels { [a, b] } else { [b, c] };
        let Some(mixed) = mixed(height, width) else { continue };
        let how = match field.kind {
            FieldType::Picture(_) => mixed,
            _ => Mixed::Sum { share: mixed.share() },
        };
        let parts = plan.parts.get(number * rows..(number + 1) * rows).unwrap_or_default();
        let parts: Vec<_> = whole.iter().filter_map(|&row| parts.get(row).cloned()).collect();
        let columns = usize::try_from(width).unwrap_or(0);
        let mix = RowMix { how, dtype: field.dtype, layout, columns };
        match slot.stage() {
            Some(stage) => stage
                .mix(&parts, &mix)
                .map_err(|error| Error::io(format!("batch {}", plan.in_epoch), "mix the batch on the device", error))?,
            None => match Rows::bytes_mut(slot) {
                Some(memory) => mix.apply(&parts, memory),
                None => bug("a batch is mixed while in use"),
            },
        }
    }
    Ok(())
}
