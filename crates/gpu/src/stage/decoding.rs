//! Computes the memory that slots need, and decides which fields a device decodes.

use super::staging::Staging;
use crate::cubes;
use crate::driver::Pinned;
use crate::pictures::{self, PixelType, StagedLevels};
use shardpack_format::{ArrayDescriptor, Codec};
use shardpack_jpeg::{Interpolation, View};
use shardpack_loader::stage::{FieldRows, FieldSource, FieldSpec, RecordValue, SlotRoom};

/// The processor that decodes rows, and the source of their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoding {
    Host,
    /// Rows are decoded on the device, from records.
    Records,
    /// Rows are decoded on the device, from records or from values that stay there.
    Resident,
}

impl Decoding {
    /// Returns true for pictures, and for arrays and boxes of volumes if the kernels accept all examples. Pictures
    /// that the kernels do not accept are rejected later, one by one. Returns false if all arrays are plain zstd,
    /// because two threads of the host decompress their long frames faster than a device does.
    ///
    /// If the host decodes, returns true only for single pictures, whose rows its threads copy to staging memory.
    pub(super) fn takes(self, field: &FieldSpec<'_>) -> bool {
        match field.source {
            // The host writes the rows of clips itself.
            FieldSource::Picture { clip: Some(_), .. } if self == Self::Host => false,
            FieldSource::Picture { .. } => PixelType::of(field.dtype).is_some(),
            FieldSource::Array { .. } | FieldSource::Mask { .. } if self == Self::Host => false,
            FieldSource::Array { stored, .. } => {
                let fits = |(codec, descriptor): &(Codec, _)| cubes::takes(*codec, descriptor);
                let is_plain_zstd = stored.iter().all(|(codec, _)| *codec == Codec::Zstd);
                !stored.is_empty() && stored.iter().all(fits) && !is_plain_zstd
            }
            FieldSource::Mask { stored } => {
                !stored.is_empty() && stored.iter().all(|(codec, descriptor)| cubes::takes(*codec, descriptor))
            }
            _ => false,
        }
    }

    /// Returns true if the device decodes the array without the host, and needs at least half of it.
    pub(super) fn shares(self, example: &RecordValue<'_>) -> bool {
        match *example {
            RecordValue::Array { array, .. } if self != Self::Host => {
                !cubes::Most::of(array.descriptor, array.part).is_small() && cubes::is_taken_as_stored(&array)
            }
            _ => false,
        }
    }

    /// Returns the size in bytes of the staging memory for the given rows of a field. It holds the levels of pictures
    /// if the host decodes, and otherwise values in their stored form.
    pub(super) fn staged_bytes(self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        match self {
            Self::Host => level_bytes(field, rows),
            Self::Records | Self::Resident => stored_bytes(field, rows),
        }
    }

