//! Stores values that stay on the device, and the host's tables for these values.

use super::staging::staging_options;
use crate::gather::MARGIN;
use crate::{cubes, pictures};
use shardpack_array::Units;
use shardpack_loader::stage::{ArrayValue, RecordValue};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Alignment of values in bytes, so that copies move whole words.
const ALIGN: u64 = 16;

pub(super) trait Backing: Send + Sync {
    /// Copies `bytes` to offset `at` and waits for the copy.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Values in device memory. Many threads fill the store. Once sealed, it is read-only.
pub(super) struct Store<B> {
    backing: OnceLock<B>,
    reserved: AtomicU64,
    free: AtomicU64,
    filling: Mutex<Vec<Vec<u8>>>,
    /// The host's tables for the values, one block per call of `keep`.
    sealed: OnceLock<Vec<Vec<u8>>>,
    host_bytes: AtomicU64,
}

impl<B> std::fmt::Debug for Store<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("free", &self.free).finish_non_exhaustive()
    }
}

impl<B> Default for Store<B> {
    fn default() -> Self {
        Self {
            backing: OnceLock::new(),
            reserved: AtomicU64::new(0),
            free: AtomicU64::new(0),
            filling: Mutex::default(),
            sealed: OnceLock::new(),
            host_bytes: AtomicU64::new(0),
        }
    }
}

impl<B: Backing> Store<B> {
    /// Returns the maximum number of bytes that a value of `stored_bytes` bytes occupies in the store.
    pub(super) const fn value_bytes(stored_bytes: u64) -> u64 {
        stored_bytes.saturating_add(ALIGN)
    }

    /// Returns the size of the memory for `bytes` bytes of values, including the margin.
    pub(super) const fn backing_bytes(bytes: u64) -> u64 {
        bytes.saturating_add(MARGIN as u64)
    }

    /// Stores the values in `backing`, which has `bytes` bytes in addition to the margin.
    ///
    /// # Errors
    /// If the store already has a backing.
    pub(super) fn put_in(&self, backing: B, bytes: u64) -> io::Result<()> {
        self.backing.set(backing).map_err(|_| io::Error::other("memory for resident values is already reserved"))?;
        self.reserved.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn backing(&self) -> Option<&B> {
        self.backing.get()
    }

    pub(super) fn device_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    pub(super) fn host_bytes(&self) -> u64 {
        self.host_bytes.load(Ordering::Relaxed)
    }

    /// Copies values to the device and returns their numbers. The number is `None` if there is not enough memory, or
    /// if the device does not accept the value.
    ///
    /// # Errors
    /// If the device fails, or no memory is reserved.
    pub(super) fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>> {
        let Some(backing) = self.backing.get() else {
            return Err(io::Error::other("memory for resident values is not reserved"));
        };
        // Reserve contiguous memory for all values, so that a single copy is enough.
        let most: u64 = values.iter().map(|value| (bytes_of(value).len() as u64).next_multiple_of(ALIGN)).sum();
        let reserved = self.reserved.load(Ordering::Relaxed);
        let fits = |free: u64| free.checked_add(most).filter(|&end| end <= reserved);
        // There may be more bytes than were counted, because a file has changed, or a header that was unreadable
        // before can now be read.
        let Ok(start) = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            return Ok(vec![None; values.len()]);
        };
        let (mut bytes, mut known, mut places) = (Vec::new(), Vec::new(), Vec::with_capacity(values.len()));
        for value in values {
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            let before = known.len();
            let kept = keep_one(value, start + bytes.len() as u64, &mut known);
            places.push(kept.is_some().then_some(before));
            match kept {
                Some(kept) => bytes.extend_from_slice(kept),
                None => known.truncate(before),
            }
        }
        backing.write(start, &bytes)?;
        known.shrink_to_fit();
        self.host_bytes.fetch_add((known.capacity() + size_of::<Vec<u8>>()) as u64, Ordering::Relaxed);
        let mut filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        let block = filling.len();
        filling.push(known);
        let number = |at: usize| Some(u64::from(u32::try_from(block).ok()?) << 32 | u64::from(u32::try_from(at).ok()?));
        Ok(places.into_iter().map(|place| place.and_then(number)).collect())
    }

