//! Encapsulates device streams. Other libraries pass streams as numbers, which the driver trusts. The code that
//! creates a [`StreamHandle`] is therefore responsible for the number.
#![allow(unsafe_code)]

/// A device stream, identified by the driver's handle.
///
/// ```
/// use shardpack_loader::stage::StreamHandle;
/// assert_eq!(StreamHandle::LEGACY.handle(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// CUDA's legacy default stream, which every device has.
    pub const LEGACY: Self = Self(1);

    /// Creates a stream from the driver's handle.
    ///
    /// # Safety
    /// The handle must be a stream on the device of each batch that it is used with
    /// ([`Batch::used_on`](crate::Batch::used_on)), and must live until these batches are dropped.
    #[must_use]
    pub const unsafe fn new(handle: u64) -> Self {
        Self(handle)
    }

    /// Returns the driver's handle.
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0
    }
}
