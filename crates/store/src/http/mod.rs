//! HTTP below `object_store`: refusals, the client, and the guard in front of it.

mod client;
mod guard;
mod refusal;

pub(crate) use client::switch;
pub(crate) use guard::{GuardedConnector, bounded};
pub(crate) use refusal::{NoAnswer, Refusal};
