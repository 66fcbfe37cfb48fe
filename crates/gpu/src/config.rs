//! What kernels and host must mean the same: asked once, when a module was loaded.

use crate::driver::{Device, GpuError, Launch, Memory, Module, Pinned, Stream};

/// Bytes of the word in which a kernel says what became of a row.
pub(crate) const STATUS_BYTES: usize = 4;

/// Runs a kernel that writes the sizes and constants of its module, and compares them with
/// `expected`.
pub(crate) fn check<const N: usize>(
    device: &Device,
    module: &Module,
    launch: impl FnOnce(u64) -> Launch,
    expected: &[u32; N],
) -> Result<(), GpuError> {
    let bytes = 4 * N;
    let (stream, memory) = (Stream::new(device)?, Memory::new(device, bytes)?);
    let mut found = Pinned::new(device, bytes)?;
    stream.run(module, &launch(memory.address()))?;
    stream.download(&memory, 0..bytes, &mut found, 0)?;
    let found: Vec<u32> = found.bytes_mut()?.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    match found == expected {
        true => Ok(()),
        false => Err(GpuError::Driver {
            call: "configuration of the kernels",
            name: "mismatch".into(),
            text: format!("expected {expected:?}, found: {found:?}"),
        }),
    }
}
