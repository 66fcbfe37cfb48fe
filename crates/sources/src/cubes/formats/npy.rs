//! Reads `.npy` files. Their header is a Python dict literal, and this reader parses it strictly.

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::{CubeError, Result};
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::select::{Purpose, cube_shape};
use crate::cubes::source::CubeFile;
use crate::cubes::values::{CubeValues, OpenCube, ValuesInFile};
use serde_json::Map;
use shardpack_format::Dtype;
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Maximum size of a header. NumPy writes 118 bytes and refuses to read more than 10,000.
const MAX_HEADER: u64 = 64 << 10;

/// Maximum number of axes, as in NumPy 1.
const MAX_AXES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: Dtype,
    pub(super) big_endian: bool,
    pub(super) fortran: bool,
    pub(super) dims: Vec<u64>,
    /// Offset of the first element in the `.npy` file.
    pub(super) data_offset: u64,
}

impl Header {
    pub(super) fn layout(&self, source: &CubeFile) -> Result<CubeLayout> {
        let shape = cube_shape(source, &self.dims)?;
        let order = if self.fortran { AxisOrder::Fortran } else { AxisOrder::Bip };
        Ok(CubeLayout { dtype: self.dtype, big_endian: self.big_endian, shape, order })
    }
}

/// Reads the header of a `.npy` file, which is `source` itself or one of its members.
pub(super) fn read_header(source: &CubeFile, file: &mut impl Read) -> Result<Header> {
    let mut fixed = [0; 8];
    exact(source, file, &mut fixed)?;
    let (magic, version) = fixed.split_at(6);
    if magic != MAGIC {
        return Err(source.format("npy signature", "`\\x93NUMPY`", format_args!("`{}`", magic.escape_ascii())));
    }
    let mut length = [0; 4];
    let (prefix, length) = match version {
        [1, 0] => {
            let mut short = [0; 2];
            exact(source, file, &mut short)?;
            (10, u64::from(u16::from_le_bytes(short)))
        }
        [2 | 3, 0] => {
            exact(source, file, &mut length)?;
            (12, u64::from(u32::from_le_bytes(length)))
        }
        _ => {
            let version = version.iter().map(u8::to_string).collect::<Vec<_>>().join(".");
            return Err(
                source.unsupported(format_args!("npy version {version} is not supported: only 1.0, 2.0 and 3.0 are"))
            );
        }
    };
    if length > MAX_HEADER {
        return Err(
            source.damaged(format_args!("the npy header has {length} bytes, but at most {MAX_HEADER} are allowed"))
        );
    }
    let mut text = source.alloc("npy header", length)?;
    let read =
        file.take(length).read_to_end(&mut text).map_err(|error| source.io("cannot read the npy header", error))?;
    if read as u64 != length {
        return Err(source.damaged(format_args!("the npy header is truncated: it has {read} of {length} bytes")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| source.damaged("the npy header is not UTF-8 text"))?;
    parse(text, prefix + length, source)
}

fn exact(source: &CubeFile, file: &mut impl Read, out: &mut [u8]) -> Result<()> {
    file.read_exact(out).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => source.damaged("the npy header is truncated"),
        _ => source.io("cannot read the npy header", error),
    })
}

fn parse(text: &str, data_offset: u64, source: &CubeFile) -> Result<Header> {
    let bad = |expected: &str, rest: &str| {
        let found: String = rest.chars().take(40).collect();
        source.format("npy header", expected, format_args!("`{}`", found.escape_debug()))
    };
    let mut text = Text(text);
    let (mut descr, mut fortran, mut dims) = (None, None, None);
    text.take("{").ok_or_else(|| bad("`{`", text.0))?;
    while text.take("}").is_none() {
        let key = text.string().ok_or_else(|| bad("a key in quotes", text.0))?;
        text.take(":").ok_or_else(|| bad("`:`", text.0))?;
        let new = match key {
            "descr" => {
                if text.peek("[") || text.peek("(") {
                    return Err(refused(source, "npy", "structured types are"));
                }
                let value = text.string().ok_or_else(|| bad("an element type in quotes", text.0))?;
                descr.replace(dtype(source, "npy", value)?).is_none()
            }
            "fortran_order" => {
                let value = if text.take("True").is_some() { Some(true) } else { text.take("False").map(|()| false) };
                fortran.replace(value.ok_or_else(|| bad("`True` or `False`", text.0))?).is_none()
            }
            "shape" => {
                dims.replace(text.tuple().ok_or_else(|| bad("a tuple of at most 32 integers", text.0))?).is_none()
            }
            _ => return Err(bad("`descr`, `fortran_order` or `shape`", key)),
        };
        if !new {
            return Err(source.damaged(format_args!("the npy header has the key `{key}` twice")));
        }
        if text.take(",").is_none() && !text.peek("}") {
            return Err(bad("`,` or `}`", text.0));
        }
    }
    if !text.0.trim_ascii().is_empty() {
        return Err(bad("nothing after `}`", text.0));
    }
    match (descr, fortran, dims) {
        (Some((dtype, big_endian)), Some(fortran), Some(dims)) => {
            Ok(Header { dtype, big_endian, fortran, dims, data_offset })
        }
        (descr, fortran, _) => {
            let key = match (descr, fortran) {
                (None, _) => "descr",
                (_, None) => "fortran_order",
                _ => "shape",
            };
            Err(source.damaged(format_args!("the npy header lacks the key `{key}`")))
        }
    }
}

