//! Reads the parts of a shard other than its records. Each part is read separately, because `salvage` uses the parts
//! that are still intact.

use crate::error::Result;
use crate::handles::ShardFile;
use crate::scratch::room;
use shardpack_format::{
    Error as FormatError, FOOTER_BYTES, Footer, HEADER_BYTES, HEADER_MAGIC, Identity, Index, Limits, SharedMetadata,
    TAIL_BYTES, bug,
};

/// Header, footer and index of a shard. Errors include their offset in the file.
#[derive(Debug)]
pub(crate) struct Anatomy {
    pub(crate) header: Result<Identity, FormatError>,
    pub(crate) footer: Result<Footer, FormatError>,
    /// The index, or `None` if the footer is damaged, because the footer contains the index's position.
    pub(crate) index: Option<Result<Index, FormatError>>,
}

impl Anatomy {
    /// Reads the last bytes of the file, its first 64 bytes, and the rest of the index if the last bytes do not contain
    /// all of it. If the metadata equals `known`, the metadata of another shard, both shards share it in memory.
    ///
    /// # Errors
    /// Only `Io`. Errors about the bytes are stored in the parts.
    pub(crate) fn read(file: &ShardFile, limits: &Limits, known: Option<&SharedMetadata>) -> Result<Self> {
        let len = file.len();
        // Use one handle for all reads, so that they see the same file even if the file is replaced in the meantime.
        let handle = file.handle()?;
        let read = |start: u64, bytes: u64| -> Result<Vec<u8>> {
            let mut buffer = Vec::new();
            shardpack_io::read_exact_at(&*handle, file.path(), room(&mut buffer, bytes)?, start)?;
            Ok(buffer)
        };
        let tail_start = len.saturating_sub(TAIL_BYTES);
        let tail = read(tail_start, len - tail_start)?;
        let head = match tail_start {
            0 => tail.get(..64).unwrap_or(&tail).to_vec(),
            _ => read(0, HEADER_BYTES)?,
        };

        let header = if head.len() < 64 && HEADER_MAGIC.starts_with(head.get(..8).unwrap_or(&head)) {
            let smallest = HEADER_BYTES + FOOTER_BYTES;
            Err(FormatError::malformed(format!(
                "the shard is truncated: it has {len} bytes, but needs at least {smallest}"
            )))
        } else {
            Identity::parse_header(&head).map_err(|e| e.at(0))
        };
        let footer_at = tail.len().saturating_sub(128);
        let (before_footer, footer_bytes) = tail.split_at(footer_at);
        let footer = Footer::parse(footer_bytes, len, limits).map_err(|e| e.at(len.saturating_sub(FOOTER_BYTES)));
        let index = match &footer {
            Err(_) => None,
            Ok(footer) => {
                // `Footer::parse` has already checked that this range lies in the file and that its size is
                // within the limits.
                let bytes = match footer.index_offset.checked_sub(tail_start) {
                    Some(at) => {
                        let index = usize::try_from(at).ok().and_then(|at| before_footer.get(at..));
                        index.unwrap_or_else(|| bug("an index that ends before its footer")).to_vec()
                    }
                    None => read(footer.index_offset, footer.index_bytes)?,
                };
                Some(Index::parse_sharing(bytes, footer, limits, known))
            }
        };
        Ok(Self { header, footer, index })
    }
}
