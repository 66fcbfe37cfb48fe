//! Integration tests of the crate. All modules are linked into a single program.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod browser;
mod made_up;
mod page;
