//! The integration tests of this crate. Each topic is a module of the same program, so only one program is linked.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod aligned;
mod aligned_mixed;
mod aligned_moved;
mod aligned_refused;
mod basics;
#[path = "../../../../tests/bounded/mod.rs"]
mod bounded;
mod columns;
mod crops;
mod dtypes;
mod epochs;
mod far;
mod finish;
mod hanging;
mod in_parts;
mod limits;
#[path = "../loader_support/mod.rs"]
mod loader_support;
mod mixing;
mod no_data;
mod order;
mod order_mixing;
mod order_resume;
mod order_scale;
mod order_split;
mod patches;
mod pictures;
mod reads;
mod repeats;
mod resume;
mod scenes;
mod several;
mod slots;
mod staged;
mod staged_in_parts;
#[path = "../../../reader/tests/support/mod.rs"]
mod support;
mod transform;
mod trouble;
mod union;
mod volumes;
mod window;
