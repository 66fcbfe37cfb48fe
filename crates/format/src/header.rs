//! Parses and encodes the shard header and the shard identity, which the header and the footer both contain (spec
//! §2.1).

use crate::bytes::{ALIGNMENT, Cursor};
use crate::error::{Error, Result};
use std::fmt;

/// Size of the header in bytes. The first record follows the header.
pub const HEADER_BYTES: u64 = HEADER_LEN as u64;
const HEADER_LEN: usize = 64;
/// First bytes of a shard. As in PNG files, a byte above 127 and the line endings reveal a file that was transferred in
/// text mode.
pub const HEADER_MAGIC: [u8; 8] = *b"\x89SHRD\r\n\x1a";
/// Version of the format that this crate writes: major and minor number.
pub const VERSION: (u16, u16) = (1, 0);
/// Required-feature bits that this crate knows. Shards with other bits are refused.
pub const KNOWN_REQUIRED_FEATURES: u64 = 0;
/// Optional-feature bit for shards with segment indexes (spec §5.5). Readers that do not know the bit treat the indexes
/// as an ordinary bytes field.
pub const SEGMENT_INDEXES: u64 = 1;
/// Optional-feature bit of columns files (spec §3.6).
pub const COLUMNS_FILE: u64 = 2;

/// Identifier of a dataset, 16 bytes. All its shards have the same id.
///
/// ```
/// use shardpack_format::DatasetId;
/// let id: DatasetId = "000102030405060708090a0b0c0d0e0f".parse()?;
/// assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f");
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct DatasetId(pub [u8; 16]);

impl fmt::Display for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for DatasetId {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        crate::json::from_hex(s).map(Self)
    }
}

/// Identity of a shard, stored in header and footer.
///
/// ```
/// use shardpack_format::{DatasetId, Identity};
/// let identity = Identity::new(DatasetId([7; 16]), 3);
/// assert_eq!(Identity::parse_header(&identity.encode_header())?, identity);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Major version. Readers refuse versions that they do not know.
    pub major: u16,
    /// Minor version, for additions that old readers may ignore.
    pub minor: u16,
    /// Feature bits that a reader must know.
    pub required_features: u64,
    /// Feature bits that a reader may ignore.
    pub optional_features: u64,
    /// Dataset that the shard belongs to.
    pub dataset_id: DatasetId,
    /// Number of the shard in its dataset, from 0.
    pub shard_number: u32,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, required_features, optional_features, dataset_id, shard_number } = self;
        write!(f, "shard {shard_number} of dataset {dataset_id}, version {major}.{minor}, ")?;
        write!(f, "required features {required_features:#x}, optional features {optional_features:#x}")
    }
}

impl Identity {
    /// Creates the identity of a shard in the current version of the format.
    #[must_use]
    pub const fn new(dataset_id: DatasetId, shard_number: u32) -> Self {
        Self {
            major: VERSION.0,
            minor: VERSION.1,
            required_features: 0,
            optional_features: 0,
            dataset_id,
            shard_number,
        }
    }

    /// True for a columns file, which has only the fields that were added to the samples of a shard (spec §3.6).
    #[must_use]
    pub const fn is_columns_file(&self) -> bool {
        self.optional_features & COLUMNS_FILE != 0
    }

    /// Appends the 52 bytes that follow the magic in the header and in the footer.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.major.to_le_bytes());
        out.extend(self.minor.to_le_bytes());
        out.extend(64_u32.to_le_bytes());
        out.extend(self.required_features.to_le_bytes());
        out.extend(self.optional_features.to_le_bytes());
        out.extend(self.dataset_id.0);
        out.extend(self.shard_number.to_le_bytes());
        out.extend([0; 8]);
    }

    pub(crate) fn parse(cur: &mut Cursor<'_>) -> Result<Self> {
        let (major, minor) = (cur.u16()?, cur.u16()?);
        if major != VERSION.0 {
            return Err(Error::format("format version", format!("{}.x", VERSION.0), format!("{major}.{minor}")));
        }
        let alignment = u64::from(cur.u32()?);
        if alignment != ALIGNMENT {
            return Err(Error::format("record alignment", ALIGNMENT, alignment));
        }
        let (required_features, optional_features) = (cur.u64()?, cur.u64()?);
        let unknown = required_features & !KNOWN_REQUIRED_FEATURES;
        if unknown != 0 {
            return Err(Error::malformed(format!(
                "the shard needs features that this version of shardpack does not support (bits {unknown:#x})"
            ))
            .with_hint("upgrade shardpack"));
        }
        let dataset_id = DatasetId(cur.array()?);
        let shard_number = cur.u32()?;
        cur.zeros(8)?;
        Ok(Self { major, minor, required_features, optional_features, dataset_id, shard_number })
    }

    /// Encodes the shard header.
    #[must_use]
    pub fn encode_header(&self) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(64);
        out.extend(HEADER_MAGIC);
        self.encode(&mut out);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&out);
        header
    }

    /// Parses a header from the first 64 bytes of a shard.
    ///
    /// # Errors
    /// `Format` if the magic, CRC, version, alignment, required features or reserved bytes violate the specification.
    pub fn parse_header(bytes: &[u8]) -> Result<Self> {
        let mut cur = Cursor::new(bytes, "header");
        let magic: [u8; 8] = cur.array()?;
        if magic != HEADER_MAGIC {
            return Err(Error::format("header magic", HEADER_MAGIC.escape_ascii(), magic.escape_ascii()));
        }
        check_crc("header CRC32", bytes, HEADER_LEN - 4)?;
        let identity = Self::parse(&mut cur)?;
        Ok(identity)
    }
}

/// Compares the CRC32 stored at offset `at` with the CRC32 of the bytes before it.
pub(crate) fn check_crc(what: &'static str, bytes: &[u8], at: usize) -> Result<()> {
    let mut cur = Cursor::new(bytes, what);
    let computed = crc32fast::hash(cur.take(at as u64)?);
    let stored = cur.u32()?;
    if stored == computed {
        return Ok(());
    }
    Err(Error::format(what, format!("{stored:#010x}"), format!("{computed:#010x} (damaged)")))
}
