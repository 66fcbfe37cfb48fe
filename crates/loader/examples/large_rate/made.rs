//! Writes datasets of copies of one synthetic cube, one dataset for each storage setting.

use crate::{Outcome, cube};
use half::f16;
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, EncodedArray, Filter, ValueRule};
use shardpack_format::{
    DatasetId, Dtype, Field, FieldKind, Footer, Identity, IndexBuilder, Metadata, RecordBuilder, Schema, StoredField,
};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Storage settings to compare. Each gets its own dataset.
pub(crate) const FORMS: [ArraySettings; 3] = [
    form(Coder::Blosc2Lz4, Filter::Bitshuffle, true),
    form(Coder::Blosc2Lz4, Filter::Shuffle, false),
    form(Coder::Raw, Filter::None, false),
];

const fn form(coder: Coder, filter: Filter, band_difference: bool) -> ArraySettings {
    let (values, layout) = (ValueRule::Keep, ArrayLayout::AsShape);
    ArraySettings { values, coder, level: None, filter, band_difference, layout }
}

pub(crate) fn cube() -> Outcome<Array> {
    let floats = cube::synthetic()?.into_bytes();
    let halves = floats.as_chunks().0.iter().flat_map(|value| f16::from_f32(f32::from_le_bytes(*value)).to_le_bytes());
    Ok(Array::new(Dtype::F16, cube::SHAPE.to_vec(), halves.collect())?)
}

/// Writes a shard with `cubes` copies of the cube. The shard can be read without a manifest.
pub(crate) fn write(shard: &Path, cubes: u64, cube: &Array, settings: ArraySettings) -> Outcome<()> {
    let EncodedArray { codec, descriptor, payload, .. } = ArrayEncoder::new(settings)?.encode(cube, None)?;
    let schema = Schema::new(vec![Field::stored("cube", FieldKind::Array)])?;
    let metadata = Metadata { schema: schema.clone(), shards: Some(1), ..Metadata::default() };
    let identity = Identity::new(DatasetId([7; 16]), 0);
    let (mut out, mut index) = (BufWriter::new(File::create(shard)?), IndexBuilder::new(&schema));
    let (header, encoded) = (identity.encode_header(), descriptor.encode()?);
    out.write_all(&header)?;
    let mut index_offset = header.len() as u64;
    for id in 0..cubes {
        let key = format!("cube-{id}");
        let (stored_bytes, decoded_bytes) = (payload.len() as u64, descriptor.stored_bytes()?);
        let field = StoredField { codec, stored_bytes, decoded_bytes, descriptor: &encoded };
        let mut record = RecordBuilder::new(Vec::new(), &schema, 0, id, &key, &[], &[Some(field)])?;
        record.field_mut(0).copy_from_slice(&payload);
        let (record, frame) = record.finish();
        index.push(&frame, &key, &[])?;
        out.write_all(&record)?;
        index_offset += record.len() as u64;
    }
    let index = index.encode(&metadata.encode()?)?;
    let (index_bytes, index_crc32) = (index.len() as u64, crc32fast::hash(&index));
    let footer = Footer { identity, record_count: cubes, index_offset, index_bytes, index_crc32 };
    out.write_all(&index)?;
    out.write_all(&footer.encode())?;
    Ok(out.flush()?)
}
