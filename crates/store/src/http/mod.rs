//! HTTP below `object_store`: refusals → the client → the guard before it.

mod client;
mod guard;
mod refusal;

pub(crate) use client::switch;
pub(crate) use guard::GuardedConnector;
pub(crate) use refusal::{NoAnswer, Refusal};
