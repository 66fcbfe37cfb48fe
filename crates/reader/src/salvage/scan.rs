//! Finds the intact records of one shard, however damaged it is.

use super::metadata::{self, MetadataSource};
use super::walk::{Step, Walk};
use crate::anatomy::Anatomy;
use crate::error::{Error, Result};
use crate::handles::ShardFile;
use crate::scratch::room;
use shardpack_format::{Frame, Identity, Limits, Metadata, Record, SharedMetadata};
use shardpack_io::{Folder, open_regular};
use std::ops::Range;
use std::path::Path;

/// A record whose frame, CRC32 and structure are intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeRecord {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Frame of the record.
    pub frame: Frame,
    /// Key of the sample.
    pub key: String,
    /// Packed scalars of the record.
    pub scalars: Vec<u8>,
    /// Bytes of the record, without the padding after it. To store the record in a shard with a different number,
    /// rewrite the frame first.
    pub bytes: Vec<u8>,
}

impl WholeRecord {
    /// Parses the record.
    ///
    /// # Errors
    /// Same as [`Record::parse_trusted`]. Cannot fail with the limits of the scan that found the record.
    pub fn record(&self, limits: &Limits) -> Result<Record<'_>> {
        Ok(Record::parse_trusted(self.frame, &self.bytes, limits)?)
    }
}

/// A byte range without an intact record.
#[derive(Debug)]
pub struct Lost {
    /// Byte range in the file.
    pub range: Range<u64>,
    /// Number of the record in the shard, if the shard's index lists it.
    pub record: Option<u64>,
    /// Key of the sample according to the index. Without an index, it is read from the damaged record and may
    /// be damaged too.
    pub key: Option<String>,
    /// The reason why no record could be read.
    pub why: Error,
}

/// Result of a scan step: an intact record or a gap.
#[derive(Debug)]
pub enum Salvaged {
    /// An intact record.
    Whole(WholeRecord),
    /// A gap between intact records.
    Lost(Lost),
}

/// Scans one shard for intact records, in stored order.
///
/// ```no_run
/// use shardpack_reader::{Limits, SalvageScan, Salvaged};
/// let scan = SalvageScan::open("damaged.shard", &Limits::default())?;
/// for found in scan {
///     match found {
///         Salvaged::Whole(record) => println!("whole: {}", record.key),
///         Salvaged::Lost(lost) => println!("lost: {:?} ({})", lost.key, lost.why),
///     }
/// }
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct SalvageScan {
    walk: Walk,
    limits: Limits,
    pub(super) identity: Option<Identity>,
    damage: Vec<Error>,
    /// Metadata from the shard's own index, which may be shared with other shards.
    pub(super) own_metadata: Option<SharedMetadata>,
    /// Metadata from another file in the folder, with its origin.
    pub(super) metadata: Option<(Metadata, MetadataSource)>,
    expected_records: Option<u64>,
}

