//! Runs a pool thread's work on rows. An error or panic becomes the error of the row that the thread was working on.

use super::shared::PoolShared;
use crate::decode::{RowDecoder, RowTarget};
use crate::rows::RowMut;
use crate::sample::RowId;
use crate::supply::{LargeRecord, Supply};
use crate::task::{MendTask, ReadTask, RowDone, RowTask};
use shardpack_format::{Error as FormatError, bug};
use shardpack_reader::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A thread's memory, which is reused for every row.
pub(crate) struct Worker {
    decoder: RowDecoder,
    pub(crate) rows: Vec<RowTask>,
    /// Axis lengths of the claimed rows' ragged fields, from the index.
    pub(crate) promised: Vec<u64>,
    pub(crate) done: Vec<RowDone>,
    pub(crate) dims: Vec<u64>,
}

impl Worker {
    pub(crate) fn new(shared: &PoolShared) -> Self {
        let decoder = RowDecoder::new(&shared.recipe);
        Self { decoder, rows: Vec::new(), promised: Vec::new(), done: Vec::new(), dims: Vec::new() }
    }

    pub(crate) fn decode(&mut self, shared: &PoolShared) {
        let stride = shared.recipe.fields.dims;
        let mut rows = std::mem::take(&mut self.rows);
        let mut promised = std::mem::take(&mut self.promised);
        for (i, RowTask { of, mut handle, supply }) in rows.drain(..).enumerate() {
            let dims = promised.get_mut(i * stride..(i + 1) * stride).unwrap_or_default();
            let Some(supply) = supply else {
                shared.clear(&mut handle);
                self.post(of, None, dims);
                continue;
            };
            if let Supply::Parts(shard) = &*supply {
                match self.guarded(shared, |decoder| decoder.open(&shared.recipe, shard, of, handle, dims)) {
                    Ok(Ok(large)) => {
                        shared.share(large);
                        continue;
                    }
                    Ok(Err(row)) => handle = row,
                    Err(panic) => {
                        self.post(of, Some(panicked(of.at.sample, &*panic)), dims);
                        continue;
                    }
                }
            }
            self.row(shared, of, &mut handle, dims, |decoder, target| {
                decoder.decode(shared.context(), &supply, target)
            });
        }
        promised.clear();
        (self.rows, self.promised) = (rows, promised);
    }

    pub(crate) fn read(&mut self, shared: &PoolShared, task: &mut ReadTask) -> Result<Supply> {
        let Some(scene) = &task.scene else { return shared.read(task).map(Supply::Memory) };
        let made =
            self.guarded(shared, |decoder| decoder.scene(shared.context(), &task.shard, task.records.start, scene));
        let shard = Arc::clone(&task.shard);
        made.map_or_else(|panic| Err(panicked(scene.sample, &*panic)), |made| Ok(Supply::Scene(shard, made)))
    }

    /// Decodes parts until there are none left. The thread that decodes the last part also completes the record.
    pub(crate) fn parts(&mut self, shared: &PoolShared, large: &LargeRecord) {
        while let Some(number) = large.take() {
            if self.guarded(shared, |decoder| decoder.part(large, number, &shared.counters)).is_err() {
                large.fail();
            }
            if !large.done(number) || large.is_abandoned() {
                continue;
            }
            let Some((mut row, mut dims, staged)) = large.take_row() else {
                bug("the row of a large record is already taken");
            };
            self.row(shared, large.of, &mut row, &mut dims, |decoder, target| {
                decoder.complete(shared.context(), large, &staged, target)
            });
            // Drop these values before the row is posted, because they keep the slot in use.
            drop(staged);
        }
    }

    /// Runs `work`. If it panics, replaces the decoder, whose state may be invalid.
    fn guarded<T>(&mut self, shared: &PoolShared, work: impl FnOnce(&mut RowDecoder) -> T) -> std::thread::Result<T> {
        let made = catch_unwind(AssertUnwindSafe(|| work(&mut self.decoder)));
        if made.is_err() {
            self.decoder = RowDecoder::new(&shared.recipe);
        }
        made
    }

    fn row(
        &mut self,
        shared: &PoolShared,
        of: RowId,
        row: &mut RowMut,
        dims: &mut [u64],
        make: impl FnOnce(&mut RowDecoder, &mut RowTarget<'_>) -> Result<()>,
    ) {
        let mut target = RowTarget { at: of.at, row, dims };
        let made = self.guarded(shared, |decoder| make(decoder, &mut target));
        let fault = made.map_or_else(|panic| Some(panicked(of.at.sample, &*panic)), Result::err);
        // A failed row may be skipped, and skipped rows must be zero.
        if fault.is_some() {
            shared.clear(row);
        }
        self.post(of, fault, dims);
    }

    fn post(&mut self, of: RowId, fault: Option<Error>, dims: &[u64]) {
        let made = std::mem::take(&mut self.decoder.notes);
        self.dims.extend_from_slice(dims);
        self.done.push(RowDone { of, made: fault.map_or(Ok(made), Err) });
    }

    /// Decodes on the host the values that the device could not decode.
    pub(crate) fn mend(&mut self, shared: &PoolShared, mend: MendTask) {
        let fields = shared.recipe.fields.plans.len();
        let MendTask { generation, batch, rows } = mend;
        let mended = rows.into_iter().map(|mut odd| {
            let row = self.guarded(shared, |decoder| decoder.mend(shared.context(), &mut odd));
            let mut fault = row.map_or_else(|panic| Some(panicked(odd.at.sample, &*panic)), Result::err);
            if fault.is_some() {
                fault = odd.erase(fields).err().or(fault);
            }
            odd.done(fault)
        });
        let mended = mended.collect();
        shared.state().mended(generation, batch, mended);
        shared.done.notify_all();
    }
}

fn panicked(sample: u64, panic: &(dyn std::any::Any + Send)) -> Error {
    FormatError::panicked(format!("decoding sample {sample}"), panic).into()
}
