//! Integration tests of the crate, one module per topic, in a single program that is linked once.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod allocations;
mod own_decoder;