    pub(super) fn seal(&self) {
        let blocks = std::mem::take(&mut *self.filling.lock().unwrap_or_else(PoisonError::into_inner));
        _ = self.sealed.set(blocks);
    }

    /// Returns the tables of a value. Bytes of other values may follow them.
    pub(super) fn find(&self, number: u64) -> Option<&[u8]> {
        let (block, at) = (usize::try_from(number >> 32).ok()?, usize::try_from(number & u64::from(u32::MAX)).ok()?);
        self.sealed.get()?.get(block)?.get(at..)
    }
}

const fn bytes_of<'a>(value: &RecordValue<'a>) -> &'a [u8] {
    match value {
        RecordValue::Picture { picture, .. } => picture.bytes,
        RecordValue::Array { array, .. } | RecordValue::Mask { array, .. } => array.bytes,
    }
}

/// Appends the host's tables of a value to `known`, and returns the bytes to copy to offset `at` on the device.
/// Returns `None` if the device does not accept the value. Every row that needs the value then reports the reason.
fn keep_one<'a>(value: &RecordValue<'a>, at: u64, known: &mut Vec<u8>) -> Option<&'a [u8]> {
    match *value {
        RecordValue::Picture { picture, limits, clip: None, .. } => {
            pictures::keep(&picture, &staging_options(limits), at, known).ok()
        }
        RecordValue::Picture { picture, limits, clip: Some(_), .. } => {
            pictures::keep_clip(&picture, &staging_options(limits), at, known).ok()
        }
        RecordValue::Array { array, .. } | RecordValue::Mask { array, .. } => {
            let ArrayValue { codec, descriptor, bytes, limits, .. } = array;
            let units = Units::walk(codec, descriptor, bytes, limits).ok()?;
            cubes::keep(&units, bytes, at, known).ok()?;
            Some(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};

    struct Bytes(Mutex<Vec<u8>>);

    impl Backing for Bytes {
        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn values_are_aligned_as_far_as_there_is_room() {
        let store = Store::default();
        let limits = Limits::default();
        let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 5]);
        let payload: Vec<u8> = (1..=20).collect();
        let value = |bytes| {
            let array = ArrayValue { codec: Codec::Raw, descriptor: &descriptor, bytes, part: None, limits: &limits };
            RecordValue::Array { array, finish: &shardpack_array::Finish::NOTHING, noise: None, memo: None }
        };
        let (value, short) = (value(payload.as_slice()), value(payload.get(..19).unwrap()));
        assert!(store.keep(&[value]).is_err(), "there is no memory yet");
        let reserved = 5 * Store::<Bytes>::value_bytes(20) + ALIGN;
        store.put_in(Bytes(Mutex::new(vec![9; reserved as usize])), reserved).unwrap();
        let first = store.keep(&[value, short, value]).unwrap();
        assert!(first[0].is_some() && first[1].is_none() && first[2].is_some());
        assert_eq!(store.find(first[0].unwrap()), None, "not yet");
        let second = store.keep(&[value, value]).unwrap();
        assert_eq!(store.keep(&[value; 2]).unwrap(), [None, None], "there is no room for both");
        let last = store.keep(&[value]).unwrap();
        assert!(last[0].is_some(), "what did not fit has taken nothing");
        assert_eq!(store.keep(&[value]).unwrap(), [None], "there is no room left");
        store.seal();
        let memory = store.backing().unwrap().0.lock().unwrap().clone();
        for number in first.into_iter().chain(second).flatten() {
            let known = store.find(number).unwrap();
            let at = u64::from_le_bytes(*known.first_chunk().unwrap());
            assert!(at.is_multiple_of(ALIGN));
            assert_eq!(memory[at as usize..][..20], payload);
        }
        assert_eq!((store.find(7 << 32), store.find(u64::from(u32::MAX))), (None, None));
        assert!(store.host_bytes() >= 4 * 20 && store.device_bytes() == reserved);
    }
}
