//! The HTTP client that `object_store` uses, the guard in front of it, and refusals.

mod client;
mod guard;
mod refusal;

pub(crate) use client::switch;
pub(crate) use guard::{GuardedConnector, bounded};
pub(crate) use refusal::{NoAnswer, Refusal};
