//! Reads little-endian integers with bounds checks, and pads data to 64-byte boundaries.

use crate::error::{Error, Result};

/// Alignment, in bytes, of records, of the fields in a record, and of index sections.
pub const ALIGNMENT: u64 = 64;

/// Returns the smallest multiple of [`ALIGNMENT`] that is at least `n`, or `None` on overflow.
#[must_use]
pub const fn align_up(n: u64) -> Option<u64> {
    match n.checked_add(ALIGNMENT - 1) {
        Some(sum) => Some(sum & !(ALIGNMENT - 1)),
        None => None,
    }
}

/// A bounds-checked cursor over a byte slice. Its errors include the offset within the slice.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    what: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, pos: 0, what }
    }

    pub(crate) fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(n).ok().and_then(|n| self.pos.checked_add(n));
        match end.and_then(|end| self.bytes.get(self.pos..end).map(|s| (s, end))) {
            Some((slice, end)) => {
                self.pos = end;
                Ok(slice)
            }
            None => Err(Error::malformed(format!(
                "the {} is truncated: it needs {n} more bytes, but only {} remain",
                self.what,
                self.bytes.len() - self.pos
            ))
            .at(self.pos as u64)),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads `n` bytes that must be zero.
    pub(crate) fn zeros(&mut self, n: u64) -> Result<()> {
        let start = self.pos as u64;
        match self.take(n)?.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(i) => Err(Error::malformed(format!("the {} is damaged: a reserved byte is not zero", self.what))
                .at(start + i as u64)),
        }
    }

    /// Reads zero bytes up to the next multiple of [`ALIGNMENT`].
    pub(crate) fn pad(&mut self) -> Result<()> {
        let pos = self.pos as u64;
        let end = align_up(pos).ok_or_else(|| {
            Error::malformed(format!("the {} is damaged: it extends past offset 2^64", self.what)).at(pos)
        })?;
        self.zeros(end - pos)
    }

    pub(crate) const fn pos(&self) -> u64 {
        self.pos as u64
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.pos == self.bytes.len() {
            return Ok(());
        }
        let extra = self.bytes.len() - self.pos;
        let text = format!("the {} is damaged: {extra} extra bytes at its end", self.what);
        Err(Error::malformed(text).at(self.pos as u64))
    }
}

/// Appends zero bytes until the length is a multiple of [`ALIGNMENT`].
pub fn pad_to_alignment(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(64), 0);
}
