//! The integration tests of the crate, one module per topic, in one program that is linked once.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod browser;
mod made_up;
mod page;
