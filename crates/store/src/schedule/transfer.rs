//! The bytes of one range in flight. They arrive in pieces, from which readers copy them.

use super::error::{PATIENCE, RequestError};
use super::readers::Readers;
use bytes::Bytes;
use shardpack_format::to_usize;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) range: Range<u64>,
    pub(crate) readers: Readers,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// Pieces in order of arrival, with their offsets in the range. They stay separate to avoid copying their
    /// bytes.
    pieces: Vec<(u64, Bytes)>,
    arrived: u64,
    failure: Option<RequestError>,
}

impl Transfer {
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self { range, readers: Readers::default(), inner: Mutex::default(), changed: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, bytes: Bytes) {
        let mut inner = self.inner();
        let start = inner.arrived;
        inner.arrived += bytes.len() as u64;
        inner.pieces.push((start, bytes));
        drop(inner);
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self, failure: RequestError) {
        self.inner().failure.get_or_insert(failure);
        self.changed.notify_all();
    }

    /// Copies bytes, starting at `offset`. Waits until at least one byte has arrived, or the wait is cancelled.
    pub(crate) fn read(
        &self,
        buffer: &mut [u8],
        offset: u64,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<usize, RequestError> {
        let at = offset.saturating_sub(self.range.start);
        let _waiting = self.readers.wait();
        let mut inner = self.inner();
        while inner.arrived <= at {
            if let Some(failure) = &inner.failure {
                return Err(failure.clone());
            }
            if is_cancelled() {
                return Err(RequestError::given_up());
            }
            inner = self.changed.wait_timeout(inner, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        let first = inner.pieces.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        let mut done = 0_usize;
        for (start, bytes) in inner.pieces.iter().skip(first) {
            let skip = to_usize((at + done as u64).saturating_sub(*start));
            let from = bytes.get(skip..).unwrap_or_default();
            let to = buffer.get_mut(done..).unwrap_or_default();
            let count = from.len().min(to.len());
            if let (Some(to), Some(from)) = (to.get_mut(..count), from.get(..count)) {
                to.copy_from_slice(from);
            }
            done += count;
            if done == buffer.len() {
                break;
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn arrived_bytes_are_read_across_pieces() {
        let transfer = Transfer::new(100..110);
        for piece in [&b"abc"[..], b"", b"defg"] {
            transfer.push(Bytes::copy_from_slice(piece));
        }
        let mut buffer = [0; 16];
        for offset in 0..7 {
            let read = transfer.read(&mut buffer, 100 + offset as u64, || false).unwrap();
            assert_eq!(&buffer[..read], &b"abcdefg"[offset..]);
        }
        let mut two = [0; 2];
        assert_eq!(transfer.read(&mut two, 102, || false).unwrap(), 2);
        assert_eq!(&two, b"cd");
        transfer.fail(RequestError::last(ErrorKind::Other, "gone"));
        assert_eq!(transfer.read(&mut two, 106, || false).unwrap(), 1, "arrived bytes are returned before the failure");
        assert_eq!(transfer.read(&mut two, 107, || true).unwrap_err().words, "gone");
    }

    #[test]
    fn a_wait_can_be_cancelled() {
        let transfer = Transfer::new(0..4);
        assert_eq!(transfer.read(&mut [0; 4], 0, || true).unwrap_err(), RequestError::given_up());
    }
}
