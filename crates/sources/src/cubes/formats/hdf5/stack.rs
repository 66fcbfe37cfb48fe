//! Runs work on a stack that is large enough for the most deeply nested type, because the library reads nested
//! types by unlimited recursion.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::thread::Builder;

/// Size of the stack in bytes. A message or an attribute type has at most 2¹⁶ bytes, and each level takes 8
/// bytes, so there are at most 2¹³ levels. This allows 16 KiB per level. Unused pages are only reserved.
const STACK_BYTES: usize = 128 << 20;

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
