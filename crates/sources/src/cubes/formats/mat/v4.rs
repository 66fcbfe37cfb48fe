//! Reads MATLAB files of version 4: a sequence of matrices, each with a 20-byte header and a name.
//! The format has no signature, so a file is only recognised if every word of the first header has
//! a value that MATLAB writes.

use super::variable::{ArrayPlace, Variable};
use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use shardpack_format::Dtype;

/// Size of a header in bytes. Its five words are: MOPT, the number of rows, the number of columns, the
/// imaginary flag, and the length of the name including its NUL.
const HEADER: u64 = 20;
const HEADER_LEN: usize = 20;

/// Maximum length of a name. MATLAB 4 allows 19 characters, but other programs write more.
const MAX_NAME: u64 = 256;

const MAX_MATRICES: usize = 10_000;

struct Header {
    big_endian: bool,
    dtype: Dtype,
    form: Form,
    rows: u64,
    columns: u64,
    complex: bool,
    name_bytes: u64,
}

enum Form {
    Numbers,
    Text,
    Sparse,
}

/// Returns true if a file of `len` bytes that starts with `head` is a version 4 file.
pub(super) fn is_v4(head: &[u8], len: u64) -> bool {
    let Some(header) = Header::parse(head) else { return false };
    let name = usize::try_from(header.name_bytes).ok().and_then(|bytes| head.get(HEADER_LEN..)?.get(..bytes));
    let fits = header.end(0).is_some_and(|end| end <= len);
    // An empty matrix is not enough evidence that the file has version 4.
    fits && header.element_bytes().is_some_and(|bytes| bytes > 0) && name.and_then(name_of).is_some()
}

/// Parses a name: ASCII letters, digits and `_`, ending with NUL.
fn name_of(bytes: &[u8]) -> Option<&str> {
    let (&0, name) = bytes.split_last()? else { return None };
    // Some writers pad names with several NULs.
    let name = std::str::from_utf8(name).ok()?.trim_end_matches('\0');
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(usual)).then_some(name)
}

impl Header {
    fn parse(head: &[u8]) -> Option<Self> {
        let (words, _) = head.first_chunk::<HEADER_LEN>()?.as_chunks::<4>();
        let &[mopt, rows, columns, imaginary, name] = words else { return None };
        // The thousands digit of MOPT is 0 for little-endian and 1 for big-endian.
        let (decode, mopt, big_endian): (fn([u8; 4]) -> u32, _, _) =
            match (u32::from_le_bytes(mopt), u32::from_be_bytes(mopt)) {
                (little @ ..=999, _) => (u32::from_le_bytes, little, false),
                (_, big @ 1000..=1999) => (u32::from_be_bytes, big - 1000, true),
                _ => return None,
            };
        let dtype = match mopt / 10 {
            0 => Dtype::F64,
            1 => Dtype::F32,
            2 => Dtype::I32,
            3 => Dtype::I16,
            4 => Dtype::U16,
            5 => Dtype::U8,
            _ => return None,
        };
        let form = match mopt % 10 {
            0 => Form::Numbers,
            1 => Form::Text,
            2 => Form::Sparse,
            _ => return None,
        };
        let complex = match decode(imaginary) {
            0 => false,
            1 => true,
            _ => return None,
        };
        let axis = |word| Some(decode(word)).filter(|&axis| axis <= i32::MAX.unsigned_abs()).map(u64::from);
        let name_bytes = Some(u64::from(decode(name))).filter(|bytes| (2..=MAX_NAME).contains(bytes))?;
        Some(Self { big_endian, dtype, form, rows: axis(rows)?, columns: axis(columns)?, complex, name_bytes })
    }

    fn element_bytes(&self) -> Option<u64> {
        self.dtype.bytes().checked_mul(self.rows)?.checked_mul(self.columns)
    }

    fn end(&self, offset: u64) -> Option<u64> {
        let parts = self.element_bytes()?.checked_mul(1 + u64::from(self.complex))?;
        offset.checked_add(HEADER + self.name_bytes)?.checked_add(parts)
    }
}

pub(super) fn list(source: &CubeFile) -> Result<Vec<Variable>> {
    let mut variables = Vec::new();
    let (mut offset, mut seen) = (0, 0);
    while offset < source.len() {
        source.check_cancel()?;
        seen += 1;
        if seen > MAX_MATRICES {
            return Err(source.damaged(format_args!("the file has more than {MAX_MATRICES} MATLAB matrices")));
        }
        let head = source.read_at("MATLAB matrix header", offset, HEADER)?;
        let wrong = || {
            let found = head.escape_ascii();
            source.damaged(format_args!(
                "the MATLAB v4 file is damaged: the bytes at offset {offset} are not a matrix header: `{found}`"
            ))
        };
        let header = Header::parse(&head).ok_or_else(wrong)?;
        let name = source.read_at("MATLAB matrix name", offset + HEADER, header.name_bytes)?;
        let name = name_of(&name).ok_or_else(wrong)?.to_owned();
        let end = header.end(offset).ok_or_else(wrong)?;
        source.check_range("MATLAB matrix", offset, end - offset)?;
        let bytes = header.element_bytes().ok_or_else(wrong)?;
        if !matches!(header.form, Form::Text) {
            variables.push(Variable {
                name,
                dtype: header.dtype,
                dims: vec![header.rows, header.columns],
                complex: header.complex,
                sparse: matches!(header.form, Form::Sparse),
                place: ArrayPlace::Bare { offset: offset + HEADER + header.name_bytes, bytes },
                big_endian: header.big_endian,
            });
        }
        offset = end;
    }
    Ok(variables)
}
