//! Loads the kernels of a module, and checks that the host uses the same struct sizes and constants. The check runs
//! once, after the driver has compiled the kernels.

use crate::driver::{Device, GpuError, Launch, Memory, Module, Params, Pinned, Stream};

/// Size in bytes of a row's status word, which kernels write.
pub(crate) const STATUS_BYTES: usize = 4;

/// A PTX file, with its kernels and the numbers that it shares with the host. `scripts/make_ptx.py` compiles it.
pub(crate) struct KernelSource<const N: usize> {
    pub(crate) ptx: &'static str,
    pub(crate) kernels: &'static [&'static str],
    /// Name of the kernel that writes the module's struct sizes and constants.
    pub(crate) config: &'static str,
    /// Expected output of that kernel.
    pub(crate) expected: [u32; N],
}

impl<const N: usize> KernelSource<N> {
    /// Loads the kernels, which the driver compiles or finds in its cache. Checks that their sizes and constants
    /// equal this crate's.
    ///
    /// # Errors
    /// `Driver` if the driver rejects the kernels.
    pub(crate) fn load(&self, device: &Device) -> Result<Module, GpuError> {
        let module = Module::load(device, self.ptx, self.kernels)?;
        let (stream, memory) = (Stream::new(device)?, Memory::new(device, 4 * N)?);
        let mut found = Pinned::new(device, 4 * N)?;
        stream.run(&module, &self.ask(memory.address()))?;
        stream.download(&memory, 0..4 * N, &mut found, 0)?;
        let found: Vec<u32> = found.bytes_mut()?.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        if found == self.expected {
            return Ok(module);
        }
        Err(GpuError::Driver {
            call: "loading the GPU kernels",
            name: "version mismatch".into(),
            text: format!(
                "the kernels belong to another version of shardpack, please reinstall shardpack (kernel parameters: \
                 {found:?}, expected: {:?})",
                self.expected
            ),
        })
    }

    fn ask(&self, out: u64) -> Launch {
        let params = Params::new().address(out);
        Launch { kernel: self.config, grid: [1; 3], block: [32, 1, 1], params }
    }

    /// Asserts that the kernels, emulated on the CPU, have this crate's sizes and constants, and that the PTX
    /// contains every kernel.
    #[cfg(test)]
    pub(crate) fn assert_same(&self) {
        let mut device = shardpack_gpu_play::Device::new(shardpack_gpu_play::MANNERS[0]);
        let out = device.alloc(4 * N);
        let launch = self.ask(device.address(out));
        device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
        assert_eq!(device.bytes(out), self.expected.map(u32::to_le_bytes).as_flattened());
        for kernel in self.kernels {
            assert!(self.ptx.contains(&format!(".entry {kernel}(")), "{kernel}");
        }
        assert!(!self.ptx.contains(".extern .func"), "a function that is not there");
    }
}
