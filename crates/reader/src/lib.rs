//! Reads shardpack datasets: opens them, looks up samples, streams samples in stored order, verifies all bytes,
//! and salvages intact records from damaged shards.
//!
//! ```no_run
//! use shardpack_reader::Dataset;
//! let dataset = Dataset::open("train")?;
//! println!("{} samples, fields {:?}", dataset.len(), dataset.schema().user_fields().collect::<Vec<_>>());
//! let sample = dataset.get(7)?;
//! println!("{}: {} bytes", sample.key(), sample.record_bytes().len());
//! # Ok::<(), shardpack_reader::Error>(())
//! ```
//!
//! Files are read with `pread` and never mapped, because reading a mapped file that has been truncated kills
//! the process. Every byte that the reader returns has been checked against its CRC32, unless the caller
//! disabled this. No file is trusted: lengths are checked against [`Limits`] before memory is allocated, names
//! cannot lead out of the dataset's folder, and no input makes the reader panic.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod ahead;
mod anatomy;
mod buffers;
mod cast;
mod check;
mod column;
mod columns_files;
mod concat;
mod dataset;
mod decode;
mod error;
mod fetch;
mod generation;
mod handles;
mod head;
mod key_table;
mod keys;
mod manifest_file;
pub mod mask_names;
mod opening;
mod owned_record;
mod salvage;
mod sample;
mod scalar;
mod scratch;
mod shard;
mod stream;
mod union;
mod union_columns;
mod verify;

pub use column::Column;
pub use dataset::{Dataset, ShardInfo};
pub use error::{Error, Result, SampleName};
pub use opening::DatasetOptions;
pub use salvage::{
    Lost, MetadataSource, Newest, Rebuilt, SalvageFolder, SalvageScan, SalvageSource, Salvaged, WholeRecord,
    rebuild_manifest,
};
pub use sample::{Image, RecordView, Sample};
pub use scalar::Scalar;
pub use shard::{Shard, ShardOptions};
pub use shardpack_array::{Array, ArrayDecoder, Bands};
pub use shardpack_format::Limits;
pub use stream::{Samples, Stream};
pub use verify::{
    DecodePicture, OnProgress, OnShard, Problem, Progress, VerifyOptions, VerifyReport, verify, verify_in,
};

/// Checks record bytes, for crates that read the records themselves, such as the loader.
pub mod raw {
    pub use crate::check::Crc;
    pub use crate::decode::{name_field, orientation};
    pub use crate::fetch::slice;
    pub use crate::handles::ShardFile;
    pub use crate::head::{HEAD_BYTES, read_head};
    pub use crate::scratch::{STEP_BYTES, room};
}
