//! sources
pub mod cubes;
pub mod jpeg_header;
#[cfg(test)]
mod testing;
