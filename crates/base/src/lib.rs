//! Shared building blocks of the codecs and the sample order: keyed random numbers, checked slices of buffers,
//! markers in entropy-coded data, normalisation factors from mean and standard deviation, TIFF directories, the
//! memory use of the process, resizing of RGB, and loops compiled for SIMD.
#![forbid(unsafe_code)]

mod draw;
mod factors;
mod marks;
pub mod parts;
mod philox;
mod process;
mod resize;
pub mod tiff;
mod vector;

pub use draw::{DrawKey, Draws};
pub use factors::factors;
pub use marks::Marks;
pub use philox::{halves, philox4x32_10};
pub use process::peak_rss_bytes;
pub use resize::{RgbWindow, resize_rgb};
pub use vector::vectorised;
