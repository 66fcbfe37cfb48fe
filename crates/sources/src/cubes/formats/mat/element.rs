//! Reads the data elements of MATLAB files. An element consists of a tag, with a type and a length,
//! and its bytes. A small element has up to four bytes inside its tag.

use crate::cubes::error::{CubeError, Result};
use crate::cubes::source::CubeFile;
use shardpack_format::{Dtype, to_usize};
use std::io::{ErrorKind, Read};

/// Type numbers of elements that contain other elements.
pub(super) const MATRIX: u32 = 14;
pub(super) const COMPRESSED: u32 = 15;

pub(super) fn numeric(kind: u32) -> Option<Dtype> {
    Some(match kind {
        1 => Dtype::I8,
        2 => Dtype::U8,
        3 => Dtype::I16,
        4 => Dtype::U16,
        5 => Dtype::I32,
        6 => Dtype::U32,
        7 => Dtype::F32,
        9 => Dtype::F64,
        12 => Dtype::I64,
        13 => Dtype::U64,
        _ => return None,
    })
}

pub(super) struct Elements<'a, R> {
    pub(super) source: &'a CubeFile,
    pub(super) big_endian: bool,
    pub(super) reader: R,
}

pub(super) struct Tag {
    pub(super) kind: u32,
    pub(super) bytes: u64,
    small: Option<[u8; 4]>,
}

impl<R: Read> Elements<'_, R> {
    pub(super) fn tag(&mut self) -> Result<Tag> {
        let kind = self.word()?;
        // A small element has its length in the upper half of the first word and its content in the second word.
        match (kind & 0xffff, kind >> 16) {
            (kind, 0) => Ok(Tag { kind, bytes: u64::from(self.word()?), small: None }),
            (kind, bytes @ 1..=4) => {
                let mut content = [0; 4];
                self.exact(&mut content)?;
                Ok(Tag { kind, bytes: u64::from(bytes), small: Some(content) })
            }
            (_, other) => Err(self.source.damaged(format_args!(
                "the MATLAB file is damaged: a small element has {other} bytes instead of 1 to 4"
            ))),
        }
    }

    /// Reads an element of at most `max` bytes, including its padding.
    pub(super) fn short(&mut self, what: &str, max: u64) -> Result<(u32, Vec<u8>)> {
        let tag = self.tag()?;
        if tag.bytes > max {
            return Err(self.source.damaged(format_args!(
                "the MATLAB file is damaged: expected at most {max} bytes for {what}, found {}",
                tag.bytes
            )));
        }
        let mut content = vec![0; to_usize(tag.bytes)];
        match tag.small {
            Some(small) => content.iter_mut().zip(small).for_each(|(to, from)| *to = from),
            None => {
                self.exact(&mut content)?;
                self.skip(tag.bytes.next_multiple_of(8) - tag.bytes)?;
            }
        }
        Ok((tag.kind, content))
    }

    /// Reads the content of `tag` as little-endian elements of type `target`. MATLAB stores doubles as bytes if
    /// all values are small integers.
    pub(super) fn numbers(&mut self, tag: &Tag, target: Dtype, count: u64) -> Result<Vec<u8>> {
        let source = self.source;
        let bad = |why: String| source.damaged(format_args!("the MATLAB array is damaged: {why}"));
        let stored = numeric(tag.kind).ok_or_else(|| bad(format!("its values have the unknown type {}", tag.kind)))?;
        let bytes = stored.bytes().saturating_mul(count);
        if bytes != tag.bytes {
            return Err(bad(format!("it has {} bytes, but {count} {stored} values take {bytes}", tag.bytes)));
        }
        let mut out = self.source.alloc("MATLAB elements", count.saturating_mul(target.bytes()))?;
        let same = stored == target || (target == Dtype::Bool && stored.bytes() == 1);
        if let Some(small) = tag.small {
            let content: Vec<u8> = small.iter().copied().take(usize::try_from(tag.bytes).unwrap_or(4)).collect();
            convert(&content, stored, target, self.big_endian, &mut out).ok_or_else(|| bad(unfit(stored, target)))?;
        } else if same {
            let read = self.source.append(&mut self.reader, tag.bytes, &mut out);
            if read.map_err(|error| damaged(self.source, error))? != tag.bytes {
                return Err(ended(self.source));
            }
            if self.big_endian {
                crate::cubes::gather::swap_in_place(&mut out, stored.bytes());
            }
        } else {
            let mut left = tag.bytes;
            let mut chunk = vec![0; 64 << 10];
            while left > 0 {
                self.source.check_cancel()?;
                let length = to_usize(left).min(chunk.len());
                let (part, _) = chunk.split_at_mut(length);
                self.reader.read_exact(part).map_err(|error| damaged(self.source, error))?;
                convert(part, stored, target, self.big_endian, &mut out).ok_or_else(|| bad(unfit(stored, target)))?;
                left -= length as u64;
            }
        }
        Ok(out)
    }

    /// Reads the final padding, so that zlib verifies its checksum.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.skip(16)
    }

    fn word(&mut self) -> Result<u32> {
        let mut word = [0; 4];
        self.exact(&mut word)?;
        Ok(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    pub(super) fn words(&self, content: &[u8]) -> Vec<u32> {
        let decode = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        content.as_chunks().0.iter().map(|&word| decode(word)).collect()
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        std::io::copy(&mut (&mut self.reader).take(bytes), &mut std::io::sink())
            .map(|_| ())
            .map_err(|error| damaged(self.source, error))
    }

    fn exact(&mut self, out: &mut [u8]) -> Result<()> {
        self.reader.read_exact(out).map_err(|error| damaged(self.source, error))
    }
}

fn unfit(stored: Dtype, target: Dtype) -> String {
    format!("its {stored} values cannot be converted to {target}")
}

fn ended(source: &CubeFile) -> CubeError {
    source.damaged("the MATLAB file is truncated")
}

fn damaged(source: &CubeFile, error: std::io::Error) -> CubeError {
    match error.kind() {
        ErrorKind::UnexpectedEof => ended(source),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            source.damaged(format_args!("cannot decompress a MATLAB element: {error}"))
        }
        _ => source.io("cannot read", error),
    }
}

