//! The shardpack byte layout: parse and lay out headers, records, indexes, footers and manifests.
//!
//! Layout only: no I/O, no threads, no codec libraries, no `unsafe`. Each module names the section of `format-spec/` that it implements.
//! Every parser takes bytes from strangers: it never panics and allocates nothing that [`Limits`] has not allowed.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod bytes;
mod codec_id;
mod descriptor;
mod dtype;
mod error;
mod limits;

pub use bytes::{ALIGNMENT, align_up, pad_to_alignment};
pub use codec_id::Codec;
pub use descriptor::{ArrayDescriptor, Codes, Layout, MAX_RANK, Transform};
pub use dtype::Dtype;
pub use error::{Error, Place, Result};
pub use limits::Limits;
