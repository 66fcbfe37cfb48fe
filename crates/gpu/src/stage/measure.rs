//! Provides access to slots without a loader, for measurements and for tests of single values.

use super::slot::{CudaSlot, locked};
use crate::driver::{Event, GpuError, Launch, Module};
use shardpack_loader::stage::RowFault;

impl CudaSlot {
    /// Returns the number of bytes that the started batch uploads.
    #[must_use]
    pub fn upload_bytes(&self) -> usize {
        locked(&self.work).batch.as_ref().map_or(0, |batch| batch.upload_bytes)
    }

    /// Waits for the started batch and returns its faults.
    ///
    /// # Errors
    /// `Driver` if a kernel failed or the device is lost.
    pub fn wait(&self) -> Result<Vec<RowFault>, GpuError> {
        locked(&self.work).faults()
    }

    /// Decodes the started batch again. If `uploads`, also uploads its staging memory again.
    ///
    /// # Errors
    /// `Driver` if a driver call fails.
    pub fn again(&self, uploads: bool) -> Result<(), GpuError> {
        let upload = uploads.then(|| self.fill.upload());
        let mut work = locked(&self.work);
        let Some(batch) = work.batch.take() else { return Ok(()) };
        let started = match upload {
            Some(upload) => self.enqueue(&mut work, &batch, upload),
            None => self.run_kernels(&work, &batch).and_then(|()| work.done.record(&self.stream)),
        };
        work.batch = Some(batch);
        started
    }

    /// Runs the kernels of the started batch again. Returns their time in milliseconds.
    ///
    /// # Errors
    /// Same as [`again`](Self::again).
    pub fn kernels_ms(&self) -> Result<f32, GpuError> {
        let [begin, end] = self.marks()?;
        begin.record(&self.stream)?;
        let work = locked(&self.work);
        if let Some(batch) = &work.batch {
            self.run_kernels(&work, batch)?;
        }
        end.record(&self.stream)?;
        end.synchronize()?;
        begin.milliseconds_to(&end)
    }

    /// Times each kernel of the started batch. Returns the times in milliseconds, as medians of several runs.
    /// The output is meaningless afterwards.
    ///
    /// # Errors
    /// Same as [`again`](Self::again).
    pub fn profile(&self) -> Result<Vec<(&'static str, f32)>, GpuError> {
        let marks = self.marks()?;
        let work = locked(&self.work);
        let Some(batch) = &work.batch else { return Ok(Vec::new()) };
        let time =
            |(module, launch): (&Module, Launch)| Ok((launch.kernel, self.stream.time(module, &launch, &marks)?));
        self.launches(&work, batch).into_iter().map(time).collect()
    }

    fn marks(&self) -> Result<[Event; 2], GpuError> {
        Ok([Event::new(&self.shared.device)?, Event::new(&self.shared.device)?])
    }
}
