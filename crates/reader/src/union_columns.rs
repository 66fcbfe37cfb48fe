//! The fields of a shard in a union of several datasets.

use shardpack_format::Schema;
use std::sync::Arc;

/// Columns of a shard, in the order of the union's fields.
#[derive(Debug)]
pub(crate) struct UnionColumns {
    pub(crate) schema: Schema,
    /// Position of each stored field in the records.
    pub(crate) stored: Vec<Option<usize>>,
    pub(crate) columns: Vec<UnionColumn>,
}

#[derive(Debug, Clone)]
pub(crate) enum UnionColumn {
    /// A column of the index.
    Own(usize),
    /// Labels converted to the classes of the union.
    Changed(Arc<[u8]>),
    /// Placeholders, because the samples have no values.
    Absent(Arc<[u8]>),
}
