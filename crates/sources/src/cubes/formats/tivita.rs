//! Reads cubes from Tivita cameras (`…_SpecCube.dat`).
//!
//! A file starts with the width, height and number of channels as big-endian int32. Big-endian float32 elements
//! follow in that axis order, with the rows ordered from bottom to top. There is no signature, so a file is only
//! recognised if its header predicts the exact file size.

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;
use shardpack_format::Dtype;

const HEADER: u64 = 12;

/// Returns the width, height and number of channels if `head` is the start of a Tivita cube of `len` bytes.
fn header(head: &[u8], len: u64) -> Option<[u64; 3]> {
    let (fields, _) = head.get(..12)?.as_chunks::<4>();
    let mut axes = [0; 3];
    for (axis, field) in axes.iter_mut().zip(fields) {
        *axis = u64::try_from(i32::from_be_bytes(*field)).ok().filter(|&axis| axis > 0)?;
    }
    let elements = axes.iter().try_fold(4u64, |bytes, &axis| bytes.checked_mul(axis))?;
    (elements.checked_add(HEADER)? == len).then_some(axes)
}

fn layout(source: &CubeFile) -> Result<CubeLayout> {
    let head = source.prefix(HEADER)?;
    let [width, height, channels] = header(&head, source.len())
        .ok_or_else(|| source.damaged("the cube size in the Tivita header does not match the file size"))?;
    let shape = [height, width, channels];
    Ok(CubeLayout { dtype: Dtype::F32, big_endian: true, shape, order: AxisOrder::ColumnsUpward })
}

pub(super) struct Tivita;

impl CubeFormat for Tivita {
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(header(head, source.len()).is_some())
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        CubeHeader::new(&layout(source)?, source, want.max_bytes())
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let layout = layout(source)?;
        let bytes = layout.bytes(source, want.max_bytes())?;
        let stored = source.read_at("Tivita elements", HEADER, bytes)?;
        LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)
    }
}
