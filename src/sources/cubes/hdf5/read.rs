//! Datasets of an HDF5 file, as candidates for the cube.

use super::super::cube::{CubeInfo, CubeKind, LoadedCube};
use super::super::error::{CubeError, Result};
use super::super::layout::{Layout, Order};
use super::super::select::{Candidate, Chosen, Want, cube_shape, others, select, select_matlab};
use super::super::source::Source;
use super::super::{mat, meta, values};
use hdf5_pure::{AttrValue, Datatype, DatatypeByteOrder, File, Group};
use shardpack_format::Dtype;
use std::fmt;

/// Most datasets that are looked at, and the deepest group.
const MAX_DATASETS: usize = 10_000;
const MAX_DEPTH: usize = 16;

/// Longest vector that is read as metadata.
const MAX_VECTOR: u64 = 1 << 20;

/// A numeric dataset.
struct Dataset {
    /// Path from the root, without the leading slash.
    name: String,
    dtype: Dtype,
    big_endian: bool,
    /// Outermost axis first; for MATLAB, as MATLAB counts them.
    dims: Vec<u64>,
    /// MATLAB writes its column-major arrays with the axes reversed.
    matlab: bool,
}

fn broken(source: &Source, error: impl fmt::Display) -> CubeError {
    source.format("HDF5 file", "a whole one, of features that are read", error)
}

/// Opens the file for its metadata: a few reads, whatever its size.
fn open(source: &Source) -> Result<File> {
    File::open_streaming(source.path()).map_err(|error| broken(source, error))
}

/// Opens the file for its values. Small files are held in memory: read as a stream, a damaged chunk size of up to 4 GiB is
/// allocated before it is compared with the file (hdf5-pure 0.47). A large file of many cubes does not have to fit.
fn open_for_values(source: &Source, want: &Want) -> Result<File> {
    if source.len() > want.max_bytes().saturating_mul(2) {
        return open(source);
    }
    let bytes = source.read_at("HDF5 file", 0, source.len())?;
    File::from_bytes(bytes).map_err(|error| broken(source, error))
}

/// The numeric datasets of the file, in the order of its groups; those of MATLAB's own bookkeeping are left out.
fn list(source: &Source, file: &File) -> Result<Vec<Dataset>> {
    let mut found = Vec::new();
    walk(source, &file.root(), "", 0, &mut found)?;
    Ok(found)
}

fn walk(source: &Source, group: &Group, prefix: &str, depth: usize, found: &mut Vec<Dataset>) -> Result<()> {
    let mut names = group.datasets().map_err(|error| broken(source, error))?;
    names.sort();
    for name in names {
        if found.len() == MAX_DATASETS {
            return Err(source.format("HDF5 datasets", format_args!("at most {MAX_DATASETS}"), "more"));
        }
        let dataset = group.dataset(&name).map_err(|error| broken(source, error))?;
        let Some((mut dtype, big_endian)) = dataset.datatype().ok().and_then(|datatype| numeric(&datatype)) else {
            continue;
        };
        let Ok(mut dims) = dataset.shape() else { continue };
        let attrs = dataset.attrs().unwrap_or_default();
        let class = attrs.get("MATLAB_class").and_then(AttrValue::as_str);
        match class {
            Some("char" | "cell") => continue,
            Some("logical") if dtype == Dtype::U8 => dtype = Dtype::Bool,
            _ => {}
        }
        if class.is_some() {
            dims.reverse();
        }
        found.push(Dataset { name: format!("{prefix}{name}"), dtype, big_endian, dims, matlab: class.is_some() });
    }
    let mut names = group.groups().map_err(|error| broken(source, error))?;
    names.sort();
    for name in names.iter().filter(|name| !name.starts_with('#')) {
        if depth == MAX_DEPTH {
            return Err(source.format("HDF5 groups", format_args!("at most {MAX_DEPTH} levels"), "more"));
        }
        let inner = group.group(name).map_err(|error| broken(source, error))?;
        walk(source, &inner, &format!("{prefix}{name}/"), depth + 1, found)?;
    }
    Ok(())
}