/// Parses NumPy's name of an element type in a file of `format`. Returns the type, and true if the elements are
/// big-endian.
pub(super) fn dtype(source: &CubeFile, format: &str, descr: &str) -> Result<(Dtype, bool)> {
    if descr.starts_with(['[', '(', '{']) {
        return Err(refused(source, format, "structured types are"));
    }
    let big_endian = descr.starts_with('>');
    let (order, name) = match descr.strip_prefix(['<', '>', '|', '=']) {
        Some(name) => (descr.chars().next(), name),
        None => (None, descr),
    };
    let dtype = match name {
        "b1" | "?" => Dtype::Bool,
        "u1" => Dtype::U8,
        "i1" => Dtype::I8,
        "u2" => Dtype::U16,
        "i2" => Dtype::I16,
        "u4" => Dtype::U32,
        "i4" => Dtype::I32,
        "u8" => Dtype::U64,
        "i8" => Dtype::I64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        _ => {
            return Err(match name.chars().next() {
                Some('c') => refused(source, format, &format!("complex numbers ({descr:?}) are"))
                    .with_hint("save the real and imaginary parts as separate bands, or only the magnitude (`np.abs`)"),
                Some('O') => refused(source, format, &format!("Python objects ({descr:?}) are")).with_hint(
                    "save the array with a numeric dtype: arrays of objects contain pickled code, which is never \
                     loaded",
                ),
                Some('f') => refused(source, format, &format!("{descr:?} is"))
                    .with_hint("convert the array with `.astype('float64')` before saving it"),
                _ => refused(source, format, &format!("{descr:?} is")),
            });
        }
    };
    // `=` or no byte order means the order of the machine that wrote the file. That machine is unknown.
    if dtype.bytes() > 1 && !matches!(order, Some('<' | '>')) {
        return Err(source.damaged(format_args!(
            "the byte order of the {format} element type {descr:?} is unknown: the type must begin with `<` or `>`"
        )));
    }
    Ok((dtype, big_endian))
}

fn refused(source: &CubeFile, format: &str, found: &str) -> CubeError {
    source.unsupported(format_args!(
        "{found} not supported in {format} files (supported: bool, integers, float16, float32 and float64)"
    ))
}

/// The unparsed rest of the header. Each method consumes one token and the blanks before it.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn peek(&self, token: &str) -> bool {
        self.0.trim_ascii_start().starts_with(token)
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_ascii_start();
        let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (value, rest) = text.get(1..)?.split_once(quote)?;
        self.0 = rest;
        value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\').then_some(value)
    }

    /// Parses a tuple of integers. Python 2 wrote them with an `L` suffix.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.take("(")?;
        let mut values = Vec::new();
        while self.take(")").is_none() {
            if values.len() == MAX_AXES {
                return None;
            }
            let text = self.0.trim_ascii_start();
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = text.split_at_checked(digits)?;
            values.push(number.parse().ok()?);
            self.0 = rest.strip_prefix('L').unwrap_or(rest);
            let comma = self.take(",").is_some();
            // In Python, `(3)` is a number and not a tuple.
            if !comma && (values.len() < 2 || !self.peek(")")) {
                return None;
            }
        }
        Some(values)
    }
}

fn open(source: &CubeFile, want: &Purpose) -> Result<(Header, CubeLayout, u64)> {
    let header = read_header(source, &mut source.stream(0, source.len())?)?;
    let layout = header.layout(source)?;
    let bytes = layout.bytes(source, want.max_bytes())?;
    let stored = source.len().saturating_sub(header.data_offset);
    if stored != bytes {
        let error = source.damaged(format_args!(
            "the npy file has {stored} bytes of array data instead of {bytes} (dtype {}, shape {:?})",
            header.dtype, header.dims
        ));
        let hint = "if the file holds several arrays, save them in one `.npz` file instead";
        return Err(if stored > bytes { error.with_hint(hint) } else { error });
    }
    Ok((header, layout, bytes))
}

pub(super) struct Npy;

impl CubeFormat for Npy {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(head.starts_with(MAGIC))
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        head.starts_with(MAGIC)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        let (_, layout, _) = open(source, want)?;
        Ok(CubeHeader::new(&layout, source, want.max_bytes())?.read_as_needed(&layout))
    }

    fn open_in_file(&self, source: &CubeFile, want: &Purpose) -> Result<Option<OpenCube>> {
        let (header, layout, _) = open(source, want)?;
        if !layout.is_stored_order() {
            return Ok(None);
        }
        let values = CubeValues::InFile(ValuesInFile::new(source.share(), header.data_offset, &layout));
        Ok(Some(OpenCube { values, no_data: None, meta: Map::new() }))
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let (header, layout, bytes) = open(source, want)?;
        let stored = source.read_at("npy elements", header.data_offset, bytes)?;
        LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)
    }
}
