//! The integration tests of the crate, one module a topic, in one program: it is linked once.
#![allow(missing_docs, unreachable_pub)]

mod fixtures;
mod properties;
