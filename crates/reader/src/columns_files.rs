//! Finds the fields that later generations have added to the samples of a shard, in its columns files (spec §3.6).

use crate::error::Result;
use crate::handles::{Handles, ShardFile};
use crate::shard::{Shard, ShardOptions};
use crate::union_columns::{StoredPlace, UnionColumn, UnionColumns};
use shardpack_format::{Manifest, Schema, bug, saturating_u32, to_usize};
use std::sync::Arc;

/// Opens the columns files of shard `number`. Returns the shard with the fields of `schema`, which are its own and the
/// added ones.
pub(crate) fn with_columns_files(
    shard: Shard,
    number: usize,
    manifest: &Manifest,
    handles: &Arc<Handles>,
    schema: &Schema,
    options: &ShardOptions,
) -> Result<Shard> {
    let (mut files, number) = (Vec::new(), saturating_u32(number));
    for (addition, columns) in manifest.columns.iter().enumerate() {
        let entry = columns.files.get(to_usize(number)).unwrap_or_else(|| bug("a shard has no columns file"));
        let file = Shard::from_file(ShardFile::pooled(handles, &entry.name)?, options.clone(), None)?;
        let same = manifest.check_columns_file(addition, number, file.footer(), file.index().metadata());
        let same = same.and_then(|()| shard.index().check_columns(file.index()));
        same.map_err(|e| e.in_file(file.path().to_string_lossy()))?;
        files.push(file);
    }
    let union = union(&shard, &files, schema);
    Ok(shard.with_files(files.into(), union))
}

fn union(shard: &Shard, files: &[Shard], schema: &Schema) -> UnionColumns {
    let own = &shard.index().metadata().schema;
    let mut stored: Vec<_> =
        (0..own.stored_count()).map(|position| Some(StoredPlace { file: None, position })).collect();
    let mut columns: Vec<_> = (0..own.scalars().count()).map(UnionColumn::Own).collect();
    for (file, added) in files.iter().enumerate() {
        let own = &added.index().metadata().schema;
        stored.extend((0..own.stored_count()).map(|position| Some(StoredPlace { file: Some(file), position })));
        columns.extend((0..own.scalars().count()).map(|position| UnionColumn::Added { file, position }));
    }
    UnionColumns { schema: schema.clone(), stored, columns }
}
