//! Predicts the memory that decoding an array needs in addition to its row.

use super::fields::{is_made_of_others, layout, whole_scratch_bytes};
use crate::fields::{ArrayField, Cut, FieldType};
use shardpack_array::{ArrayDecoder, ArraySplit, UNIT_BYTES, Wanted};
use shardpack_format::{ArrayDescriptor, Codec, Layout, Result};

type StoredArray = (Codec, ArrayDescriptor);

#[derive(Debug, Clone, Copy)]
pub(crate) struct RowMemory {
    pub(crate) bytes: u64,
    pub(crate) element_bytes: u64,
    /// True if elements are converted or moved after decoding.
    pub(crate) is_finished: bool,
    /// Bytes kept until the whole array is decoded, because rotations and affine maps need all of its rows.
    pub(crate) held_bytes: u64,
}

/// Returns the scratch bytes for decoding an array that is stored like the example but may have more or fewer pixels.
pub(crate) fn scratch_bytes(stored: &StoredArray, cut: Option<&Cut>, row: RowMemory) -> Result<u64> {
    let (codec, descriptor) = stored;
    let decoded_bytes = (row.bytes / row.element_bytes.max(1)).saturating_mul(descriptor.decoded.bytes());
    let bytes = if let Some(cut) = cut {
        let mut region = cut.region.clone();
        if cut.place.is_none()
            && let &[height, width, ..] = &*descriptor.shape
        {
            (region.height, region.width) = (height, width);
        }
        let bytes = ArrayDecoder::region_scratch_bytes(*codec, descriptor, &region)?;
        let bytes = scaled(bytes, decoded_bytes, region.shape_of(descriptor)?.bytes);
        // Elements are first decoded in their stored type, which may differ from the row's.
        bytes.saturating_add(if row.is_finished { decoded_bytes } else { 0 })
    } else {
        let bytes = ArrayDecoder::scratch_bytes(*codec, descriptor)?;
        match descriptor.layout {
            Layout::BandMajor => scaled(bytes, decoded_bytes, descriptor.decoded_bytes()?),
            _ => bytes,
        }
    };
    Ok(bytes.saturating_add(row.held_bytes))
}

/// Same as [`scratch_bytes`], but for decoding one part of an array.
pub(crate) fn scratch_bytes_in_parts(stored: &StoredArray, row: RowMemory) -> Result<u64> {
    let (codec, descriptor) = stored;
    let in_order = ArrayDescriptor { layout: Layout::AsShape, ..descriptor.clone() };
    let unit = (UNIT_BYTES as u64 / descriptor.stored.bytes()).saturating_mul(row.element_bytes);
    Ok(ArrayDecoder::scratch_bytes(*codec, &in_order)?.saturating_add(unit.min(row.held_bytes)))
}

/// Returns the scratch bytes for decoding `count` patches together, or `None` if no patches are cut from the field.
/// `finished` is the size in bytes of one decoded patch that still needs processing, or 0 if none is needed.
pub(crate) fn patches_bytes(stored: &StoredArray, cut: &Cut, count: u64, finished: u64) -> Option<u64> {
    let (codec, descriptor) = stored;
    cut.place?;
    let bytes = ArrayDecoder::regions_scratch_bytes(*codec, descriptor, &cut.region, count).ok()?;
    // If there are many patches, the whole array is decoded.
    let whole = if is_made_of_others(descriptor) { descriptor.decoded_bytes().ok()? } else { 0 };
    let apart = bytes.saturating_add(finished.saturating_mul(count)).saturating_add(whole);
    Some(apart.max(whole_scratch_bytes(*codec, descriptor, &cut.region, count).unwrap_or(0)))
}

fn scaled(bytes: u64, wanted: u64, example: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(wanted) / u128::from(example.max(1));
    shardpack_format::saturating_u64(product)
}

/// Returns the size in bytes of the largest part for which a thread needs memory, or `None` if records with these
/// arrays are not decoded in parts. `is_finished` is true if elements are converted or moved after decoding.
pub(crate) fn part_bytes(
    stored: &StoredArray,
    field: &ArrayField,
    is_finished: bool,
    record_bytes: u64,
) -> Option<u64> {
    let (codec, descriptor) = stored;
    let region = field.cut.as_ref().map(|cut| &cut.region);
    let wanted = Wanted { region, layout: layout(field.channels_first), ..Wanted::ALL };
    let as_it_is = region.is_none() && !is_finished && wanted.layout == descriptor.layout;
    let takes = ArraySplit::takes(*codec, descriptor, &wanted);
    takes.then(|| ArraySplit::part_bytes(*codec, descriptor, record_bytes, as_it_is))
}

/// Returns true if the host decodes large values of this field in parts.
pub(crate) fn is_in_parts(kind: &FieldType) -> bool {
    match kind {
        FieldType::Raw(_) => true,
        FieldType::Array(field) => {
            let is_cut = |stored: &StoredArray| part_bytes(stored, field, false, 0).is_some();
            field.sampling.is_none() && !field.stored.is_empty() && field.stored.iter().all(is_cut)
        }
        FieldType::Scalar(_)
        | FieldType::OneHot(_)
        | FieldType::Picture(_)
        | FieldType::Volume(_)
        | FieldType::Mask(_) => false,
    }
}

/// Returns an upper bound for the scratch bytes of a mask: the whole mask plus the decoder's own memory.
pub(crate) fn mask_scratch_bytes(stored: &StoredArray) -> u64 {
    let (codec, descriptor) = stored;
    let decoder = ArrayDecoder::scratch_bytes(*codec, descriptor).unwrap_or(0);
    decoder.saturating_add(descriptor.decoded_bytes().unwrap_or(0))
}
