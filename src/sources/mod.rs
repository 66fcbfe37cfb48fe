//! sources
pub mod bad;
pub mod cubes;
pub mod error;
pub mod jpeg_header;
pub mod picture;
mod read_at;
#[cfg(test)]
mod testing;
mod tiff_header;
mod walk;
pub use bad::{BadInput, BadInputs};
pub use error::SourceError;
