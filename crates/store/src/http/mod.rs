//! The HTTP client for `object_store`, the guard that checks the responses, and the errors of both.

mod client;
mod guard;
mod refusal;

pub(crate) use client::switch;
pub(crate) use guard::{GuardedConnector, bounded};
pub(crate) use refusal::{NoAnswer, Refusal};
