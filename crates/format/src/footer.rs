//! Parses and encodes the shard footer, which is the last 128 bytes of the file (spec §2.4).

use crate::bytes::Cursor;
use crate::error::{Error, Result};
use crate::header::{HEADER_BYTES, Identity, check_crc};
use crate::limits::Limits;

/// Size of the footer in bytes.
pub const FOOTER_BYTES: u64 = FOOTER_LEN as u64;
const FOOTER_LEN: usize = 128;
/// Number of bytes to read first from the end of a shard. They include the footer and, in most shards, the whole index.
pub const TAIL_BYTES: u64 = 64 << 10;
const FOOTER_MAGIC: [u8; 8] = *b"SHRDFOOT";
const END_MAGIC: [u8; 8] = *b"\x1a\n\rDRHS\x89";
const CRC_AT: usize = 116;

/// The locations of a shard's parts.
///
/// ```
/// use shardpack_format::{DatasetId, Footer, Identity, Limits};
/// let identity = Identity::new(DatasetId([7; 16]), 0);
/// let footer = Footer { identity, record_count: 0, index_offset: 64, index_bytes: 128, index_crc32: 1 };
/// let bytes = footer.encode();
/// assert_eq!(Footer::parse(&bytes, footer.file_bytes(), &Limits::default())?, footer);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// Identity of the shard, the same as in the header.
    pub identity: Identity,
    /// Number of records.
    pub record_count: u64,
    /// Offset of the index: the end of the last record, rounded up to a multiple of 64.
    pub index_offset: u64,
    /// Size of the index in bytes, a multiple of 64. The footer directly follows the index.
    pub index_bytes: u64,
    /// CRC32 of the index.
    pub index_crc32: u32,
}

impl Footer {
    /// Returns the size of the whole shard.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.index_offset.saturating_add(self.index_bytes).saturating_add(FOOTER_BYTES)
    }

    /// Returns the footer's own CRC32 over its first 116 bytes.
    ///
    /// The checksum field is excluded, because the CRC of any data followed by its own CRC is the same constant.
    #[must_use]
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(self.encode().split_at(CRC_AT).0)
    }

    /// Encodes the footer.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = Vec::with_capacity(128);
        out.extend(FOOTER_MAGIC);
        self.identity.encode(&mut out);
        out.extend([0; 4]);
        out.extend(self.file_bytes().to_le_bytes());
        out.extend(self.record_count.to_le_bytes());
        out.extend(self.index_offset.to_le_bytes());
        out.extend(self.index_bytes.to_le_bytes());
        out.extend(self.index_crc32.to_le_bytes());
        out.extend([0; 16]);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out.extend(END_MAGIC);
        let mut footer = [0; FOOTER_LEN];
        footer.copy_from_slice(&out);
        footer
    }

    /// Parses the footer from the last 128 bytes of a shard of `file_bytes` bytes.
    ///
    /// # Errors
    /// `Format` if a magic, the CRC, the version or a reserved byte is wrong, or if offsets and lengths do
    /// not add up to exactly `file_bytes`; `Limit` if the index or the number of records is over the limits.
    pub fn parse(bytes: &[u8], file_bytes: u64, limits: &Limits) -> Result<Self> {
        if file_bytes < HEADER_BYTES + FOOTER_BYTES {
            let smallest = HEADER_BYTES + FOOTER_BYTES;
            return Err(Error::malformed(format!(
                "the shard is truncated: it has {file_bytes} bytes, but needs at least {smallest}"
            )));
        }
        let mut cur = Cursor::new(bytes, "footer");
        let magic: [u8; 8] = cur.array()?;
        let end = bytes.last_chunk::<8>().copied().unwrap_or_default();
        if magic != FOOTER_MAGIC || end != END_MAGIC || bytes.len() as u64 != FOOTER_BYTES {
            let found = format!("{} … {}", magic.escape_ascii(), end.escape_ascii());
            let expected = format!("{} … {}", FOOTER_MAGIC.escape_ascii(), END_MAGIC.escape_ascii());
            return Err(Error::malformed(format!(
                "the shard has no footer, so the file is truncated or has extra bytes at its end (expected the magic \
                 {expected}, found {found})"
            )));
        }
        check_crc("footer CRC32", bytes, CRC_AT)?;
        let identity = Identity::parse(&mut cur)?;
        cur.zeros(4)?;
        let stated_bytes = cur.u64()?;
        let footer = Self {
            identity,
            record_count: cur.u64()?,
            index_offset: cur.u64()?,
            index_bytes: cur.u64()?,
            index_crc32: cur.u32()?,
        };
        cur.zeros(16)?;
        if stated_bytes != file_bytes || footer.file_bytes() != file_bytes {
            let offset = footer.file_bytes().saturating_sub(FOOTER_BYTES);
            return Err(Error::malformed(format!(
                "the shard is damaged: its footer declares {stated_bytes} bytes and belongs at offset {offset}, but \
                 the file has {file_bytes} bytes"
            )));
        }
        if footer.index_offset < HEADER_BYTES
            || !footer.index_offset.is_multiple_of(64)
            || !footer.index_bytes.is_multiple_of(64)
        {
            return Err(Error::malformed(format!(
                "the footer is damaged: the index must follow the header, with an offset and a size in multiples of \
                 64, but has the offset {} and {} bytes",
                footer.index_offset, footer.index_bytes
            )));
        }
        if footer.index_bytes > limits.max_index_bytes {
            return Err(Error::limit("index", "max_index_bytes", limits.max_index_bytes, footer.index_bytes));
        }
        if footer.record_count > limits.max_records {
            return Err(Error::limit("records", "max_records", limits.max_records, footer.record_count));
        }
        Ok(footer)
    }

    /// Checks that the footer agrees with the header of the same file.
    ///
    /// ```
    /// use shardpack_format::{DatasetId, Footer, Identity};
    /// let identity = Identity::new(DatasetId([7; 16]), 3);
    /// let footer = Footer { identity, record_count: 0, index_offset: 64, index_bytes: 128, index_crc32: 1 };
    /// footer.check_header(&identity)?;
    /// let error = footer.check_header(&Identity { shard_number: 4, ..identity }).unwrap_err().to_string();
    /// assert!(error.contains("shard 3 of dataset 0707"), "{error}");
    /// assert!(error.contains("shard 4 of dataset 0707"), "{error}");
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Format` if they disagree on version, features, dataset or shard number.
    pub fn check_header(&self, header: &Identity) -> Result<()> {
        if self.identity == *header {
            return Ok(());
        }
        let identity = self.identity;
        Err(Error::malformed(format!(
            "the footer and the header of the shard do not match: {identity} in the footer, {header} in the header"
        )))
    }
}
