//! The data of a report, its statistics, and the page that presents it.
//!
//! - [`data::Report`] contains all measurements. `shardpack report --json` prints it as JSON, and the page
//!   embeds it.
//! - [`stats`] computes percentiles, predictions of the whole set from a sample, Bjøntegaard deltas and the
//!   Pareto front. [`want`] contains the rule that recommends a candidate.
//! - [`page`] renders the whole page, and [`fragment`] renders the part for a notebook.
//!
//! This crate does not open files and does not depend on any codec.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

pub mod conclude;
pub mod data;
mod page;
mod plot;
pub mod stats;
pub mod want;
pub mod words;

pub use page::{fragment, page};
