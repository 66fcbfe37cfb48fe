//! Reads the added values of a row, which are in the columns files of its shard (spec §3.6).

use super::recipe::Context;
use crate::sample::SampleAt;
use crate::supply::read_checked;
use shardpack_format::{Error as FormatError, FieldValue, Frame, Limits, Record};
use shardpack_reader::{Result, Shard};

/// The records of a sample in the columns files that have fields of the batch.
#[derive(Debug)]
pub(crate) struct AddedRecords(Vec<AddedRecord>);

#[derive(Debug)]
struct AddedRecord {
    /// Number of the columns file.
    file: usize,
    frame: Frame,
    bytes: Vec<u8>,
}

impl AddedRecords {
    pub(crate) const NONE: &Self = &Self(Vec::new());

    /// Reads and checks the records. Reads nothing if no columns file has a field of the batch.
    pub(crate) fn read(context: Context<'_>, shard: &Shard, at: SampleAt) -> Result<Self> {
        let mut all = Vec::new();
        for (file, columns) in context.recipe.fields.columns_files(shard) {
            let mut bytes = Vec::new();
            let (frame, length) = {
                let (frame, bytes) = read_checked(columns, at, &mut bytes, context.counters)?;
                (frame, bytes.len())
            };
            bytes.truncate(length);
            all.push(AddedRecord { file, frame, bytes });
        }
        Ok(Self(all))
    }

    /// Returns the value at this position in the records of columns file `file`.
    pub(crate) fn value(
        &self,
        file: usize,
        position: usize,
        limits: &Limits,
    ) -> Result<Option<FieldValue<'_>>, FormatError> {
        match self.0.iter().find(|added| added.file == file) {
            Some(AddedRecord { frame, bytes, .. }) => Record::field_at(frame, bytes, position, limits),
            None => Err(FormatError::internal(format!("columns file {file} of the shard was not read"), "", "")),
        }
    }
}
