//! The odd values of a batch that is on the device: handed out to be decoded by the host, and taken
//! back.

use super::open::{Open, Phase};
use crate::job::{Mend, Mended, OddRow};
use crate::plan::Plan;
use crate::rows::Rows;
use shardpack_format::to_usize;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

impl Open {
    /// Hands out the rows that have odd values, with their axes, of which `stride` belong to a row.
    /// `None` while a thread still has the slot, which comes back here when it has not.
    ///
    /// # Errors
    /// `Internal` if the device speaks of rows that the batch does not have.
    pub(crate) fn mend(&mut self, stride: usize) -> Result<Option<Mend>> {
        let room = self.plan.room();
        let Some(slot) = &mut self.slot else { return Ok(None) };
        let mut handles = Vec::new();
        if !Rows::lend(slot, (room.rows, room.host_bytes), &self.plan.parts, &mut handles)? {
            return Ok(None);
        }
        let mut rows: Vec<OddRow> = Vec::new();
        self.work.odd.sort_by_key(|fault| (fault.row, fault.field));
        for fault in self.work.odd.drain(..) {
            if let Some(last) = rows.last_mut().filter(|last| last.row == fault.row) {
                last.fields.push((fault.field, fault.reason));
                continue;
            }
            let place = to_usize(fault.row);
            let planned = self.plan.rows.get(place);
            let read = planned.and_then(|row| self.plan.reads.get(usize::try_from(row.read).ok()?));
            let handle = handles.get_mut(place).and_then(Option::take);
            let (Some(planned), Some(read), Some(handle)) = (planned, read, handle) else {
                return Err(Error::internal("row that the device found odd", "one of the batch", fault.row));
            };
            let start = place.saturating_mul(stride);
            rows.push(OddRow {
                row: fault.row,
                sample: self.plan.indices.get(place).copied().unwrap_or(u64::MAX),
                record: planned.record,
                repetition: planned.repetition,
                patch: planned.patch,
                shard: Arc::clone(&read.shard),
                handle,
                dims: self.plan.dims.get(start..start.saturating_add(stride)).unwrap_or_default().to_vec(),
                fields: vec![(fault.field, fault.reason)],
            });
        }
        self.phase = Phase::Mending;
        let Plan { generation, epoch, number: batch, .. } = self.plan;
        Ok(Some(Mend { generation, epoch, batch, rows }))
    }

    /// Takes in what the host has made of them.
    pub(crate) fn mended(&mut self, rows: Vec<Mended>, stride: usize) {
        self.phase = Phase::Done;
        for Mended { row, dims, fault } in rows {
            let start = to_usize(row).saturating_mul(stride);
            if let Some(to) = self.plan.dims.get_mut(start..start.saturating_add(stride)) {
                to.copy_from_slice(&dims);
            }
            self.work.faults.extend(fault.map(|error| (row, error)));
        }
    }
}
