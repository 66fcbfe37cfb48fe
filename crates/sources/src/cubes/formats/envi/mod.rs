//! Reads ENVI cubes, which consist of a text header and a separate file of raw elements.

mod data;
mod header;

use crate::cubes::cube::{CubeHeader, LoadedCube, rounded};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::meta;
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;
use crate::cubes::values::{CubeValues, OpenCube, ValuesInFile};
use header::Header;
use serde_json::{Map, Value};
use shardpack_format::Dtype;
use std::path::PathBuf;

/// Keys that are omitted from the metadata, because the shape and type of the array express them.
const STRUCTURE: &[&str] = &[
    "samples",
    "lines",
    "bands",
    "header offset",
    "file type",
    "data type",
    "interleave",
    "byte order",
    "data ignore value",
];

/// Keys whose braces enclose a single string instead of a list.
const TEXTS: &[&str] = &["description", "coordinate system string", "history"];

fn is_envi(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let line = head.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or_default();
    line.trim_ascii() == b"ENVI" && line.len() < head.len()
}

struct EnviCube {
    header: Header,
    layout: CubeLayout,
    offset: u64,
    no_data: Option<f64>,
}

impl EnviCube {
    fn read(source: &CubeFile) -> Result<Self> {
        let header = Header::read(source)?;
        for (key, meaning) in [
            ("file compression", "gzip compression is"),
            ("major frame offsets", "frame offsets are"),
            ("minor frame offsets", "frame offsets are"),
        ] {
            if header
                .get(key)
                .is_some_and(|value| value.split(['{', '}', ',']).any(|part| !matches!(part.trim(), "" | "0")))
            {
                let error = source.unsupported(format_args!("{meaning} not supported (`{key}` in the ENVI header)"));
                return Err(error.with_hint("save the cube without compression and without frame offsets"));
            }
        }
        refuse_other_files(source, &header)?;
        let (dtype, order) = (dtype(source, &header)?, order(source, &header)?);
        let big_endian = match header.get("byte order") {
            // Some real headers omit the byte order. Their data files were written on little-endian
            // machines.
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(source.format("`byte order` in the ENVI header", "0 or 1", format_args!("`{other}`")));
            }
        };
        let shape =
            [header.integer(source, "lines")?, header.integer(source, "samples")?, header.integer(source, "bands")?];
        let offset = if header.get("header offset").is_some() { header.integer(source, "header offset")? } else { 0 };
        let no_data = match header.get("data ignore value") {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                source.format(
                    "`data ignore value` in the ENVI header",
                    "a number",
                    format_args!("`{}`", text.escape_debug()),
                )
            })?),
        };
        Ok(Self { header, layout: CubeLayout { dtype, big_endian, shape, order }, offset, no_data })
    }

    fn data(&self, source: &CubeFile, max_bytes: u64) -> Result<(CubeFile, u64)> {
        let bytes = self.layout.bytes(source, max_bytes)?;
        let end = bytes.checked_add(self.offset).ok_or_else(|| {
            source.format("`header offset` in the ENVI header", "an offset within the data file", self.offset)
        })?;
        let data = data::find(source, Some(end))?;
        if data.len() < end {
            let CubeLayout { dtype, shape: [lines, samples, bands], .. } = self.layout;
            let offset = self.offset;
            let found = data.len();
            let text = format!(
                "the ENVI data file has {found} bytes, but must have at least {end}: the header describes {lines} \
                 lines, {samples} samples and {bands} bands of {dtype}, starting at byte {offset}"
            );
            return Err(data.damaged(text));
        }
        Ok((data, bytes))
    }

    /// Returns all keys except for the layout keys, in header order.
    fn meta(&self) -> Map<String, Value> {
        let [_, _, bands] = self.layout.shape;
        let mut meta = Map::new();
        for (key, value) in self.header.iter().filter(|(key, _)| !STRUCTURE.contains(key)) {
            let inner = value.strip_prefix('{').map(|inner| inner.strip_suffix('}').unwrap_or(inner));
            let value = match inner {
                Some(text) if TEXTS.contains(&key) => Value::String(text.trim().to_owned()),
                // Lists may have a trailing comma.
                Some(list) => meta::list(list.trim().trim_end_matches(',').split(',')),
                None => meta::scalar(value),
            };
            // Unless the value has exactly one number per channel, keep its original key.
            let per_channel = value.as_array().is_some_and(|list| list.len() as u64 == bands);
            let key = match meta::snake_case(key).as_str() {
                "wavelength" if per_channel => "wavelengths".to_owned(),
                "fwhm" | "bbl" if !per_channel => format!("header_{key}"),
                other => other.to_owned(),
            };
            meta::insert_new(&mut meta, &key, value);
        }
        meta
    }
}

