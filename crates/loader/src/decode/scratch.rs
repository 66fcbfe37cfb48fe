//! What decoding an array takes besides its row, before anything is decoded.

use super::array_patches::is_made_of_others;
use super::array_row::layout;
use super::held::held_scratch_bytes;
use crate::fields::{Cut, From};
use shardpack_array::{ArrayDecoder, ArraySplit, UNIT_BYTES, Wanted};
use shardpack_format::{ArrayDescriptor, Codec, Layout, Result};

/// What decoding one array takes besides its row, which takes `row_bytes` in elements of so many: an
/// array like the example, but perhaps of more or fewer pixels.
pub(crate) fn scratch_bytes(
    (codec, descriptor): &(Codec, ArrayDescriptor),
    cut: Option<&Cut>,
    (row_bytes, element_bytes): (u64, u64),
    becomes: Becomes,
) -> Result<u64> {
    let decoded_bytes = (row_bytes / element_bytes.max(1)).saturating_mul(descriptor.decoded.bytes());
    // Rows that become columns are held until all are there.
    let held = if becomes.rows_are_columns { row_bytes } else { 0 };
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
        bytes.saturating_add(if becomes.others { decoded_bytes } else { 0 })
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
pub(crate) fn scratch_bytes_in_parts(
    (codec, descriptor): &(Codec, ArrayDescriptor),
    (row_bytes, element_bytes): (u64, u64),
    becomes: Becomes,
) -> Result<u64> {
    let in_order = ArrayDescriptor { layout: Layout::AsShape, ..descriptor.clone() };
    let unit = (UNIT_BYTES as u64 / descriptor.stored.bytes()).saturating_mul(element_bytes);
    let held = if becomes.rows_are_columns { unit.min(row_bytes) } else { 0 };
    Ok(ArrayDecoder::scratch_bytes(*codec, &in_order)?.saturating_add(held))
}

/// What decoding so many patches of an array takes besides their rows; `None` if it is not cut.
/// `finished` are the bytes of one that something becomes of.
pub(crate) fn patches_bytes(
    (codec, descriptor): &(Codec, ArrayDescriptor),
    cut: &Cut,
    (count, finished): (u64, u64),
) -> Option<u64> {
    cut.place?;
    let bytes = ArrayDecoder::regions_scratch_bytes(*codec, descriptor, &cut.region, count).ok()?;
    // The whole array, if there are patches enough.
    let whole = if is_made_of_others(descriptor) { descriptor.decoded_bytes().ok()? } else { 0 };
    let apart = bytes.saturating_add(finished.saturating_mul(count)).saturating_add(whole);
    Some(apart.max(held_scratch_bytes(*codec, descriptor, &cut.region, count).unwrap_or(0)))
}

/// What becomes of decoded elements, as far as memory goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Becomes {
    /// They become others, or go elsewhere.
    pub(crate) others: bool,
    pub(crate) rows_are_columns: bool,
}

/// `bytes`, as much more as `wanted` is more than `example`.
fn scaled(bytes: u64, wanted: u64, example: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(wanted) / u128::from(example.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// Whether large records of arrays like this one are cut into parts, and most bytes of a part that
/// a thread has to have room for.
pub(crate) fn part_bytes(
    (codec, descriptor): &(Codec, ArrayDescriptor),
    (channels_first, cut): (bool, Option<&Cut>),
    is_finished: bool,
    record_bytes: u64,
) -> Option<u64> {
    let region = cut.map(|cut| &cut.region);
    let wanted = Wanted { region, layout: layout(channels_first), ..Wanted::ALL };
    let as_it_is = region.is_none() && !is_finished && wanted.layout == descriptor.layout;
    let takes = ArraySplit::takes(*codec, descriptor, &wanted);
    takes.then(|| ArraySplit::part_bytes(*codec, descriptor, record_bytes, as_it_is))
}

/// Whether large values of this field are made in parts by the host.
pub(crate) fn is_in_parts(from: &From) -> bool {
    match from {
        From::Raw { .. } => true,
        From::Array { channels_first, cut, stored, .. } => {
            let how = (*channels_first, cut.as_ref());
            !stored.is_empty() && stored.iter().all(|stored| part_bytes(stored, how, false, 0).is_some())
        }
        From::Scalar(_) | From::OneHot { .. } | From::Picture { .. } | From::Volume(_) | From::Mask { .. } => false,
    }
}
