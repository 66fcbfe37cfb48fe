//! Declares each option of packing, adding and reporting once, by name and with its help text. The command
//! generates its arguments from these tables. The Python package and candidate files look up names in them.

mod front;
mod report;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use front::refuse_unknown;
pub use report::ReportArguments;
pub use source::{READING, of_reading, reading};
pub(crate) use source::{abouts, no_table};

use shardpack_recipe::{
    About, ArgumentError, Declared, Given, OptionValue, StorageOptions, Takes, Word, is_given, parse_size, read,
    spelled_size, values_of, words,
};
