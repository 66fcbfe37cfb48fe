//! Values that the device took and found odd: the host decodes them after all. Their records are
//! read once more, because their runs may be gone; it is rare.

use super::bench::Bench;
use super::cached;
use super::job::{Mend, Mended, OddRow};
use super::open::{Open, Phase};
use super::plan::Plan;
use super::recipe::Common;
use super::rows::Rows;
use super::sample::SampleAt;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

impl Open {
    /// Hands out the rows that have odd values, with their axes, of which `stride` belong to a row.
    /// `None` while a thread still has the slot, which comes back here when it has not.
    ///
    /// # Errors
    /// `Internal` if the device speaks of rows that the batch does not have.
    pub(super) fn mend(&mut self, stride: usize) -> Result<Option<Mend>> {
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
            let place = usize::try_from(fault.row).unwrap_or(usize::MAX);
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
    pub(super) fn mended(&mut self, rows: Vec<Mended>, stride: usize) {
        self.phase = Phase::Done;
        for Mended { row, dims, fault } in rows {
            let start = usize::try_from(row).unwrap_or(usize::MAX).saturating_mul(stride);
            if let Some(to) = self.plan.dims.get_mut(start..start.saturating_add(stride)) {
                to.copy_from_slice(&dims);
            }
            self.work.faults.extend(fault.map(|error| (row, error)));
        }
    }
}

impl Bench {
    /// Decodes the odd values of a row, to where the device would have.
    pub(super) fn mend(&mut self, common: Common<'_>, epoch: u32, odd: &mut OddRow) -> Result<()> {
        let at = SampleAt {
            sample: odd.sample,
            record: odd.record,
            epoch,
            repetition: odd.repetition,
            patch: 0,
            origin: None,
        };
        let shard = Arc::clone(&odd.shard);
        for (_, reason) in &odd.fields {
            common.refusals.add(reason.clone(), || shard.index().key(at.record).unwrap_or_default().to_owned());
        }
        let mut buffer = Vec::new();
        let bytes = cached::read(&shard, at.record, &mut buffer)?;
        self.decode_again(common, bytes, &shard, at, odd)
    }
}

impl OddRow {
    /// Makes all fields zero: what is skipped has none of them, whichever was damaged.
    ///
    /// # Errors
    /// `Io` if the device fails.
    pub(super) fn erase(&mut self, fields: usize) -> Result<()> {
        let failed = |error| Error::io(format!("row {}", self.row), "make it zero on the device", error);
        (0..fields).try_for_each(|field| self.handle.erase(field)).map_err(failed)
    }

    pub(super) fn done(self, fault: Option<Error>) -> Mended {
        Mended { row: self.row, dims: self.dims, fault }
    }
}