    /// Returns the size in bytes of the intermediate data that [`Self::memory_bytes`] does not derive from the staged
    /// bytes. For pictures, these are the tables, the levels if pictures are augmented, and the samples of whole
    /// pictures if several crops share them. For arrays, this is the amount by which the stored elements exceed the
    /// output. A part of an array needs all elements of its blocks.
    pub(super) fn between_bytes(self, field: &FieldSpec<'_>, sizes: &FieldRows) -> u64 {
        let &FieldRows { rows, output_bytes, .. } = sizes;
        let elements = output_bytes / field.dtype.bytes().max(1);
        match field.source {
            _ if self == Self::Host => 0,
            FieldSource::Picture { view, changes, .. } => {
                let levels = pictures::most_level_bytes(changes, elements / 3);
                // All crops of a picture share its samples, of which there are at most three for each pixel.
                let samples = sizes.pixels.saturating_mul(3);
                let tables = rows.saturating_mul(view_table_bytes(view, elements / rows.max(1) / 3));
                levels.saturating_add(samples).saturating_add(tables)
            }
            FieldSource::Array { stored, part } => {
                let scratch = |(_, descriptor): &(Codec, ArrayDescriptor)| {
                    let width = descriptor.stored.bytes();
                    let all = match part {
                        Some(_) => cubes::Most::of(descriptor, part).decoded_bytes().saturating_mul(rows),
                        None => elements.saturating_mul(width),
                    };
                    cubes::most_scratch_bytes(all, width, rows).saturating_sub(output_bytes)
                };
                stored.iter().map(scratch).max().unwrap_or(0)
            }
            // A view may need the whole mask.
            FieldSource::Mask { stored } => {
                let scratch = |(_, descriptor): &(Codec, ArrayDescriptor)| {
                    let all = descriptor.stored_bytes().unwrap_or(0).saturating_mul(rows);
                    cubes::most_scratch_bytes(all, descriptor.stored.bytes(), rows)
                };
                stored.iter().map(scratch).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns the size in bytes of a slot's device memory for uploads and intermediate data, without the output. The
    /// samples of a picture take about six times its compressed size. Crops need about half of the samples. Arrays
    /// need the bytes of their rows plus `between_bytes`. The result includes memory for copies on the device. These
    /// copies are placed after the largest possible upload, which leaves a gap among the words of pictures.
    pub(super) const fn memory_bytes(self, room: &SlotRoom) -> usize {
        if matches!(self, Self::Host) {
            // If the host decodes, only mosaics need intermediate memory.
            return staging_bytes(room).saturating_add(room.between_bytes);
        }
        let staged = room.staged_bytes.saturating_mul(3);
        let between = if staged > room.output_bytes { staged } else { room.output_bytes };
        let copied = if matches!(self, Self::Resident) { room.staged_bytes.saturating_mul(2) } else { 0 };
        let between = between.saturating_add(room.between_bytes);
        staging_bytes(room).saturating_add(between).saturating_add(copied).saturating_add(1 << 20)
    }
}

/// Returns the size in bytes of the tables that the kernels build for a picture whose view has `pixels` pixels: four
/// Huffman tables, and spans and weights for resizing.
fn view_table_bytes(view: View, pixels: u64) -> u64 {
    /// Size of the Huffman tables and spans, and of the weights unless the interpolation is bicubic.
    const FRAME_BYTES: u64 = 8 << 10;
    // The inverse transform reduces a crop to less than twice the height and width of the view. Each of its rows and
    // columns then has four weights of four bytes. The view is assumed to be at most twice as wide as high.
    let sides = 3 * pixels.isqrt();
    let weights = if view.interpolation == Interpolation::Bicubic { (32 * sides).max(16 << 10) } else { 0 };
    FRAME_BYTES.saturating_add(weights)
}

fn level_bytes(field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
    let levels = rows.output_bytes / field.dtype.bytes().max(1);
    levels.saturating_add(rows.rows.saturating_mul(16 + StagedLevels::TABLE_BYTES as u64))
}

/// Returns the size in bytes of the compressed data, as stored in the record, and of the tables. The tables of a
/// picture take 8 bytes per segment, which normally has at least 32 bytes, or 24 bytes per segment of an index, which
/// normally has at least 96 bytes. The tables of an array take 96 bytes per stream of 64 KiB.
fn stored_bytes(field: &FieldSpec<'_>, sizes: &FieldRows) -> u64 {
    let &FieldRows { rows, record_bytes, output_bytes: row_bytes, .. } = sizes;
    let parts = match field.source {
        // A crop that uses the samples of another one needs its own tables only for its output.
        FieldSource::Picture { is_shown_before: true, .. } => [0, 0, row_bytes / 64, rows << 10],
        FieldSource::Picture { .. } => [record_bytes, record_bytes / 4, row_bytes / 64, rows << 10],
        FieldSource::Array { stored, part } => {
            let most = |descriptor: &ArrayDescriptor| cubes::Most::of(descriptor, part);
            let needed = |(codec, descriptor): &(Codec, ArrayDescriptor)| match codec {
                // The host decodes parts of plain zstd arrays.
                Codec::Zstd if part.is_some() => {
                    record_bytes.max(descriptor.stored_bytes().unwrap_or(0).saturating_mul(rows))
                }
                _ => most(descriptor).coded_bytes(rows, record_bytes),
            };
            let needed = stored.iter().map(needed).max().unwrap_or(record_bytes);
            let tables = stored.iter().map(|(_, descriptor)| most(descriptor).table_bytes()).max().unwrap_or(0);
            [needed, needed / 16, row_bytes / 256, tables.saturating_add(8 << 10).saturating_mul(rows)]
        }
        FieldSource::Mask { stored } => {
            let needed = |(codec, descriptor): &(Codec, ArrayDescriptor)| match codec {
                Codec::Zstd => record_bytes.max(descriptor.stored_bytes().unwrap_or(0).saturating_mul(rows)),
                _ => record_bytes,
            };
            let needed = stored.iter().map(needed).max().unwrap_or(record_bytes);
            // The tables of the view have 4 bytes for each row and column. Unless the view is small, this is less
            // than an eighth of its pixels.
            [needed, needed / 16, row_bytes / 8, rows.saturating_mul(12 << 10)]
        }
        _ => [0; 4],
    };
    parts.into_iter().fold(0, u64::saturating_add)
}

pub(super) const fn staging_bytes(room: &SlotRoom) -> usize {
    Staging::<Pinned>::memory_bytes(room.rows, room.staged_bytes, room.host_bytes)
}
