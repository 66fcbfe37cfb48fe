//! Values that the device took and found odd: the host decodes them after all. Their records are
//! read once more, because their runs may be gone; it is rare.

use super::bench::Bench;
use super::recipe::Common;
use crate::supply::read_alone;
use crate::task::{MendedRow, OddRow};
use shardpack_reader::{Error, Result};
use std::sync::Arc;

impl Bench {
    /// Decodes the odd values of a row, to where the device would have.
    pub(crate) fn mend(&mut self, common: Common<'_>, odd: &mut OddRow) -> Result<()> {
        let at = odd.at;
        let shard = Arc::clone(&odd.shard);
        for (_, reason) in &odd.fields {
            common.refusals.add(reason.clone(), || shard.index().key(at.record).unwrap_or_default().to_owned());
        }
        let mut buffer = Vec::new();
        let bytes = read_alone(&shard, at.record, &mut buffer)?;
        self.decode_again(common, bytes, &shard, at, odd)
    }
}

impl OddRow {
    /// Makes all fields zero: what is skipped has none of them, whichever was damaged.
    ///
    /// # Errors
    /// `Io` if the device fails.
    pub(crate) fn erase(&mut self, fields: usize) -> Result<()> {
        let failed = |error| Error::io(format!("row {}", self.row), "make it zero on the device", error);
        (0..fields).try_for_each(|field| self.handle.erase(field)).map_err(failed)
    }

    pub(crate) fn done(self, fault: Option<Error>) -> MendedRow {
        MendedRow { row: self.row, dims: self.dims, fault }
    }
}
