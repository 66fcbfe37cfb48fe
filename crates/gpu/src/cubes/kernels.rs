//! The kernels for cubes, on a device.

use super::wire::CONFIG;
use super::work::CubeWork;
use crate::config::KernelSource;
use crate::driver::{Device, Event, GpuError, Launch, Memory, Module, Stream};

/// The kernels, compiled by the driver for a device.
#[derive(Debug)]
pub struct CubeKernels {
    module: Module,
}

/// Kernels of `cubes.cu`.
pub(super) const SOURCE: KernelSource<{ CONFIG.len() }> = KernelSource {
    ptx: include_str!("../../ptx/cubes.ptx"),
    kernels: &["cube_frames", "cube_streams", "cube_pieces", "cube_values", "cube_quads", "cube_noise", "cube_config"],
    config: "cube_config",
    expected: CONFIG,
};

impl CubeKernels {
    /// Lets the driver compile the kernels, which takes about a second the first time, and checks that their
    /// sizes and constants equal this crate's.
    ///
    /// # Errors
    /// `Driver` if the driver rejects the kernels: it is older than 525, or the device has a compute
    /// capability below 7.5.
    pub fn load(device: &Device) -> Result<Self, GpuError> {
        Ok(Self { module: SOURCE.load(device)? })
    }

    pub(crate) const fn module(&self) -> &Module {
        &self.module
    }

    /// Runs the kernels of `work` on `stream`: `slot` holds the uploaded bytes, and `out` receives the
    /// values.
    ///
    /// # Errors
    /// `Range` if the slot or the output is too short; `Driver` if a driver call fails.
    pub fn run(&self, stream: &Stream, work: &CubeWork, slot: &Memory, out: &Memory) -> Result<(), GpuError> {
        Self::check(work, slot, out)?;
        for launch in work.launches(slot.address(), 0, out.address()) {
            stream.run(&self.module, &launch)?;
        }
        Ok(())
    }

    /// Returns the milliseconds of each kernel, the median of several runs, on an uploaded and decoded slot.
    /// The output is then meaningless.
    ///
    /// # Errors
    /// As `run`.
    pub fn profile(
        &self,
        device: &Device,
        stream: &Stream,
        work: &CubeWork,
        slot: &Memory,
        out: &Memory,
    ) -> Result<Vec<(&'static str, f32)>, GpuError> {
        Self::check(work, slot, out)?;
        let marks = [Event::new(device)?, Event::new(device)?];
        let launches = work.launches(slot.address(), 0, out.address()).into_iter().filter(Launch::has_work);
        launches.map(|launch| Ok((launch.kernel, stream.time(&self.module, &launch, &marks)?))).collect()
    }

    fn check(work: &CubeWork, slot: &Memory, out: &Memory) -> Result<(), GpuError> {
        let short = |what, memory: &Memory, count: u64| match count <= memory.len() as u64 {
            true => Ok(()),
            false => Err(GpuError::Range { what, len: memory.len() as u64, offset: 0, count }),
        };
        short("slot of cubes", slot, work.slot_bytes())?;
        short("output of cubes", out, work.out_bytes())
    }
}
