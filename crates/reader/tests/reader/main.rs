//! Integration tests of the crate, one module per topic.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[path = "../../../../tests/bounded/clock.rs"]
mod clock;
mod columns;
mod dataset;
mod faults;
mod hostile;
mod mutation;
mod salvage;
mod stream_threads;
#[path = "../support/mod.rs"]
mod support;
mod verify;
