//! Decodes records into rows. Each thread has its own decoders and memory.

mod added;
mod changes;
mod crops;
mod cuts;
mod decoder;
mod fields;
mod noise;
mod objects;
mod opening;
mod points;
mod polygons;
mod recipe;
mod record;
mod row;
mod scene_rows;
mod scratch;
mod shape;
mod staged;
mod tools;
mod transform;
mod unit;

pub(crate) use decoder::{RowDecoder, RowTarget};
pub(crate) use objects::align;
pub(crate) use points::stored_boxes;
pub(crate) use recipe::{Context, Recipe};
pub(crate) use scratch::{
    RowMemory, is_in_parts, mask_scratch_bytes, part_bytes, patches_bytes, scratch_bytes, scratch_bytes_in_parts,
};
pub(crate) use shape::{PictureMove, Shape, VisiblePart};
