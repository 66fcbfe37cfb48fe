//! A slot on the device: memory for a batch, and the stream that decodes it.

use super::{CONFIG, KERNELS, PictureBatch, Regions};
use crate::config::KernelSource;
use crate::driver::{Device, Event, GpuError, Launch, Memory, Module, Pinned, Stream};
use std::sync::Arc;

/// The kernels.
const SOURCE: KernelSource<{ CONFIG.len() }> = KernelSource {
    ptx: include_str!("../../ptx/pictures.ptx"),
    kernels: &KERNELS,
    config: "pictures_config",
    expected: CONFIG,
};

/// Decodes one batch at a time: staging memory, device memory and a stream, all taken at the start.
#[derive(Debug)]
pub struct PictureDecoder {
    module: Arc<Module>,
    stream: Stream,
    staging: Pinned,
    scratch: Memory,
    out: Memory,
    read: Pinned,
    marks: [Event; 2],
    is_marked: bool,
}

/// Time on the device, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// Time from the start of the first kernel to the end of the last, without the upload.
    pub kernels_ms: f32,
}

impl PictureDecoder {
    /// Lets the driver compile the kernels for its device, or load them from its cache, and checks that their
    /// sizes and constants equal this crate's.
    ///
    /// # Errors
    /// `Driver` if the driver rejects the kernels.
    pub fn module(device: &Device) -> Result<Arc<Module>, GpuError> {
        SOURCE.load(device).map(Arc::new)
    }

    /// Creates a decoder with `staging_bytes` of pinned memory for uploads, `scratch_bytes` of device memory
    /// for uploads and intermediate data, and `out_bytes` for the output, both on the device and pinned.
    ///
    /// # Errors
    /// `OutOfMemory` with figures; `Driver` if a driver call fails.
    pub fn new(
        device: &Device,
        module: Arc<Module>,
        staging_bytes: usize,
        scratch_bytes: usize,
        out_bytes: usize,
    ) -> Result<Self, GpuError> {
        Ok(Self {
            module,
            stream: Stream::new(device)?,
            staging: Pinned::new(device, staging_bytes)?,
            scratch: Memory::new(device, scratch_bytes)?,
            out: Memory::new(device, out_bytes)?,
            read: Pinned::new(device, out_bytes)?,
            marks: [Event::new(device)?, Event::new(device)?],
            is_marked: false,
        })
    }

    /// Returns the memory for staging the next batch. Waits until the last batch is uploaded.
    ///
    /// # Errors
    /// `Driver` if an earlier launch has failed, or the device is lost.
    pub fn staging(&mut self) -> Result<&mut [u8], GpuError> {
        self.staging.bytes_mut()
    }

    /// Uploads a batch that was staged in [`staging`](Self::staging), and launches its kernels. Returns
    /// before the kernels are done.
    ///
    /// # Errors
    /// `Range` if the batch needs more memory than the decoder has; `Driver` if a driver call fails.
    pub fn submit(&mut self, batch: &PictureBatch) -> Result<(), GpuError> {
        let (at, _) = self.places(batch)?;
        self.stream.upload(&mut self.staging, 0..batch.upload_bytes(), &self.scratch, 0)?;
        self.launch(batch, &at)
    }

    /// Launches the kernels of a batch whose bytes are still on the device, because the last call was its
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// As `submit`.
    pub fn again(&mut self, batch: &PictureBatch) -> Result<(), GpuError> {
        let (at, _) = self.places(batch)?;
        self.launch(batch, &at)
    }

    /// Returns the milliseconds of each kernel on a batch whose bytes are already on the device: the median
    /// of several runs.
    ///
    /// # Errors
    /// As `submit`.
    pub fn profile(&mut self, batch: &PictureBatch) -> Result<Vec<(&'static str, f32)>, GpuError> {
        let (at, _) = self.places(batch)?;
        let time = |launch: Launch| Ok((launch.kernel, self.stream.time(&self.module, &launch, &self.marks)?));
        batch.launches(&at).into_iter().map(time).collect()
    }

    fn launch(&mut self, batch: &PictureBatch, at: &Regions<u64>) -> Result<(), GpuError> {
        let [begin, end] = &self.marks;
        begin.record(&self.stream)?;
        for launch in batch.launches(at) {
            self.stream.run(&self.module, &launch)?;
        }
        end.record(&self.stream)?;
        self.is_marked = true;
        Ok(())
    }

    /// Waits for the batch, if there is one. The output is then at [`out`](Self::out).
    ///
    /// # Errors
    /// `Driver` if a kernel failed, or the device is lost.
    pub fn wait(&mut self) -> Result<Timing, GpuError> {
        self.stream.synchronize()?;
        let [begin, end] = &self.marks;
        let kernels_ms = if self.is_marked { begin.milliseconds_to(end)? } else { 0.0 };
        Ok(Timing { kernels_ms })
    }

    /// Address of the output on the device.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.out.address()
    }

    /// Waits for the batch, and copies the output and each row's status to the host.
    ///
    /// # Errors
    /// As `wait`.
    pub fn read(&mut self, batch: &PictureBatch) -> Result<(Vec<u8>, Vec<u32>), GpuError> {
        let sizes = batch.sizes();
        let (_, status_at) = self.places(batch)?;
        self.stream.download(&self.out, 0..sizes.out, &mut self.read, 0)?;
        let out = self.read.bytes_mut()?.get(..sizes.out).unwrap_or_default().to_vec();
        self.stream.download(&self.scratch, status_at..status_at + sizes.status, &mut self.read, 0)?;
        let words = self.read.bytes_mut()?.get(..sizes.status).unwrap_or_default().as_chunks::<4>().0;
        Ok((out, words.iter().map(|&word| u32::from_le_bytes(word)).collect()))
    }

    /// Addresses of all regions, and the offset of the status words.
    fn places(&self, batch: &PictureBatch) -> Result<(Regions<u64>, usize), GpuError> {
        let (offsets, end) = batch.layout(batch.upload_bytes());
        for (what, len, count) in [
            ("memory of the device", self.scratch.len(), end),
            ("memory for the output", self.out.len(), batch.sizes().out),
        ] {
            if count > len {
                return Err(GpuError::Range { what, len: len as u64, offset: 0, count: count as u64 });
            }
        }
        let at = offsets.map(|offset| self.scratch.address() + offset as u64);
        Ok((Regions { out: self.out.address(), ..at }, offsets.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_host_mean_the_same() {
        SOURCE.assert_same();
    }
}
