//! Foundations of the codecs and the order: random numbers by key, checked parts of buffers, markers in
//! entropy-coded bytes, factors of mean and standard deviation, TIFF directories, process memory, and loops
//! for the processor's vector instructions.
#![forbid(unsafe_code)]

mod draw;
mod factors;
mod marks;
pub mod parts;
mod philox;
mod process;
pub mod tiff;
mod vector;

pub use draw::{DrawKey, Draws};
pub use factors::factors;
pub use marks::Marks;
pub use philox::{halves, philox4x32_10};
pub use process::peak_rss_bytes;
pub use vector::vectorised;
