//! shardpack codec

mod array;

pub use array::Array;