fn refuse_other_files(source: &CubeFile, header: &Header) -> Result<()> {
    let Some(found) = header.get("file type") else { return Ok(()) };
    let refused = |hint: &'static str| {
        let text = format!("`{}` is not an image type (`file type` in the ENVI header)", found.escape_debug());
        Err(source.unsupported(text).with_hint(hint))
    };
    let known = found.to_ascii_lowercase();
    if known.contains("spectral library") {
        return refused("move this spectral library out of the source: only images can be packed");
    }
    if known.contains("meta") {
        return refused("pack the files that this meta file lists");
    }
    Ok(())
}

fn dtype(source: &CubeFile, header: &Header) -> Result<Dtype> {
    Ok(match header.integer(source, "data type")? {
        1 => Dtype::U8,
        2 => Dtype::I16,
        3 => Dtype::I32,
        4 => Dtype::F32,
        5 => Dtype::F64,
        12 => Dtype::U16,
        13 => Dtype::U32,
        14 => Dtype::I64,
        15 => Dtype::U64,
        complex @ (6 | 9) => {
            let text = format!("complex numbers are not supported (`data type` {complex} in the ENVI header)");
            return Err(source.unsupported(text));
        }
        other => return Err(source.format("`data type` in the ENVI header", "1 to 5 or 12 to 15", other)),
    })
}

fn order(source: &CubeFile, header: &Header) -> Result<AxisOrder> {
    match header.required(source, "interleave")?.to_ascii_lowercase().as_str() {
        "bsq" => Ok(AxisOrder::Bsq),
        "bil" => Ok(AxisOrder::Bil),
        "bip" => Ok(AxisOrder::Bip),
        other => Err(source.format(
            "`interleave` in the ENVI header",
            "bsq, bil or bip",
            format_args!("`{}`", other.escape_debug()),
        )),
    }
}

pub(super) struct Envi;

impl CubeFormat for Envi {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(is_envi(head))
    }

    fn data_file(&self, source: &CubeFile) -> Option<PathBuf> {
        let end = EnviCube::read(source)
            .and_then(|plan| Ok(plan.layout.bytes(source, u64::MAX)?.saturating_add(plan.offset)));
        // Find the data file even if the header is unusable, because the data file would otherwise
        // be reported too.
        data::find(source, end.ok()).ok().map(|data| data.path().to_owned())
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        let plan = EnviCube::read(source)?;
        let (data, _) = plan.data(source, want.max_bytes())?;
        let mut info = CubeHeader::new(&plan.layout, source, want.max_bytes())?;
        info.source_bytes = info.source_bytes.saturating_add(data.len());
        Ok(info.read_as_needed(&plan.layout))
    }

    fn open_in_file(&self, source: &CubeFile, want: &Purpose) -> Result<Option<OpenCube>> {
        let plan = EnviCube::read(source)?;
        let (data, _) = plan.data(source, want.max_bytes())?;
        if !plan.layout.is_stored_order() {
            return Ok(None);
        }
        let values = CubeValues::InFile(ValuesInFile::new(data, plan.offset, &plan.layout));
        let no_data = plan.no_data.map(|value| rounded(value, plan.layout.dtype));
        Ok(Some(OpenCube { values, no_data, meta: plan.meta() }))
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let plan = EnviCube::read(source)?;
        let (data, bytes) = plan.data(source, want.max_bytes())?;
        let stored = data.read_at("ENVI data", plan.offset, bytes)?;
        let cube = plan.layout.assemble(&data, stored)?;
        let mut cube = LoadedCube::new(source, plan.layout.dtype, plan.layout.shape, cube)?;
        cube.meta = plan.meta();
        cube.set_no_data(plan.no_data);
        Ok(cube)
    }
}
