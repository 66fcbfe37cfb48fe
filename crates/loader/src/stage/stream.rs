//! The fence around streams of a device. Other libraries pass their streams as numbers, and the driver
//! trusts the number: the code that makes a [`StreamHandle`] is responsible for it.
#![allow(unsafe_code)]

/// A stream of a device, by the driver's handle.
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

    /// The stream of this handle.
    ///
    /// # Safety
    /// The handle is a stream of the device of each batch that it is used with
    /// ([`Batch::used_on`](crate::Batch::used_on)), and lives until these batches are dropped.
    #[must_use]
    pub const unsafe fn new(handle: u64) -> Self {
        Self(handle)
    }

    /// The handle of the driver.
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0
    }
}
