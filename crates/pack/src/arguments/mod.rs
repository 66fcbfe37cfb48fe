//! The options of packing, adding and reporting as a caller names them: one field for each, with its
//! default. The command fills these structs from its command line, the Python package from keywords,
//! a report from a file of candidates; what the options mean together is checked here, for all.

mod add;
mod error;
mod pack;
mod report;
mod sizes;
mod source;
mod value;

pub use error::ArgumentError;
pub use pack::PackArguments;
pub use report::ReportArguments;
pub use shardpack_recipe::Word;
pub use sizes::{parse_size, spelled_size};
pub use source::SourceArguments;
pub use value::{Value, parse_part, parse_spatial, parse_target, parse_threads};

/// Result of this module.
pub type Result<T, E = ArgumentError> = std::result::Result<T, E>;

/// Largest cube that is read, and largest record or decoded field that is accepted, unless the caller
/// says otherwise: 4 GiB.
pub const MAX_BYTES: u64 = 4 << 30;

#[cfg(test)]
mod tests;
