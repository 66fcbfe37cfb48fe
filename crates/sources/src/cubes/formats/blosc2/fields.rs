//! Reads the msgpack values of a frame in sequence. The frame format fixes one encoding per field.

use crate::cubes::error::{CubeError, Result};
use crate::cubes::source::CubeFile;

/// The part of a header or trailer that has not been read yet.
pub(super) struct Fields<'a> {
    source: &'a CubeFile,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(source: &'a CubeFile, bytes: &'a [u8]) -> Self {
        Self { source, bytes }
    }

    pub(super) fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let (bytes, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.short(what, N))?;
        self.bytes = rest;
        Ok(*bytes)
    }

    pub(super) fn byte(&mut self, what: &str) -> Result<u8> {
        self.take::<1>(what).map(|[byte]| byte)
    }

    pub(super) fn slice(&mut self, what: &str, length: u32) -> Result<&'a [u8]> {
        let length = shardpack_format::to_usize(length);
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or_else(|| self.short(what, length))?;
        self.bytes = rest;
        Ok(bytes)
    }

    /// Reads the marker byte at the start of a value.
    pub(super) fn mark(&mut self, what: &str, expected: u8) -> Result<()> {
        match self.byte(what)? {
            found if found == expected => Ok(()),
            found => Err(self.source.damaged(format_args!(
                "the Blosc2 frame is damaged: expected the {what} to begin with the byte {expected:#04x}, found \
                 {found:#04x}"
            ))),
        }
    }

    /// Reads a 64-bit integer that must not be negative.
    pub(super) fn size64(&mut self, what: &str) -> Result<u64> {
        self.mark(what, 0xD3)?;
        let value = i64::from_be_bytes(self.take(what)?);
        self.not_negative(what, value)
    }

    pub(super) fn size32(&mut self, what: &str) -> Result<u64> {
        self.mark(what, 0xD2)?;
        let value = i32::from_be_bytes(self.take(what)?);
        self.not_negative(what, value.into())
    }

    fn not_negative(&self, what: &str, value: i64) -> Result<u64> {
        u64::try_from(value).map_err(|_| {
            self.source
                .damaged(format_args!("the Blosc2 frame is damaged: the {what} must not be negative, but is {value}"))
        })
    }

    pub(super) fn u16(&mut self, what: &str, mark: u8) -> Result<u16> {
        self.mark(what, mark)?;
        self.take(what).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, what: &str, mark: u8) -> Result<u32> {
        self.mark(what, mark)?;
        self.take(what).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, what: &str, mark: u8) -> Result<u64> {
        self.mark(what, mark)?;
        self.take(what).map(u64::from_be_bytes)
    }

    fn short(&self, what: &str, bytes: usize) -> CubeError {
        let left = self.bytes.len();
        self.source.damaged(format_args!(
            "the Blosc2 frame is damaged: the {what} is cut off (bytes needed: {bytes}, left: {left})"
        ))
    }
}