impl SalvageScan {
    /// Opens a shard that the user named, however damaged. The path itself may be a symlink. For all shards of
    /// a folder, use [`SalvageFolder`](crate::SalvageFolder).
    ///
    /// # Errors
    /// `Io` if it cannot be read, `Usage` if it is not a regular file.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let mut scan = Self::of_file(ShardFile::open(path.into(), open_regular(path)?), limits, None)?;
        let parent = path.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
        if scan.own_metadata.is_none()
            && let (Ok(folder), Some(name)) = (Folder::open(parent, false), path.file_name().and_then(|n| n.to_str()))
        {
            scan.metadata = metadata::find(&folder, name, scan.identity.as_ref(), limits);
        }
        Ok(scan)
    }

    pub(super) fn of_file(file: ShardFile, limits: &Limits, known: Option<&SharedMetadata>) -> Result<Self> {
        let anatomy = Anatomy::read(&file, limits, known)?;
        let path = file.path().to_owned();
        let identity = anatomy.header.as_ref().ok().or(anatomy.footer.as_ref().ok().map(|f| &f.identity)).copied();
        // If the footer and the header disagree, the footer and its index may belong to another shard or to an older
        // version of this one.
        let footer = anatomy.footer.as_ref().ok().filter(|f| Some(f.identity) == identity).copied();
        let mut damage = Vec::new();
        let mut note = |e: shardpack_format::Error| damage.push(Error::from(e.in_file(path.to_string_lossy())));
        if let (Ok(header), Ok(footer)) = (&anatomy.header, &anatomy.footer) {
            footer.check_header(header).err().into_iter().for_each(&mut note);
        }
        anatomy.header.err().into_iter().for_each(&mut note);
        anatomy.footer.err().into_iter().for_each(&mut note);
        let index = match anatomy.index {
            Some(Ok(index)) if footer.is_some() => Some(index),
            Some(Err(e)) => {
                note(e);
                None
            }
            _ => None,
        };
        let own_metadata = index.as_ref().map(|index| index.shared_metadata().clone());
        let end = footer.map_or(file.len(), |f| f.index_offset);
        let expected_records = footer.map(|f| f.record_count);
        let walk = Walk::new(file, end, index, identity.map(|i| i.shard_number), limits);
        let limits = limits.clone();
        Ok(Self { walk, limits, identity, damage, own_metadata, metadata: None, expected_records })
    }

    /// Returns the shard's format version, dataset and number, from the header or, if it is damaged, from the footer.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the errors found in the header, the footer and the index. Records can be found
    /// despite these errors.
    #[must_use]
    pub fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// Returns schema, classes and recipe, with their source: the shard's own index or, if that is damaged, the
    /// manifest in the same folder, or else another shard in the folder.
    #[must_use]
    pub fn metadata(&self) -> Option<(&Metadata, &MetadataSource)> {
        let own = self.own_metadata.as_ref().map(|own| (own.metadata(), &MetadataSource::OwnIndex));
        own.or(self.metadata.as_ref().map(|(metadata, source)| (metadata, source)))
    }

    /// Returns the file, for reading records again after the scan. The file is reopened on demand.
    #[must_use]
    pub fn source(&self) -> SalvageSource {
        SalvageSource(self.walk.file().clone())
    }

    /// Returns the number of records that the shard should have, or `None` if the footer is damaged.
    #[must_use]
    pub const fn expected_records(&self) -> Option<u64> {
        self.expected_records
    }
}

/// The file read by a scan.
#[derive(Debug, Clone)]
pub struct SalvageSource(ShardFile);

impl SalvageSource {
    /// Reads a range of bytes from the file without interpreting them.
    ///
    /// # Errors
    /// `Io` if they cannot be read, `Format` if the file was replaced by one of a different size, `Usage` if
    /// the bytes do not fit into memory.
    pub fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        self.0.read_exact_at(room(&mut buffer, bytes)?, offset)?;
        Ok(buffer)
    }
}

impl Iterator for SalvageScan {
    type Item = Salvaged;

    fn next(&mut self) -> Option<Salvaged> {
        Some(match self.walk.step()? {
            Step::Lost { range, row, key, why } => Salvaged::Lost(Lost { range, record: row, key, why }),
            Step::Record { offset, frame, bytes } => {
                let parts = Record::parse_trusted(frame, &bytes, &self.limits)
                    .map(|record| (record.key.to_owned(), record.scalars.to_vec()));
                match parts {
                    Ok((key, scalars)) => Salvaged::Whole(WholeRecord { offset, frame, key, scalars, bytes }),
                    // This should not happen, because the walk has parsed the record with the same limits.
                    Err(e) => Salvaged::Lost(Lost {
                        range: offset..offset.saturating_add(frame.padded_bytes()),
                        record: None,
                        key: None,
                        why: e.into(),
                    }),
                }
            }
        })
    }
}
