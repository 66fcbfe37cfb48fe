//! Decodes on the host the values of a batch that the device could not decode.

use super::batch::{BatchState, OpenBatch, sample_at};
use crate::rows::Rows;
use crate::task::{MendTask, MendedRow, OddRow};
use shardpack_format::to_usize;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

impl OpenBatch {
    /// Takes the rows with odd values. Each row has `stride` axes in its ragged fields. Returns `None` while a thread
    /// still uses the slot. A later call then tries again.
    ///
    /// # Errors
    /// `Internal` if the device reports rows that the batch does not have.
    pub(crate) fn mend(&mut self, stride: usize) -> Result<Option<MendTask>> {
        let BatchState::Odd(slot) = &mut self.state else { return Ok(None) };
        let mut handles = Vec::new();
        if !Rows::lend(slot, self.plan.rows.len(), self.plan.host_bytes, &self.plan.parts, &mut handles) {
            return Ok(None);
        }
        let mut rows: Vec<OddRow> = Vec::new();
        self.work.odd.sort_by_key(|fault| (fault.row, fault.field));
        for fault in self.work.odd.drain(..) {
            if let Some(last) = rows.last_mut().filter(|last| last.row == fault.row) {
                last.fields.push((fault.field, fault.reason));
                continue;
            }
            let planned = self.plan.rows.get(to_usize(fault.row));
            let shard = planned.and_then(|row| Some(self.plan.read_of(row)?.shard()));
            let handle = handles.get_mut(to_usize(fault.row)).and_then(Option::take);
            let (Some(at), Some(shard), Some(handle)) = (sample_at(&self.plan, fault.row), shard, handle) else {
                return Err(Error::internal(
                    format!("the device could not decode row {}, but the batch has no such row", fault.row),
                    "",
                    "",
                ));
            };
            rows.push(OddRow {
                row: fault.row,
                at,
                shard: Arc::clone(shard),
                handle,
                dims: self.plan.dims_of(fault.row, stride).to_vec(),
                fields: vec![(fault.field, fault.reason)],
            });
        }
        self.mending();
        Ok(Some(MendTask { generation: self.plan.generation, batch: self.plan.number, rows }))
    }

    pub(crate) fn mended(&mut self, rows: Vec<MendedRow>, stride: usize) {
        self.complete();
        for MendedRow { row, dims, fault } in rows {
            let to = self.plan.dims_of_mut(row, stride);
            if to.len() == dims.len() {
                to.copy_from_slice(&dims);
            }
            self.work.faults.extend(fault.map(|error| (row, error)));
        }
    }
}
