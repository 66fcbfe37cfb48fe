//! Records decoded to their rows: what one thread does, with decoders and memory of its own.

mod array_patches;
mod array_row;
mod bench;
mod held;
mod mask;
mod mend;
mod narrow;
mod noise;
mod objects;
mod opening;
mod picture_row;
mod pictures;
mod points;
mod polygons;
mod recipe;
mod record;
mod row;
mod scene_rows;
mod scratch;
mod shape;
mod transform;
mod values;
mod volumes;

pub(crate) use bench::Bench;
pub(crate) use mask::mask_scratch_bytes;
pub(crate) use recipe::{Common, Recipe};
pub(crate) use scratch::{Becomes, is_in_parts, part_bytes, patches_bytes, scratch_bytes, scratch_bytes_in_parts};
