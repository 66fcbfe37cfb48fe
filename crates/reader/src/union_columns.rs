//! The columns of a shard in a union of several datasets.

use shardpack_format::Schema;
use std::sync::Arc;

/// The columns of a shard, in the order of the union's fields.
#[derive(Debug)]
pub(crate) struct UnionColumns {
    pub(crate) schema: Schema,
    /// Position of each stored field of the union in this shard's records, or `None` if they lack the field.
    pub(crate) stored: Vec<Option<usize>>,
    pub(crate) columns: Vec<UnionColumn>,
}

#[derive(Debug, Clone)]
pub(crate) enum UnionColumn {
    /// The column at this position in the shard's own index.
    Own(usize),
    /// Labels of the shard, converted to the union's classes.
    Changed(Arc<[u8]>),
    /// Placeholders, because the samples have no values for this field.
    Absent(Arc<[u8]>),
}
