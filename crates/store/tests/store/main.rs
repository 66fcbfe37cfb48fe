//! Integration tests of the crate, with one module per topic.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod attacks;
mod bucket;
mod cache;
mod cached_loader;
mod faulty;
mod hub;
mod liar;
#[path = "../../../loader/tests/loader_support/mod.rs"]
mod loader_support;
mod made;
mod remote;
mod schedules;
mod server;
mod simulation;
#[path = "../../../reader/tests/support/mod.rs"]
mod support;
mod upload;
