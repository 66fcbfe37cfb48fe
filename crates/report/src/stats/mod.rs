//! Statistics of the measurements: percentiles, predictions of the whole set from a sample, Bjøntegaard
//! deltas, and the Pareto front.

mod bjontegaard;
mod pareto;
mod spread;
mod whole;

pub use bjontegaard::bjontegaard_percent;
pub use pareto::pareto_front;
pub use spread::{distribution, histogram};
pub use whole::{Drawn, Stratum, needed, predict};
