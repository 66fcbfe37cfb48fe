//! Loads kernels, which the driver compiles for its device.
#![allow(unsafe_code)]

use super::Device;
use super::error::GpuError;
use cudarc::driver::{result, sys};
use std::collections::BTreeMap;
use std::ffi::CString;

#[derive(Debug)]
pub(crate) struct Module {
    device: Device,
    handle: sys::CUmodule,
    kernels: BTreeMap<&'static str, sys::CUfunction>,
}

// SAFETY: the driver accepts a function from any thread, and from several threads at the same time. Nothing
// changes after `load`.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the named kernels of `ptx`, which the driver compiles or finds in its cache.
    ///
    /// # Errors
    /// `Driver` if the driver rejects the PTX or a kernel is missing.
    pub(crate) fn load(device: &Device, ptx: &str, names: &[&'static str]) -> Result<Self, GpuError> {
        let _current = device.bind()?;
        let refused = |call| GpuError::of(call)(result::DriverError(sys::CUresult::CUDA_ERROR_INVALID_PTX));
        let text = CString::new(ptx).map_err(|_| refused("PTX contains a NUL byte"))?;
        // SAFETY: the text is a string with a zero at its end.
        let handle =
            unsafe { result::module::load_data(text.as_ptr().cast()) }.map_err(GpuError::of("cuModuleLoadData"))?;
        let mut module = Self { device: device.clone(), handle, kernels: BTreeMap::new() };
        for &name in names {
            let symbol = CString::new(name).map_err(|_| refused("kernel name contains a NUL byte"))?;
            // SAFETY: the module is loaded, and unloaded only when the value is dropped.
            let found = unsafe { result::module::get_function(handle, symbol) };
            module.kernels.insert(name, found.map_err(GpuError::of("cuModuleGetFunction"))?);
        }
        Ok(module)
    }

    pub(super) fn kernel(&self, name: &'static str) -> Result<sys::CUfunction, GpuError> {
        let missing = || GpuError::Driver {
            call: "launching a GPU kernel",
            name: "missing from the loaded module".into(),
            text: format!("`{name}`"),
        };
        self.kernels.get(name).copied().ok_or_else(missing)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Wait for running kernels before unloading. In a fork, there is nothing to unload.
        let Ok(_current) = self.device.bind() else { return };
        _ = self.device.synchronize();
        // SAFETY: the module was loaded in `load` and is unloaded once; launching a kernel borrows the module.
        _ = unsafe { result::module::unload(self.handle) };
    }
}
