//! The fields of a shard in a union of several datasets.

use shardpack_format::Schema;
use std::sync::Arc;

/// What a shard holds, as the union counts it.
#[derive(Debug)]
pub(crate) struct UnionColumns {
    pub(crate) schema: Schema,
    /// For each stored field its place in the records.
    pub(crate) stored: Vec<Option<usize>>,
    pub(crate) columns: Vec<UnionColumn>,
}

/// The values of a scalar field.
#[derive(Debug, Clone)]
pub(crate) enum UnionColumn {
    /// Column of the index.
    Own(usize),
    /// Labels with the numbers of the union.
    Changed(Arc<[u8]>),
    /// The samples have none: what stands for it.
    Absent(Arc<[u8]>),
}
