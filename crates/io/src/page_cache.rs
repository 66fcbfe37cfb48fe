//! Advises the system which pages of a file to read ahead and which to drop from memory.
//!
//! Linux has `posix_fadvise` for this. Other systems, such as macOS, get no advice: they read ahead by their own rules,
//! and keep the pages.

use std::fs::File;

/// Asks the system to read far ahead, because the file is read from its beginning to its end.
#[cfg(target_os = "linux")]
pub(crate) fn advise_sequential(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
}

/// Asks the system to read `bytes` bytes from `offset` on in the background.
#[cfg(target_os = "linux")]
pub fn advise_soon(file: &File, offset: u64, bytes: u64) {
    // Advise in small steps, because Linux reads ahead at most one request of the device per call, often 1 MiB.
    let end = offset.saturating_add(bytes);
    let mut at = offset;
    while at < end {
        let step = (end - at).min(1 << 20);
        let _ = rustix::fs::fadvise(file, at, std::num::NonZeroU64::new(step), rustix::fs::Advice::WillNeed);
        at += step;
    }
}

/// Returns whether the byte at `offset` is in the page cache. Returns `None` if the system does not report this.
#[cfg(target_os = "linux")]
pub fn is_cached(file: &File, offset: u64) -> Option<bool> {
    use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => Some(read == 1),
        Err(Errno::AGAIN) => Some(false),
        // Some file systems, especially network file systems, do not support this flag.
        Err(_) => None,
    }
}

/// Asks the system to drop the pages of the file from memory.
#[cfg(target_os = "linux")]
pub(crate) fn drop_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn advise_sequential(_: &File) {}

/// Does nothing, because this system has no such call.
#[cfg(not(target_os = "linux"))]
pub fn advise_soon(_: &File, _: u64, _: u64) {}

/// Returns `None`, because this system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn is_cached(_: &File, _: u64) -> Option<bool> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_cached(_: &File) {}
