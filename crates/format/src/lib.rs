//! The byte layout of shardpack: parses and encodes headers, records, indexes, footers and manifests.
//!
//! This crate has no I/O, threads, codec libraries or `unsafe`. Each module cites its section of `format-spec/`.
//! Parsers accept untrusted bytes: they never panic, and allocate no more than [`Limits`] allow.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod added_columns;
mod bytes;
mod check;
mod codec_id;
mod descriptor;
mod dtype;
mod element;
mod error;
mod explain;
mod footer;
mod header;
mod hint;
mod index;
mod json;
mod limits;
mod manifest;
mod name;
mod number;
mod plain_url;
mod record;
mod record_builder;
mod schema;
mod shard_entry;
mod spelling;
mod visible;

pub use added_columns::AddedColumns;
pub use bytes::{ALIGNMENT, align_up, pad_to_alignment};
pub use codec_id::Codec;
pub use descriptor::{ArrayDescriptor, Codes, Layout, MAX_RANK, Transform};
pub use dtype::Dtype;
pub use element::ElementType;
pub use error::{Error, Place, REPORT_HINT, Result, bug, panic_text, sentence};
pub use explain::{ErrorKind, Explain, SystemError};
pub use footer::{FOOTER_BYTES, Footer, TAIL_BYTES};
pub use header::{
    COLUMNS_FILE, DatasetId, HEADER_BYTES, HEADER_MAGIC, Identity, KNOWN_REQUIRED_FEATURES, SEGMENT_INDEXES, VERSION,
};
pub use hint::{Hint, Note, Setting, Voice};
pub use index::{Index, IndexBuilder, Row};
pub use json::{check_json, to_hex};
pub use limits::Limits;
pub use manifest::{MANIFEST_NAME, Manifest};
pub use name::{
    MAX_KEY_BYTES, check_key, check_shard_name, columns_name, generation_name, generation_of_name,
    generation_of_shard_name, shard_name, shard_name_of,
};
pub use number::{saturating_i64, saturating_u32, saturating_u64, to_usize};
pub use plain_url::plain_urls;
pub use record::{FRAME_BYTES, FieldPlace, FieldValue, Frame, RECORD_MAGIC, Record};
pub use record_builder::{RecordBuilder, StoredField};
pub use schema::{Field, FieldKind, Metadata, Recipe, Schema, SharedMetadata};
pub use shard_entry::ShardEntry;
pub use spelling::told;
pub use visible::{is_hidden, visible, visible_json, visible_lines, visible_path};
