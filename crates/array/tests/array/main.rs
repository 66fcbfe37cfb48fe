//! Integration tests of the crate, one module per topic. They form a single program, which saves link time.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod no_data;
mod region;
mod region_memory;
mod roundtrip;
mod source;
