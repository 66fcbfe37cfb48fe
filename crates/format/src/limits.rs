//! Limits on the sizes that files declare. Parsers check them before allocating memory.

use crate::error::{Error, Result};

/// Limits on the memory and work that an untrusted file may cause.
///
/// Every size in a file is checked against these limits before memory is allocated. The defaults are safe for files
/// from strangers. Raise individual limits for your own files.
///
/// ```
/// let limits = shardpack_format::Limits { max_record_bytes: 8 << 30, ..Default::default() };
/// assert!(limits.max_record_bytes > shardpack_format::Limits::default().max_record_bytes);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a manifest, and of a shard's metadata document, in bytes. Default 64 MiB.
    pub max_manifest_bytes: u64,
    /// Maximum number of shards in a dataset. Default 1,000,000.
    pub max_shards: u64,
    /// Maximum size of a shard's index, in bytes. Default 1 GiB.
    pub max_index_bytes: u64,
    /// Maximum number of records in a shard. Default 2³¹.
    pub max_records: u64,
    /// Maximum size of a stored record, in bytes. Default 1 GiB.
    pub max_record_bytes: u64,
    /// Maximum size of a decoded field, in bytes. Default 1 GiB.
    pub max_decoded_bytes: u64,
    /// Maximum ratio of decoded to stored bytes, for fields that decode to more than 1 MiB. Runs of a repeated value
    /// have their own limit, `max_run_bytes`. Default 1000.
    pub max_expansion: u64,
    /// Maximum number of bytes that a field's runs of a repeated value decode to. Runs that decode to at most
    /// `max_expansion` times the field's stored bytes are always allowed. Runs have their own limit because a chunk
    /// of 32 bytes can encode 4 MiB of zeros. Default 512 MiB, the size of an empty mask of 23,170 × 23,170 pixels.
    /// If only a region is read, only the runs in that region count.
    pub max_run_bytes: u64,
    /// Maximum length of an array axis. Default 2³¹ − 1.
    pub max_axis: u64,
    /// Maximum nesting depth of JSON. Default 16.
    pub max_json_depth: u64,
    /// Maximum number of nodes in a JSON document, which bounds the memory of the parsed document. Each value and
    /// each key is one node, and each object counts as eight more. Default 2²² (4,194,304), which is enough for a
    /// manifest of 200,000 shards. In the worst case, a parsed document then takes about 400 MiB.
    pub max_json_nodes: u64,
    /// Maximum number of fields in a schema. Default 1,024.
    pub max_fields: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_manifest_bytes: 64 << 20,
            max_shards: 1_000_000,
            max_index_bytes: 1 << 30,
            max_records: 1 << 31,
            max_record_bytes: 1 << 30,
            max_decoded_bytes: 1 << 30,
            max_expansion: 1000,
            max_run_bytes: 512 << 20,
            max_axis: (1 << 31) - 1,
            max_json_depth: 16,
            max_json_nodes: 1 << 22,
            max_fields: 1024,
        }
    }
}

impl Limits {
    /// Returns limits that allow everything that the format can express. Use them only for files that you wrote
    /// yourself. JSON nesting is still limited to 128 levels.
    ///
    /// ```
    /// assert_eq!(shardpack_format::Limits::none().max_record_bytes, u64::MAX);
    /// ```
    #[must_use]
    pub fn none() -> Self {
        Self {
            max_manifest_bytes: u64::MAX,
            max_shards: u64::MAX,
            max_index_bytes: u64::MAX,
            max_records: u64::MAX,
            max_record_bytes: u64::MAX,
            max_decoded_bytes: u64::MAX,
            max_expansion: u64::MAX,
            max_run_bytes: u64::MAX,
            max_axis: u64::MAX,
            max_json_depth: 128,
            max_json_nodes: u64::MAX,
            max_fields: u64::MAX,
        }
    }

    /// Fails if a picture decodes to more than `max_decoded_bytes`.
    ///
    /// ```
    /// let limits = shardpack_format::Limits { max_decoded_bytes: 9, ..Default::default() };
    /// assert!(limits.check_decoded_picture(9).is_ok() && limits.check_decoded_picture(10).is_err());
    /// ```
    ///
    /// # Errors
    /// `Limit` if `bytes` is over this limit.
    pub fn check_decoded_picture(&self, bytes: u64) -> Result<()> {
        if bytes > self.max_decoded_bytes {
            return Err(Error::limit("decoded picture", "max_decoded_bytes", self.max_decoded_bytes, bytes));
        }
        Ok(())
    }

    /// Fails if a picture of `stored` bytes decodes to too many bytes of pixels. Up to 1 MiB is always allowed. Larger
    /// pictures may decode to `stored` × `max_expansion` × 24 bytes, because picture formats compress uniform areas a
    /// thousandfold and a one-bit pixel becomes 24 bits.
    ///
    /// ```
    /// let limits = shardpack_format::Limits::default();
    /// assert!(limits.check_pixels(1 << 20, 10).is_ok() && limits.check_pixels(24_000 << 10, 1 << 10).is_ok());
    /// assert!(limits.check_pixels((24_000 << 10) + 1, 1 << 10).is_err());
    /// ```
    ///
    /// # Errors
    /// `Limit` if `bytes` is over this limit.
    pub fn check_pixels(&self, bytes: u64, stored: u64) -> Result<()> {
        let most = self.max_expansion.saturating_mul(24).saturating_mul(stored);
        if bytes > 1 << 20 && bytes > most {
            let what = "expansion of the picture (size at 1 bit per pixel / stored size)";
            let found = bytes.div_ceil(stored.saturating_mul(24).max(1));
            return Err(Error::limit(what, "max_expansion", self.max_expansion, found));
        }
        Ok(())
    }

    /// Fails if the runs of a repeated value in a field of `stored` bytes decode to too many bytes.
    ///
    /// ```
    /// use shardpack_format::Limits;
    /// let limits = Limits::default();
    /// assert!(limits.check_runs(512 << 20, 100).is_ok() && limits.check_runs(1 << 30, 2 << 20).is_ok());
    /// assert!(limits.check_runs((512 << 20) + 1, 100).is_err());
    /// ```
    ///
    /// # Errors
    /// `Limit` if `bytes` is over both `max_run_bytes` and `stored` × `max_expansion`.
    pub fn check_runs(&self, bytes: u64, stored: u64) -> Result<()> {
        let most = self.max_run_bytes.max(self.max_expansion.saturating_mul(stored));
        if bytes > most {
            return Err(Error::limit("decoded size of repeated values in a field", "max_run_bytes", most, bytes));
        }
        Ok(())
    }
}
