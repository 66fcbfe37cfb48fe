//! The entry of a file in a manifest (spec §3.3).

use crate::error::{Error, Result};
use crate::footer::FOOTER_BYTES;
use crate::header::{DatasetId, HEADER_BYTES};
use crate::json;
use crate::name::check_shard_name;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The entry of a shard in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// File name, relative to the manifest.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of records.
    pub samples: u64,
    /// The footer's own CRC32 ([`Footer::crc32`](crate::Footer::crc32)). It ties the manifest to this shard, and can be
    /// checked with one small read.
    #[serde(with = "hex_crc")]
    pub footer_crc32: u32,
    /// SHA-256 of the file.
    #[serde(with = "hex_sha")]
    pub sha256: [u8; 32],
}

/// Checks the names and sizes of files. No name may occur twice.
pub(crate) fn check_entries<'a>(files: impl IntoIterator<Item = &'a ShardEntry>) -> Result<()> {
    let mut names = HashSet::new();
    for file in files {
        check_shard_name(&file.name)?;
        if !names.insert(file.name.to_ascii_lowercase()) {
            return Err(Error::malformed(format!(
                "the manifest lists the shard name {:?} twice (ignoring case)",
                file.name
            )));
        }
        if file.bytes < HEADER_BYTES + FOOTER_BYTES {
            return Err(Error::format(format!("size of shard {:?} in bytes", file.name), "at least 192", file.bytes));
        }
    }
    Ok(())
}

macro_rules! hex_field {
    ($module:ident, $type:ty, $to:expr, $from:expr) => {
        pub(crate) mod $module {
            use super::*;
            use serde::{Deserializer, Serializer, de::Error as _};

            pub(crate) fn serialize<S: Serializer>(value: &$type, s: S) -> std::result::Result<S::Ok, S::Error> {
                s.serialize_str(&json::to_hex(&$to(value)))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> std::result::Result<$type, D::Error> {
                let text = String::deserialize(d)?;
                json::from_hex(&text).map($from).map_err(D::Error::custom)
            }
        }
    };
}

hex_field!(hex_id, DatasetId, |id: &DatasetId| id.0, DatasetId);
hex_field!(hex_crc, u32, |crc: &u32| crc.to_be_bytes(), u32::from_be_bytes);
hex_field!(hex_sha, [u8; 32], |sha: &[u8; 32]| *sha, |sha| sha);
