//! The data of a report, the statistics on it, and the page that shows it.
//!
//! - [`data::Report`] is everything that was measured. As JSON it is what `shardpack report --json`
//!   prints, and what is embedded in the page.
//! - [`stats`] has percentiles, the prediction of a whole from a sample, Bjøntegaard deltas and the
//!   Pareto front; [`want`], the rule by which a candidate is recommended.
//! - [`page`] makes the page of it, [`fragment`] the piece that a notebook shows.
//!
//! Nothing here opens a file or knows a codec: data in, text out.
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
