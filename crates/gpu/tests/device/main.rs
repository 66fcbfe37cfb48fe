//! Integration tests of the crate, one module per topic, in one program so that it is linked once.
#![allow(missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation)]
// These tests share files with other tests and use only parts of them.
#![allow(dead_code)]

mod cubes;
#[path = "../../src/stage/tests/datasets.rs"]
mod datasets;
#[path = "../../src/cubes/tests/generate.rs"]
mod generate;
#[path = "../../src/stage/tests/hurt.rs"]
mod hurt;
#[path = "../../src/pictures/tests/jpegs.rs"]
mod jpegs;
mod loader;
#[path = "../../../loader/tests/loader_support/mod.rs"]
mod loader_support;
#[path = "../../../reader/tests/support/mod.rs"]
mod support;
