//! Finds and reads the variables of MATLAB files. In version 5 they are `miMATRIX` elements.
//! Finding them does not require reading their values.

use super::element::{COMPRESSED, Elements, MATRIX};
use crate::cubes::error::Result;
use crate::cubes::gather;
use crate::cubes::source::CubeFile;
use crate::cubes::source::MAX_DEFLATE_RATIO;
use flate2::read::ZlibDecoder;
use shardpack_format::Dtype;
use std::io::{BufReader, Read};

/// Size of the file header: 116 bytes of text, 8 bytes of subsystem offset, the version, and the byte order mark.
const HEADER: u64 = 128;

const MAX_ELEMENTS: usize = 10_000;

/// Maximum length of a name. MATLAB's own names have at most 63 bytes.
const MAX_NAME: u64 = 4096;

/// Maximum size of the dimensions, in bytes, enough for 32 axes.
const MAX_DIMS: u64 = 4 * 32;

pub(super) struct Variable {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) dims: Vec<u64>,
    pub(super) complex: bool,
    pub(super) sparse: bool,
    pub(super) place: ArrayPlace,
    pub(super) big_endian: bool,
}

#[derive(Clone, Copy)]
pub(super) enum ArrayPlace {
    /// The array is in a version 5 element.
    Element(Element),
    /// The array is stored as bare elements, as in version 4.
    Bare { offset: u64, bytes: u64 },
}

/// An element in the file, with the offset and length of its content. The content may be compressed.
#[derive(Clone, Copy)]
pub(super) struct Element {
    offset: u64,
    bytes: u64,
    compressed: bool,
}

impl Element {
    fn open<'a>(self, source: &'a CubeFile, big_endian: bool) -> Result<Elements<'a, Box<dyn Read + 'a>>> {
        let content = source.stream(self.offset, self.bytes)?;
        // The buffer speeds up the short reads of tags. Reads of long elements bypass it.
        let content = BufReader::new(content);
        let reader: Box<dyn Read> =
            if self.compressed { Box::new(ZlibDecoder::new(content)) } else { Box::new(content) };
        Ok(Elements { source, big_endian, reader })
    }
}

impl Variable {
    /// Returns the reason why this array cannot be a cube, or `None` if it can be one.
    pub(super) fn refused(&self) -> Option<&'static str> {
        if self.sparse {
            Some("sparse matrices are")
        } else if self.complex {
            Some("complex numbers are")
        } else {
            None
        }
    }

    pub(super) fn describe(&self) -> String {
        self.refused().map_or_else(|| self.dtype.to_string(), |why| format!("({why} not supported)"))
    }

    /// Reads the elements as little-endian, in MATLAB's column-major order.
    pub(super) fn elements(&self, source: &CubeFile) -> Result<Vec<u8>> {
        let place = match self.place {
            ArrayPlace::Element(element) => element,
            ArrayPlace::Bare { offset, bytes } => {
                let mut elements = source.read_at("MATLAB elements", offset, bytes)?;
                if self.big_endian {
                    gather::swap_in_place(&mut elements, self.dtype.bytes());
                }
                return Ok(elements);
            }
        };
        let count = self.dims.iter().fold(1, |count: u64, &axis| count.saturating_mul(axis));
        let most = place.bytes.saturating_mul(if place.compressed { MAX_DEFLATE_RATIO } else { 1 });
        if count > most {
            let (name, found) = (self.name.escape_debug(), place.bytes);
            let text = format!("variable `{name}` is damaged: {found} bytes are too few for its {count} elements");
            return Err(source.damaged(text));
        }
        let mut elements = place.open(source, self.big_endian)?;
        let inner = if place.compressed { Some(elements.tag()?) } else { None };
        debug_assert!(inner.is_none_or(|tag| tag.kind == MATRIX), "a list with only matrices");
        header(&mut elements)?;
        let tag = elements.tag()?;
        let numbers = elements.numbers(&tag, self.dtype, count)?;
        elements.finish()?;
        Ok(numbers)
    }
}

pub(super) fn list(source: &CubeFile) -> Result<Vec<Variable>> {
    let mark = source.read_at("MATLAB header", HEADER - 2, 2)?;
    let big_endian = mark == b"MI";
    let mut variables = Vec::new();
    let (mut offset, mut seen) = (HEADER, 0);
    while offset < source.len() {
        seen += 1;
        if seen > MAX_ELEMENTS {
            return Err(source.damaged(format_args!("the file has more than {MAX_ELEMENTS} MATLAB elements")));
        }
        let tag = Elements { source, big_endian, reader: source.stream(offset, 8)? }.tag()?;
        let place = Element { offset: offset + 8, bytes: tag.bytes, compressed: tag.kind == COMPRESSED };
        source.check_range("MATLAB element", place.offset, place.bytes)?;
        if matches!(tag.kind, MATRIX | COMPRESSED) {
            let mut elements = place.open(source, big_endian)?;
            let matrix = !place.compressed || elements.tag()?.kind == MATRIX;
            if matrix && let Some(Parsed { name, dtype, dims, complex, sparse }) = header(&mut elements)? {
                let place = ArrayPlace::Element(place);
                variables.push(Variable { name, dtype, dims, complex, sparse, place, big_endian });
            }
        }
        offset = place.offset + place.bytes;
    }
    Ok(variables)
}

struct Parsed {
    name: String,
    dtype: Dtype,
    dims: Vec<u64>,
    complex: bool,
    sparse: bool,
}

/// Parses the header of a matrix. Returns `None` for elements without numbers (text, cells, structures, objects).
fn header<R: Read>(elements: &mut Elements<R>) -> Result<Option<Parsed>> {
    let source = elements.source;
    let (_, flags) = elements.short("the array flags", 8)?;
    let found = flags.len();
    let flags = elements.words(&flags).first().copied();
    let flags = flags.ok_or_else(|| {
        source.damaged(format_args!("the MATLAB file is damaged: it has array flags of {found} bytes instead of 8"))
    })?;
    let (dtype, sparse) = match flags & 0xff {
        5 => (Dtype::F64, true),
        6 => (Dtype::F64, false),
        7 => (Dtype::F32, false),
        8 => (Dtype::I8, false),
        9 => (Dtype::U8, false),
        10 => (Dtype::I16, false),
        11 => (Dtype::U16, false),
        12 => (Dtype::I32, false),
        13 => (Dtype::U32, false),
        14 => (Dtype::I64, false),
        15 => (Dtype::U64, false),
        _ => return Ok(None),
    };
    let (complex, logical) = (flags & 0x800 != 0, flags & 0x200 != 0);
    let (_, dims) = elements.short("the dimensions of an array", MAX_DIMS)?;
    let dims =
        elements.words(&dims).into_iter().map(|axis| u64::from(axis.cast_signed().max(0).cast_unsigned())).collect();
    let (_, name) = elements.short("a variable name", MAX_NAME)?;
    let name = String::from_utf8(name).map_err(|_| source.damaged("the name of a MATLAB variable is not ASCII"))?;
    // An array without a name is MATLAB's workspace for function handles.
    if name.is_empty() {
        return Ok(None);
    }
    let dtype = if logical && dtype == Dtype::U8 { Dtype::Bool } else { dtype };
    Ok(Some(Parsed { name, dtype, dims, complex, sparse }))
}
