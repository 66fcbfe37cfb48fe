//! A stack that is large enough for the deepest type: the library reads nested types by recursion,
//! without a limit of its own.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::thread::Builder;

/// A message of an object header, or the type of an attribute, has at most 2¹⁶ bytes, and each
/// level of a type takes 8 of them: 2¹³ levels, 16 KiB for each. Unused pages are only reserved.
const STACK_BYTES: usize = 128 << 20;

/// Runs `work` on such a stack.
pub(super) fn with_deep_stack<T: Send>(source: &CubeFile, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name("hdf5".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| source.io("cannot start a thread for the HDF5 file", error))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
