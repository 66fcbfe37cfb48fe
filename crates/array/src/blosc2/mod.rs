//! Standard Blosc2 chunks (spec §5.3). Their layout lets a GPU decode the streams separately, and any Blosc2 reader can
//! read them. Chunks that other programs wrote to cube files have their own decoder (`foreign`).

mod bits;
mod chunk;
mod decode;
mod delta;
mod encode;
mod ffi;
mod foreign;
#[cfg(test)]
mod golden_tests;
mod payload;
pub(crate) mod planes;
mod shuffle;
#[cfg(test)]
mod test_units;
#[cfg(test)]
mod tests;

pub use chunk::{
    Chunk, ChunkContent, ChunkStream, Filters, HEADER_BYTES, STREAM_BYTES, Shuffle, StreamCoder, StreamKind,
};
pub(crate) use decode::Decoder;
pub use encode::ZSTD_LEVELS;
pub(crate) use encode::{Blosc2Coder, Encoder};
pub use foreign::{ForeignChunk, ForeignDecoder, fill_special};
pub(crate) use payload::walk_chunks;
