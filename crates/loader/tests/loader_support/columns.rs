//! Moves fields of a dataset into columns files (spec §3.6). Loaders must not notice a difference.

use super::super::support::{ID, entry, finish, scratch};
use shardpack_format::*;
use shardpack_reader::{Dataset, Shard};

/// Copies a dataset. The fields `names` of the copy are in columns files.
pub fn moved(from: &Dataset, names: &[&str]) -> tempfile::TempDir {
    let dir = scratch();
    let old = from.manifest().unwrap();
    let (added, kept): (Vec<_>, Vec<_>) =
        old.schema.fields().iter().cloned().partition(|field| names.contains(&field.name.as_str()));
    let [kept, added] = [kept, added].map(|fields| Schema::new(fields).unwrap());
    let metadata = Metadata { schema: kept.clone(), shards: Some(old.shards.len() as u32), ..Default::default() };
    let mut manifest = Manifest::new(ID, metadata.clone());
    let mut columns = AddedColumns { schema: added.clone(), files: Vec::new() };
    for number in from.shard_numbers() {
        let shard = from.shard(number).unwrap();
        let mut identity = Identity::new(ID, number as u32);
        let put = |name: String, identity: Identity, metadata: &Metadata| {
            let bytes = part(&shard, identity, metadata);
            std::fs::write(dir.path().join(&name), &bytes).unwrap();
            entry(&name, &bytes)
        };
        manifest.push(put(shard_name(identity.shard_number), identity, &metadata));
        identity.optional_features = COLUMNS_FILE;
        let of_columns = Metadata { schema: added.clone(), ..metadata.clone() };
        columns.files.push(put(columns_name(identity.shard_number, 2), identity, &of_columns));
    }
    let manifest = manifest.with_columns(2, columns);
    std::fs::write(dir.path().join(MANIFEST_NAME), manifest.encode().unwrap()).unwrap();
    dir
}

/// Returns a shard with some fields of another one.
fn part(shard: &Shard, identity: Identity, metadata: &Metadata) -> Vec<u8> {
    let (own, schema) = (&shard.index().metadata().schema, &metadata.schema);
    let mut out = identity.encode_header().to_vec();
    let mut index = IndexBuilder::new(schema);
    for number in 0..shard.len() {
        let mut buffer = Vec::new();
        let record = shard.record(number, &mut buffer).unwrap();
        let value = |field: &Field| record.fields[own.stored_position(&field.name).unwrap()];
        let values: Vec<_> = schema.stored().map(value).collect();
        let scalar = |(name, _)| shard.index().scalar(number, own.scalar_position(name).unwrap().0).unwrap();
        let scalars = schema.scalars().map(scalar).collect::<Vec<_>>().concat();
        let fields = values.iter().map(|value| {
            let FieldValue { codec, decoded_bytes, descriptor, bytes } = value.as_ref()?;
            let stored_bytes = bytes.len() as u64;
            Some(StoredField { codec: *codec, stored_bytes, decoded_bytes: *decoded_bytes, descriptor })
        });
        let (fields, id) = (fields.collect::<Vec<_>>(), record.frame.sample_id);
        let mut builder =
            RecordBuilder::new(Vec::new(), schema, identity.shard_number, id, record.key, &scalars, &fields).unwrap();
        for (i, value) in values.iter().enumerate().filter_map(|(i, value)| Some((i, value.as_ref()?))) {
            builder.field_mut(i).copy_from_slice(value.bytes);
        }
        let (bytes, frame) = builder.finish();
        index.push(&frame, record.key, &scalars).unwrap();
        out.extend(bytes);
    }
    finish(out, identity, shard.len(), &index.encode(&metadata.encode().unwrap()).unwrap())
}
