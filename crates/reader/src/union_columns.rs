//! The columns of a shard in a union of several datasets, or of a shard and its columns files.

use shardpack_format::Schema;
use std::sync::Arc;

/// The columns of a shard, in the order of the union's fields.
#[derive(Debug)]
pub(crate) struct UnionColumns {
    pub(crate) schema: Schema,
    /// Place of each stored field of the union, or `None` if the samples have no values for it.
    pub(crate) stored: Vec<Option<StoredPlace>>,
    pub(crate) columns: Vec<UnionColumn>,
}

/// Place of a stored field's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredPlace {
    /// Number of the columns file with the field, or `None` if the shard's own records have it.
    pub(crate) file: Option<usize>,
    /// Position among the stored fields of these records.
    pub(crate) position: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum UnionColumn {
    /// The column at this position in the shard's own index.
    Own(usize),
    /// The column at this position in the index of a columns file.
    Added { file: usize, position: usize },
    /// Labels of the shard, converted to the union's classes.
    Changed(Arc<[u8]>),
    /// Placeholders, because the samples have no values for this field.
    Absent(Arc<[u8]>),
}