/// Element type and byte order; h5py stores booleans as an enumeration of two.
fn numeric(datatype: &Datatype) -> Option<(Dtype, bool)> {
    let big = |order: &DatatypeByteOrder| match order {
        DatatypeByteOrder::LittleEndian => Some(false),
        DatatypeByteOrder::BigEndian => Some(true),
        _ => None,
    };
    match datatype {
        Datatype::FixedPoint { size, byte_order, layout } => {
            if layout.bit_offset != 0 || u32::from(layout.bit_precision) != size * 8 {
                return None;
            }
            let dtype = match (size, layout.signed) {
                (1, false) => Dtype::U8,
                (1, true) => Dtype::I8,
                (2, false) => Dtype::U16,
                (2, true) => Dtype::I16,
                (4, false) => Dtype::U32,
                (4, true) => Dtype::I32,
                (8, false) => Dtype::U64,
                (8, true) => Dtype::I64,
                _ => return None,
            };
            Some((dtype, big(byte_order)?))
        }
        Datatype::FloatingPoint { size, byte_order, layout } => {
            // The mantissa tells IEEE types from bfloat16 and the like.
            let dtype = match (size, layout.mantissa_size) {
                (2, 10) => Dtype::F16,
                (4, 23) => Dtype::F32,
                (8, 52) => Dtype::F64,
                _ => return None,
            };
            Some((dtype, big(byte_order)?))
        }
        Datatype::Enumeration { size: 1, members, .. } if members.len() == 2 => Some((Dtype::Bool, false)),
        _ => None,
    }
}

fn choose<'d>(source: &Source, want: &Want, datasets: &'d [Dataset]) -> Result<Chosen<'d, Dataset>> {
    let candidates: Vec<_> = datasets
        .iter()
        .map(|dataset| Candidate { name: &dataset.name, dtype: dataset.dtype.to_string(), dims: &dataset.dims })
        .collect();
    let matlab = datasets.iter().any(|dataset| dataset.matlab);
    let select = if matlab { select_matlab } else { select };
    let chosen = select(source, want, &candidates)?;
    let dataset = datasets.get(chosen).ok_or_else(|| source.format("arrays in the file", "at least one", "none"))?;
    let (shape, order) = if dataset.matlab {
        mat::axes(source, want, &dataset.dims)?
    } else {
        (cube_shape(source, &dataset.dims)?, Order::Bip)
    };
    let layout = Layout { dtype: dataset.dtype, big_endian: dataset.big_endian, shape, order };
    Ok(Chosen { array: dataset, layout, others: others(want, &candidates, chosen) })
}

fn elements(source: &Source, file: &File, dataset: &Dataset) -> Result<Vec<u8>> {
    file.dataset(&dataset.name).and_then(|dataset| dataset.read_raw()).map_err(|error| broken(source, error))
}

pub(in super::super) fn peek(source: &Source, want: &Want) -> Result<CubeInfo> {
    let datasets = list(source, &open(source)?)?;
    let Chosen { array, layout, others } = choose(source, want, &datasets)?;
    Ok(CubeInfo::new(CubeKind::Hdf5, &layout, source, want.max_bytes())?.of_array(&array.name, others))
}

pub(in super::super) fn load(source: &Source, want: &Want) -> Result<LoadedCube> {
    let file = open_for_values(source, want)?;
    let datasets = list(source, &file)?;
    let Chosen { array: dataset, layout, .. } = choose(source, want, &datasets)?;
    layout.bytes(source, want.max_bytes())?;
    let stored = elements(source, &file, dataset)?;
    let mut cube = LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)?;
    cube.meta.insert("variable".into(), dataset.name.clone().into());
    let [_, _, channels] = layout.shape;
    for beside in &datasets {
        let short = beside.name.rsplit('/').next().unwrap_or_default();
        let Some(key) = meta::per_channel_key(short) else { continue };
        if meta::is_vector(&beside.dims, channels) && channels <= MAX_VECTOR {
            let mut stored = elements(source, &file, beside)?;
            if beside.big_endian {
                super::super::gather::swap_in_place(&mut stored, beside.dtype.bytes());
            }
            meta::insert_new(&mut cube.meta, key, meta::floats(&values::to_f64(beside.dtype, &stored)));
        }
    }
    Ok(cube)
}
