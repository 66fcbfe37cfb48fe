//! The data of a report, its statistics, and the page that shows it.
//!
//! - [`data::Report`] holds all measurements. `shardpack report --json` prints it as JSON, and the page embeds it.
//! - [`stats`] computes percentiles, predictions of a whole from a sample, Bjøntegaard deltas and the Pareto
//!   front. [`want`] contains the rule that recommends a candidate.
//! - [`page`] renders the whole page, and [`fragment`] renders the part for a notebook.
//!
//! This crate opens no files and knows no codecs.
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
