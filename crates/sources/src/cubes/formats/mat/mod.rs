//! Reads MATLAB files of versions 4 to 7 (`.mat`), little- or big-endian, compressed or not.

mod element;
mod v4;
mod variable;

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::meta;
use crate::cubes::select::{Candidate, ChosenArray, Purpose, cube_shape, others, select_matlab};
use crate::cubes::source::CubeFile;
use shardpack_array::floats_of;
use shardpack_format::{Hint, Setting};
use variable::Variable;

/// Maximum length of a vector to read as metadata.
const MAX_VECTOR: u64 = 1 << 20;

fn choose<'v>(source: &CubeFile, want: &Purpose, variables: &'v [Variable]) -> Result<ChosenArray<'v, Variable>> {
    let candidates: Vec<_> = variables
        .iter()
        .map(|variable| Candidate { name: &variable.name, dtype: variable.describe(), dims: &variable.dims })
        .collect();
    let chosen = select_matlab(source, want, &candidates)?;
    let variable = variables.get(chosen).ok_or_else(|| source.damaged("the file has no arrays"))?;
    if let Some(why) = variable.refused() {
        let name = variable.name.escape_debug();
        return Err(source.unsupported(format_args!("variable `{name}`: {why} not supported")));
    }
    let (shape, order) = axes(source, want, &variable.dims)?;
    let layout = CubeLayout { dtype: variable.dtype, big_endian: false, shape, order };
    Ok(ChosenArray { array: variable, layout, others: others(want, &candidates, chosen) })
}

/// A matrix is unlikely to be a picture of one band if one axis is at least this many times longer than the other.
const LONG: u64 = 16;

/// Returns the shape and the axis order of a MATLAB array. The array is always column-major. A
/// matrix may be bands × pixels or pixels × bands.
pub(super) fn axes(source: &CubeFile, want: &Purpose, dims: &[u64]) -> Result<([u64; 3], AxisOrder)> {
    let shape = cube_shape(source, dims)?;
    let (&[first, second], Purpose::Cube(options)) = (dims, want) else { return Ok((shape, AxisOrder::Fortran)) };
    let Some((height, width)) = options.spatial else {
        let (short, long) = (first.min(second), first.max(second));
        if short > 1 && long / short >= LONG {
            let text = format!(
                "the {first} x {second} matrix is ambiguous: it could be a single band, or hold one spectrum per pixel"
            );
            let error = source.usage(text);
            let hint = Hint::new("pass ")
                .and([Setting::any("spatial", "HxW")])
                .then(" if it has a spectrum for each pixel, or ");
            let hint = hint.and([Setting::word("spatial", format!("{first}x{second}"))]);
            return Err(error.with_hint(hint.then(" if it is a single band")));
        }
        return Ok((shape, AxisOrder::Fortran));
    };
    match height.checked_mul(width) {
        Some(pixels) if second == pixels => Ok(([height, width, first], AxisOrder::Columns)),
        // The matrix is pixels × bands. Its pixels are in the column order of a MATLAB picture, so
        // it is a reshaped cube.
        Some(pixels) if first == pixels => Ok(([height, width, second], AxisOrder::Fortran)),
        _ if (height, width) == (first, second) => Ok((shape, AxisOrder::Fortran)),
        _ => {
            let text = format!(
                "one axis of the matrix must have an entry for each of the {height} x {width} pixels, but the matrix \
                 has {first} x {second} entries"
            );
            Err(source.usage(text))
        }
    }
}

fn peek(source: &CubeFile, want: &Purpose, variables: &[Variable]) -> Result<CubeHeader> {
    let ChosenArray { array, layout, others } = choose(source, want, variables)?;
    Ok(CubeHeader::new(&layout, source, want.max_bytes())?.of_array(&array.name, others))
}

fn load(source: &CubeFile, want: &Purpose, variables: &[Variable]) -> Result<LoadedCube> {
    let ChosenArray { array: variable, layout, .. } = choose(source, want, variables)?;
    layout.bytes(source, want.max_bytes())?;
    let stored = variable.elements(source)?;
    let mut cube = LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)?;
    cube.meta.insert("variable".into(), variable.name.clone().into());
    let [_, _, channels] = layout.shape;
    for beside in variables {
        let Some(key) = meta::per_channel_key(&beside.name) else { continue };
        // The first occurrence of a key takes precedence, so skip later ones.
        let is_new = !cube.meta.contains_key(key);
        if is_new && meta::is_vector(&beside.dims, channels) && channels <= MAX_VECTOR && beside.refused().is_none() {
            let values = floats_of(beside.dtype, &beside.elements(source)?);
            meta::insert_new(&mut cube.meta, key, meta::floats(&values));
        }
    }
    Ok(cube)
}

fn is_mat5(head: &[u8]) -> bool {
    head.starts_with(b"MATLAB") && matches!(head.get(124..128), Some([0, 1, b'I', b'M'] | [1, 0, b'M', b'I']))
}

pub(super) struct Mat4;

impl CubeFormat for Mat4 {
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(v4::is_v4(head, source.len()))
    }

    fn may_be_mask(&self, head: &[u8], bytes: u64) -> bool {
        v4::is_v4(head, bytes)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        peek(source, want, &v4::list(source)?)
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        load(source, want, &v4::list(source)?)
    }
}

pub(super) struct Mat5;

impl CubeFormat for Mat5 {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(is_mat5(head))
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        head.starts_with(b"MATLAB")
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        peek(source, want, &variable::list(source)?)
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        load(source, want, &variable::list(source)?)
    }
}
