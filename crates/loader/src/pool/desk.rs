//! What one thread does with rows: whatever goes wrong, or panics, becomes the error of its row.

use super::shared::Shared;
use crate::decode::Bench;
use crate::job::{Claim, Mend, Outcome};
use crate::large::Large;
use crate::read::ReadJob;
use crate::rows::RowMut;
use crate::sample::{RowOf, SampleAt};
use shardpack_format::Error as FormatError;
use shardpack_reader::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What one thread works with: used again for every row.
pub(crate) struct Desk {
    bench: Bench,
    pub(crate) claims: Vec<Claim>,
    /// Axes of the ragged fields of these rows, as the index has them.
    pub(crate) promised: Vec<u64>,
    pub(crate) outcomes: Vec<Outcome>,
    /// The axes of those.
    pub(crate) dims: Vec<u64>,
}

impl Desk {
    pub(crate) fn new(shared: &Shared) -> Self {
        let bench = Bench::new(&shared.recipe, shared.stage.as_deref());
        Self { bench, claims: Vec::new(), promised: Vec::new(), outcomes: Vec::new(), dims: Vec::new() }
    }

    pub(crate) fn decode(&mut self, shared: &Shared) {
        let stride = shared.recipe.fields.dims;
        let mut claims = std::mem::take(&mut self.claims);
        let mut promised = std::mem::take(&mut self.promised);
        for (i, claim) in claims.drain(..).enumerate() {
            let dims = promised.get_mut(i * stride..(i + 1) * stride).unwrap_or_default();
            let Claim { of, mut handle, run } = claim;
            if let Some(shard) = run.as_ref().filter(|run| run.is_large).and_then(|run| run.shard.as_ref()) {
                match self.guarded(shared, |bench| bench.open(&shared.recipe, shard, of, handle, dims)) {
                    Ok(Ok(large)) => {
                        shared.share(large);
                        continue;
                    }
                    Ok(Err(row)) => handle = row,
                    Err(panic) => {
                        self.post(of, Some(panicked(of.sample, &*panic)), dims);
                        continue;
                    }
                }
            }
            match run {
                Some(run) => self.row(shared, (of, &mut handle), dims, |bench, at, row, dims| {
                    bench.decode(shared.work(), &run, at, row, dims)
                }),
                None => {
                    // Padding is zero.
                    shared.clear(&mut handle);
                    self.post(of, None, dims);
                }
            }
        }
        promised.clear();
        (self.claims, self.promised) = (claims, promised);
    }

    /// Reads a scene and decodes its patches.
    pub(crate) fn scene(&mut self, shared: &Shared, job: &mut ReadJob) -> Result<()> {
        let Some(read) = job.scene.clone() else { return Ok(()) };
        let (of, into) = ((&job.shard, job.records.start), &mut job.into);
        let scene = self.guarded(shared, |bench| bench.scene(shared.work(), of, (&read, into)));
        scene.unwrap_or_else(|panic| Err(panicked(read.sample, &*panic)))
    }

    /// Works on parts of a large record until none is left, and completes it if it was the last to
    /// do so.
    pub(crate) fn parts(&mut self, shared: &Shared, large: &Large) {
        while let Some(number) = large.take() {
            if self.guarded(shared, |bench| bench.part(large, number, &shared.counters)).is_err() {
                large.fail();
            }
            if !large.done(number) || large.is_abandoned() {
                continue;
            }
            let Some((mut row, mut dims, there)) = large.take_row() else {
                let error = Error::internal("row of a large record", "one that nobody else has", "none");
                self.post(large.of, Some(error), &[]);
                return;
            };
            self.row(shared, (large.of, &mut row), &mut dims, |bench, at, row, dims| {
                bench.complete(shared.work(), (large, &there), at, row, dims)
            });
            // Before the row: the slot is in use until then.
            drop(there);
        }
    }

    /// Works on the bench. After a panic there is a new one: what the decoders hold then is not to be
    /// trusted any more.
    fn guarded<T>(&mut self, shared: &Shared, work: impl FnOnce(&mut Bench) -> T) -> std::thread::Result<T> {
        let made = catch_unwind(AssertUnwindSafe(|| work(&mut self.bench)));
        if made.is_err() {
            self.bench = Bench::new(&shared.recipe, shared.stage.as_deref());
        }
        made
    }

    /// Makes a row, and notes what became of it.
    fn row(
        &mut self,
        shared: &Shared,
        (of, row): (RowOf, &mut RowMut),
        dims: &mut [u64],
        make: impl FnOnce(&mut Bench, SampleAt, &mut RowMut, &mut [u64]) -> Result<()>,
    ) {
        let at = of.at();
        let made = self.guarded(shared, |bench| make(bench, at, row, dims));
        let fault = made.map_or_else(|panic| Some(panicked(of.sample, &*panic)), Result::err);
        // Rows that may be skipped are zero.
        if fault.is_some() {
            shared.clear(row);
        }
        self.post(of, fault, dims);
    }

    fn post(&mut self, of: RowOf, fault: Option<Error>, dims: &[u64]) {
        let made = std::mem::take(&mut self.bench.made);
        self.dims.extend_from_slice(dims);
        self.outcomes.push(Outcome::of(of, fault.map_or(Ok(made), Err)));
    }

    /// Has the host decode what the device found odd.
    pub(crate) fn mend(&mut self, shared: &Shared, mend: Mend) {
        let fields = shared.recipe.fields.plans.len();
        let Mend { generation, epoch, batch, rows } = mend;
        let mended = rows.into_iter().map(|mut odd| {
            let row = self.guarded(shared, |bench| bench.mend(shared.work(), epoch, &mut odd));
            let mut fault = row.map_or_else(|panic| Some(panicked(odd.sample, &*panic)), Result::err);
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
    Error::Internal(FormatError::panicked(format!("decoding of sample {sample}"), panic))
}
