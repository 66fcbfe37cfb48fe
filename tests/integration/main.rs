//! Integration tests of the crate `shardpack`, with one module per topic.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

#[path = "../bounded/mod.rs"]
mod bounded;
mod corpus;
mod damage;
mod facade;
mod fixtures;
mod help;
mod hints;
#[path = "../../fuzz/src/jpeg.rs"]
mod jpeg;
mod keywords;
mod layers;
mod lists;
#[path = "../../fixtures/make/mod.rs"]
mod make;
#[path = "../making/mod.rs"]
mod making;
mod mutations;
mod packing;
#[path = "../../fuzz/src/payload.rs"]
mod payload;
mod random;
#[path = "../reading/mod.rs"]
mod reading;
mod salvage;
mod segments;
#[path = "../../fuzz/src/shard.rs"]
mod shard;
#[path = "../../fuzz/src/sources.rs"]
mod sources;
#[path = "../../fuzz/src/targets.rs"]
mod targets;
mod unpacking;
