//! The HTTP client for `object_store`, its guard, and refusals.

mod client;
mod guard;
mod refusal;

pub(crate) use client::switch;
pub(crate) use guard::{GuardedConnector, bounded};
pub(crate) use refusal::{NoAnswer, Refusal};
