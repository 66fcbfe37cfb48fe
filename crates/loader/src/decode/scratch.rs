//! Memory that decoding an array takes besides its row, before anything is decoded.

use super::fields::{is_made_of_others, layout, whole_scratch_bytes};
use crate::fields::{ArrayField, Cut, FieldType};
use shardpack_array::{ArrayDecoder, ArraySplit, UNIT_BYTES, Wanted};
use shardpack_format::{ArrayDescriptor, Codec, Layout, Result};

/// An example of how arrays of a field are stored.
type StoredArray = (Codec, ArrayDescriptor);

/// Rows of arrays, as far as memory goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowMemory {
    /// Of a row.
    pub(crate) bytes: u64,
    /// Of an element of it.
    pub(crate) element_bytes: u64,
    /// Decoded elements become others, or go elsewhere.
    pub(crate) is_finished: bool,
    pub(crate) rows_are_columns: bool,
}

/// Bytes that decoding one array takes besides its row: an array like the example, but perhaps of more or fewer pixels.
pub(crate) fn scratch_bytes(stored: &StoredArray, cut: Option<&Cut>, row: RowMemory) -> Result<u64> {
    let (codec, descriptor) = stored;
    let decoded_bytes = (row.bytes / row.element_bytes.max(1)).saturating_mul(descriptor.decoded.bytes());
    // Rows that become columns are held until all are there.
    let held = if row.rows_are_columns { row.bytes } else { 0 };
    let bytes = if let Some(cut) = cut {
        let mut region = cut.region.clone();
        if cut.place.is_none()
            && let &[height, width, ..] = &*descriptor.shape
        {
            (region.height, region.width) = (height, width);
        }
        let bytes = ArrayDecoder::region_scratch_bytes(*codec, descriptor, &region)?;
        let bytes = scaled(bytes, decoded_bytes, region.shape_of(descriptor)?.bytes);
        // Stored elements are not those of the row.
        bytes.saturating_add(if row.is_finished { decoded_bytes } else { 0 })
    } else {
        let bytes = ArrayDecoder::scratch_bytes(*codec, descriptor)?;
        match descriptor.layout {
            Layout::BandMajor => scaled(bytes, decoded_bytes, descriptor.decoded_bytes()?),
            _ => bytes,
        }
    };
    Ok(bytes.saturating_add(held))
}

/// The same of one part of an array.
pub(crate) fn scratch_bytes_in_parts(stored: &StoredArray, row: RowMemory) -> Result<u64> {
    let (codec, descriptor) = stored;
    let in_order = ArrayDescriptor { layout: Layout::AsShape, ..descriptor.clone() };
    let unit = (UNIT_BYTES as u64 / descriptor.stored.bytes()).saturating_mul(row.element_bytes);
    let held = if row.rows_are_columns { unit.min(row.bytes) } else { 0 };
    Ok(ArrayDecoder::scratch_bytes(*codec, &in_order)?.saturating_add(held))
}

/// Bytes that decoding so many patches of an array takes besides their rows; `None` if it is not cut.
/// `finished` are the bytes of one that something becomes of.
pub(crate) fn patches_bytes(stored: &StoredArray, cut: &Cut, count: u64, finished: u64) -> Option<u64> {
    let (codec, descriptor) = stored;
    cut.place?;
    let bytes = ArrayDecoder::regions_scratch_bytes(*codec, descriptor, &cut.region, count).ok()?;
    // The whole array, if there are patches enough.
    let whole = if is_made_of_others(descriptor) { descriptor.decoded_bytes().ok()? } else { 0 };
    let apart = bytes.saturating_add(finished.saturating_mul(count)).saturating_add(whole);
    Some(apart.max(whole_scratch_bytes(*codec, descriptor, &cut.region, count).unwrap_or(0)))
}

/// `bytes`, as much more as `wanted` is more than `example`.
fn scaled(bytes: u64, wanted: u64, example: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(wanted) / u128::from(example.max(1));
    shardpack_format::saturating_u64(product)
}

/// Whether large records of arrays like this one are cut into parts, and most bytes of a part that
/// a thread has to have room for. With `is_finished`, decoded elements become others.
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

/// Whether large values of this field are made in parts by the host.
pub(crate) fn is_in_parts(kind: &FieldType) -> bool {
    match kind {
        FieldType::Raw(_) => true,
        FieldType::Array(field) => {
            let is_cut = |stored: &StoredArray| part_bytes(stored, field, false, 0).is_some();
            !field.stored.is_empty() && field.stored.iter().all(is_cut)
        }
        FieldType::Scalar(_)
        | FieldType::OneHot(_)
        | FieldType::Picture(_)
        | FieldType::Volume(_)
        | FieldType::Mask(_) => false,
    }
}

/// Bytes that decoding a mask takes besides its row: at most all of it, and what its decoder takes.
pub(crate) fn mask_scratch_bytes(stored: &StoredArray) -> u64 {
    let (codec, descriptor) = stored;
    let decoder = ArrayDecoder::scratch_bytes(*codec, descriptor).unwrap_or(0);
    decoder.saturating_add(descriptor.decoded_bytes().unwrap_or(0))
}
