//! Integration tests of the crate. Each topic has its own module, and all modules are linked into a single program.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod allocations;
mod own_decoder;
