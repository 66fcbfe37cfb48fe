//! Reads the records of a sample in the columns files of its shard (spec §3.6).

use crate::error::Result;
use crate::record_offsets::RecordOffsets;
use crate::shard::Shard;
use shardpack_format::Record;

/// The record of a sample in a columns file.
#[derive(Debug, Clone)]
pub(crate) struct AddedRecord {
    bytes: Vec<u8>,
    offsets: RecordOffsets,
}

impl AddedRecord {
    pub(crate) fn record(&self) -> Record<'_> {
        self.offsets.record(&self.bytes)
    }
}

impl Shard {
    /// Reads the records of a sample in the columns files, in their order. Contains `None` for a file without stored
    /// fields, because its values are in its index.
    pub(crate) fn added(&self, record: u64) -> Result<Vec<Option<AddedRecord>>> {
        let read = |file: &Self| {
            if file.index().metadata().schema.stored_count() == 0 {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            let offsets = {
                let (padded, crc) = file.read_with_crc(record, &mut bytes)?;
                RecordOffsets::of(&file.check(record, padded, crc)?, padded)
            };
            bytes.truncate(offsets.record_bytes());
            Ok(Some(AddedRecord { bytes, offsets }))
        };
        self.columns_files().iter().map(read).collect()
    }
}
