//! Statistics of the measurements: percentiles, the prediction of the whole from a sample, curves,
//! the front.

mod bjontegaard;
mod pareto;
mod spread;
mod whole;

pub use bjontegaard::bjontegaard_percent;
pub use pareto::pareto_front;
pub use spread::{distribution, histogram};
pub use whole::{Drawn, Stratum, needed, predict};