/// Converts elements to type `target`. Returns `None` if a value does not fit, or if MATLAB never makes this
/// conversion.
fn convert(bytes: &[u8], stored: Dtype, target: Dtype, big_endian: bool, out: &mut Vec<u8>) -> Option<()> {
    macro_rules! pair {
        ($from:ty, $cast:expr) => {{
            for &element in bytes.as_chunks().0 {
                let value = if big_endian { <$from>::from_be_bytes(element) } else { <$from>::from_le_bytes(element) };
                out.extend_from_slice(&$cast(value)?.to_le_bytes());
            }
            Some(())
        }};
    }
    macro_rules! from_any {
        ($cast:expr) => {
            match stored {
                Dtype::I8 => pair!(i8, $cast),
                Dtype::U8 => pair!(u8, $cast),
                Dtype::I16 => pair!(i16, $cast),
                Dtype::U16 => pair!(u16, $cast),
                Dtype::I32 => pair!(i32, $cast),
                Dtype::U32 => pair!(u32, $cast),
                Dtype::I64 => pair!(i64, $cast),
                Dtype::U64 => pair!(u64, $cast),
                _ => None,
            }
        };
    }
    match (stored, target) {
        (Dtype::F32, Dtype::F64) => pair!(f32, |value| Some(f64::from(value))),
        // A float32 reaches this only from a scalar inside its tag. The scalar already has the target type.
        (Dtype::F32, Dtype::F32) => pair!(f32, Some),
        (_, Dtype::F64) => from_any!(|value| Some(value as f64)),
        (_, Dtype::F32) => from_any!(|value| Some(value as f32)),
        (_, Dtype::I8) => from_any!(|value| i8::try_from(i128::from(value)).ok()),
        (_, Dtype::U8 | Dtype::Bool) => from_any!(|value| u8::try_from(i128::from(value)).ok()),
        (_, Dtype::I16) => from_any!(|value| i16::try_from(i128::from(value)).ok()),
        (_, Dtype::U16) => from_any!(|value| u16::try_from(i128::from(value)).ok()),
        (_, Dtype::I32) => from_any!(|value| i32::try_from(i128::from(value)).ok()),
        (_, Dtype::U32) => from_any!(|value| u32::try_from(i128::from(value)).ok()),
        (_, Dtype::I64) => from_any!(|value| i64::try_from(i128::from(value)).ok()),
        (_, Dtype::U64) => from_any!(|value| u64::try_from(i128::from(value)).ok()),
        _ => None,
    }
}
