//! Lists the datasets of an HDF5 file that may be the cube, and reads the selected dataset.

use super::super::mat;
use super::metered::{Allowance, Metered};
use super::stack::with_deep_stack;
use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::{CubeError, Result};
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::meta;
use crate::cubes::select::{Candidate, ChosenArray, Purpose, cube_shape, others, select, select_matlab};
use crate::cubes::source::CubeFile;
use hdf5_pure::{AttrValue, ChunkIndex, Datatype, DatatypeByteOrder, Error, File, FormatError, Group};
use shardpack_array::floats_of;
use shardpack_format::{Dtype, Hint, Setting};
use std::fmt;
use std::sync::Arc;

/// Limits on the number of datasets and groups. Hard links multiply paths, so a group counts once per path.
const MAX_DATASETS: usize = 10_000;
const MAX_GROUPS: usize = 10_000;
const MAX_DEPTH: usize = 16;

const MAX_PATH: usize = 4096;

/// Limits on the decoded bytes of all chunks: `MAX_CHUNK_TIMES` × the array size, or `SMALL_CHUNKS` if larger.
/// Chunks may be larger than the array.
const MAX_CHUNK_TIMES: u64 = 16;
const SMALL_CHUNKS: u64 = 64 << 20;

/// Maximum length of a vector to read as metadata.
const MAX_VECTOR: u64 = 1 << 20;

struct Hdf5Dataset {
    /// Path from the root, without the leading slash.
    name: String,
    dtype: Dtype,
    big_endian: bool,
    /// Lengths of the axes as stored, outermost first. MATLAB files store them in MATLAB's order.
    dims: Vec<u64>,
    /// True for MATLAB files. They store column-major arrays with the axes reversed.
    matlab: bool,
}

fn broken(source: &CubeFile, error: impl Into<Error>) -> CubeError {
    let error = error.into();
    match (unread(&error), &error) {
        (Some(feature), _) => refused(source, feature),
        (None, Error::Format(FormatError::Source(why))) => {
            source.damaged(format_args!("cannot read the HDF5 file: {why}"))
        }
        (None, _) => source.damaged(format_args!("cannot read the HDF5 file: {error}")),
    }
}

fn refused(source: &CubeFile, feature: impl fmt::Display) -> CubeError {
    let error = source.unsupported(format_args!("the HDF5 file uses {feature}, which is not supported"));
    error.with_hint("rewrite the file with `h5repack -f NONE -l CONTI IN OUT`, or save the array as `.npy`")
}

fn unread(error: &Error) -> Option<String> {
    let Error::Format(error) = error else { return None };
    Some(match error {
        // Superblock versions range from 0 to 3. The file is damaged if it has any other version.
        FormatError::UnsupportedVersion(version @ ..=3) => format!("a version {version} superblock"),
        FormatError::UnsupportedMessage(number) => format!("object header message type {number}"),
        FormatError::InvalidLayoutVersion(1..=2) => "the data layout of HDF5 versions before 1.6.3".to_owned(),
        FormatError::UnsupportedFilter(number) => format!("the filter {}", filter(*number)),
        FormatError::UnsupportedVirtualLayout => "a virtual dataset (with elements in other datasets)".to_owned(),
        FormatError::UnsupportedExternalStorage => "external storage (with elements in other files)".to_owned(),
        FormatError::UnsupportedSohmReference => "shared object header messages".to_owned(),
        FormatError::UnsupportedFilteredHeapObject => "a filtered fractal heap".to_owned(),
        FormatError::UnsupportedZfp(what) => format!("ZFP compression ({what})"),
        _ => return None,
    })
}

fn filter(number: u16) -> String {
    let name = match number {
        4 => "szip",
        5 => "n-bit",
        307 => "bzip2",
        32_001 => "Blosc",
        32_004 => "LZ4",
        32_008 => "bitshuffle",
        32_015 => "Zstandard",
        32_026 => "Blosc2",
        _ => return number.to_string(),
    };
    format!("{number} ({name})")
}

/// Opens a file. Reads only a few metadata blocks, even if the file is large.
fn open(source: &CubeFile) -> Result<(File, Arc<Allowance>)> {
    let (file, allowance) = Metered::new(source);
    let file = File::from_source(file).map_err(|error| broken(source, error))?;
    Ok((file, allowance))
}

/// Lists the numeric datasets in group order, except for MATLAB's bookkeeping datasets. If some groups cannot
/// be listed, returns only the first of the caller's paths that exists.
fn list(source: &CubeFile, want: &Purpose, opened: &(File, Arc<Allowance>)) -> Result<Vec<Hdf5Dataset>> {
    let (file, allowance) = opened;
    let mut walk = GroupWalk { source, found: Vec::new(), groups: 0 };
    let Err(error) = walk.group(&file.root(), "", 0) else { return Ok(walk.found) };
    if !allowance.has_met_undefined() {
        return Err(error);
    }
    let named = want.options().variable.iter();
    let mut found = named.filter_map(|name| described(name.clone(), &file.dataset(name).ok()?));
    let first = found.next().ok_or_else(|| {
        let name = [Setting::any("variable", "PATH")];
        let hint = Hint::new("pass ")
            .and(name)
            .then(" to name a dataset by its path, or rewrite the file with `h5repack IN OUT`");
        refused(source, "soft links in old-style groups (symbol tables)").with_hint(hint)
    })?;
    Ok(vec![first])
}

struct GroupWalk<'a> {
    source: &'a CubeFile,
    found: Vec<Hdf5Dataset>,
    groups: usize,
}

impl GroupWalk<'_> {
    fn group(&mut self, group: &Group, prefix: &str, depth: usize) -> Result<()> {
        let source = self.source;
        source.check_cancel()?;
        self.groups += 1;
        if self.groups > MAX_GROUPS {
            return Err(source.damaged(format_args!(
                "the HDF5 file has more than {MAX_GROUPS} groups (a group counts once for each link to it)"
            )));
        }
        let mut datasets: Vec<_> = group.iter_datasets().map_err(|error| broken(source, error))?.collect();
        datasets.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, dataset) in datasets {
            if self.found.len() == MAX_DATASETS {
                return Err(source.damaged(format_args!("the HDF5 file has more than {MAX_DATASETS} datasets")));
            }
            let name = self.path(prefix, &name)?;
            self.found.extend(described(name, &dataset));
        }
        let mut groups: Vec<_> = group.iter_groups().map_err(|error| broken(source, error))?.collect();
        groups.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, inner) in groups.iter().filter(|(name, _)| !name.starts_with('#')) {
            if depth == MAX_DEPTH {
                return Err(
                    source.damaged(format_args!("the HDF5 groups are nested more than {MAX_DEPTH} levels deep"))
                );
            }
            let path = self.path(prefix, name)?;
            self.group(inner, &format!("{path}/"), depth + 1)?;
        }
        Ok(())
    }

    fn path(&self, prefix: &str, name: &str) -> Result<String> {
        let bytes = prefix.len() + name.len();
        if bytes > MAX_PATH {
            return Err(self.source.damaged(format_args!(
                "a path in the HDF5 file is {bytes} bytes long, but at most {MAX_PATH} are allowed"
            )));
        }
        Ok(format!("{prefix}{name}"))
    }
}

fn described(name: String, dataset: &hdf5_pure::Dataset) -> Option<Hdf5Dataset> {
    let (mut dtype, big_endian) = dataset.datatype().ok().and_then(|datatype| numeric(&datatype))?;
    let mut dims = dataset.shape().ok()?;
    let attrs = dataset.attrs().unwrap_or_default();
    let class = attrs.get("MATLAB_class").and_then(AttrValue::as_str);
    match class {
        Some("char" | "cell") => return None,
        Some("logical") if dtype == Dtype::U8 => dtype = Dtype::Bool,
        _ => {}
    }
    if class.is_some() {
        dims.reverse();
    }
    Some(Hdf5Dataset { name, dtype, big_endian, dims, matlab: class.is_some() })
}

/// Returns the element type of numbers, and whether they are big-endian. h5py stores booleans as an enumeration
/// with two values.
fn numeric(datatype: &Datatype) -> Option<(Dtype, bool)> {
    let big = |order: &DatatypeByteOrder| match order {
        DatatypeByteOrder::LittleEndian => Some(false),
        DatatypeByteOrder::BigEndian => Some(true),
        _ => None,
    };
    match datatype {
        Datatype::FixedPoint { size, byte_order, layout } => {
            if layout.bit_offset != 0 || Some(u32::from(layout.bit_precision)) != size.checked_mul(8) {
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
            // The mantissa size distinguishes IEEE types from others such as bfloat16.
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

fn choose<'d>(source: &CubeFile, want: &Purpose, datasets: &'d [Hdf5Dataset]) -> Result<ChosenArray<'d, Hdf5Dataset>> {
    let candidates: Vec<_> = datasets
        .iter()
        .map(|dataset| Candidate { name: &dataset.name, dtype: dataset.dtype.to_string(), dims: &dataset.dims })
        .collect();
    let matlab = datasets.iter().any(|dataset| dataset.matlab);
    let select = if matlab { select_matlab } else { select };
    let chosen = select(source, want, &candidates)?;
    let dataset = datasets.get(chosen).ok_or_else(|| source.damaged("the file has no arrays"))?;
    let (shape, order) = if dataset.matlab {
        mat::axes(source, want, &dataset.dims)?
    } else {
        (cube_shape(source, &dataset.dims)?, AxisOrder::Bip)
    };
    let layout = CubeLayout { dtype: dataset.dtype, big_endian: dataset.big_endian, shape, order };
    Ok(ChosenArray { array: dataset, layout, others: others(want, &candidates, chosen) })
}

fn elements(source: &CubeFile, opened: &(File, Arc<Allowance>), dataset: &Hdf5Dataset, bytes: u64) -> Result<Vec<u8>> {
    let (file, allowance) = opened;
    let from = file.dataset(&dataset.name).map_err(|error| broken(source, error))?;
    let stored = check_chunks(source, &from, dataset, bytes)?;
    allowance.add(stored.saturating_mul(2));
    from.read_raw().map_err(|error| broken(source, error))
}

/// Checks the chunks before memory is allocated for them, and returns their total size in the file.
fn check_chunks(source: &CubeFile, from: &hdf5_pure::Dataset, dataset: &Hdf5Dataset, bytes: u64) -> Result<u64> {
    let what = || format!("the HDF5 dataset `{}`", dataset.name.escape_debug());
    let Some(shape) = from.chunk_shape().map_err(|error| broken(source, error))? else { return Ok(bytes) };
    let chunk = shape.iter().try_fold(dataset.dtype.bytes(), |product, &axis| product.checked_mul(axis));
    let dims = from.shape().map_err(|error| broken(source, error))?;
    let grid = dims
        .iter()
        .zip(&shape)
        .try_fold(1u64, |product, (&axis, &chunk)| product.checked_mul(axis.div_ceil(chunk.max(1))));
    let decoded = chunk.zip(grid).and_then(|(chunk, grid)| chunk.checked_mul(grid));
    let most = bytes.saturating_mul(MAX_CHUNK_TIMES).max(SMALL_CHUNKS);
    let Some(grid) = grid.filter(|_| decoded.is_some_and(|decoded| decoded <= most)) else {
        let error = source.damaged(format_args!(
            "{} has chunks of shape {shape:?}, which are too large for an array of {bytes} bytes: at most {most} \
             bytes are allowed for all chunks",
            what()
        ));
        return Err(error.with_hint(
            "rewrite the file without chunks (`h5repack -f NONE -l CONTI IN OUT`), or save the array as `.npy`",
        ));
    };
    if from.chunk_index().map_err(|error| broken(source, error))? == Some(ChunkIndex::BTreeV2) {
        return Err(refused(source, "a version 2 B-tree as the chunk index"));
    }
    let chunks = from.chunks().map_err(|error| broken(source, error))?;
    if chunks.len() as u64 > grid {
        return Err(source.damaged(format_args!(
            "{} lists {} chunks, but its shape allows at most {grid}",
            what(),
            chunks.len()
        )));
    }
    let mut stored = 0u64;
    for chunk in &chunks {
        source.check_range("chunk of the HDF5 dataset", chunk.address, chunk.storage_size)?;
        stored = stored.saturating_add(chunk.storage_size);
    }
    let most = source.len().saturating_mul(MAX_CHUNK_TIMES).max(SMALL_CHUNKS);
    if stored > most {
        return Err(source.damaged(format_args!(
            "the chunks of {} take {stored} bytes in total, but at most {most} are allowed in a file of {} bytes",
            what(),
            source.len()
        )));
    }
    Ok(stored)
}

pub(super) fn peek(source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
    with_deep_stack(source, || peek_here(source, want))
}

fn peek_here(source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
    let datasets = list(source, want, &open(source)?)?;
    let ChosenArray { array, layout, others } = choose(source, want, &datasets)?;
    Ok(CubeHeader::new(&layout, source, want.max_bytes())?.of_array(&array.name, others))
}

pub(super) fn load(source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
    with_deep_stack(source, || load_here(source, want))
}

fn load_here(source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
    let opened = open(source)?;
    let datasets = list(source, want, &opened)?;
    let ChosenArray { array: dataset, layout, .. } = choose(source, want, &datasets)?;
    let bytes = layout.bytes(source, want.max_bytes())?;
    let stored = elements(source, &opened, dataset, bytes)?;
    let mut cube = LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)?;
    cube.meta.insert("variable".into(), dataset.name.clone().into());
    let [_, _, channels] = layout.shape;
    for beside in &datasets {
        let short = beside.name.rsplit('/').next().unwrap_or_default();
        let Some(key) = meta::per_channel_key(short) else { continue };
        // The first occurrence of a key takes precedence, so skip later ones.
        if meta::is_vector(&beside.dims, channels) && channels <= MAX_VECTOR && !cube.meta.contains_key(key) {
            let mut stored = elements(source, &opened, beside, channels * beside.dtype.bytes())?;
            if beside.big_endian {
                crate::cubes::gather::swap_in_place(&mut stored, beside.dtype.bytes());
            }
            meta::insert_new(&mut cube.meta, key, meta::floats(&floats_of(beside.dtype, &stored)));
        }
    }
    Ok(cube)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_features_are_no_damage() {
        for (error, feature) in [
            (FormatError::InvalidLayoutVersion(1), "the data layout of HDF5 versions before 1.6.3"),
            (FormatError::UnsupportedFilter(32_008), "the filter 32008 (bitshuffle)"),
            (FormatError::UnsupportedFilter(4), "the filter 4 (szip)"),
            (FormatError::UnsupportedFilter(999), "the filter 999"),
            (FormatError::UnsupportedVersion(1), "a version 1 superblock"),
        ] {
            assert_eq!(unread(&Error::Format(error)).as_deref(), Some(feature));
        }
        for error in
            [FormatError::InvalidLayoutVersion(7), FormatError::UnsupportedVersion(32), FormatError::SignatureNotFound]
        {
            assert_eq!(unread(&Error::Format(error)), None);
        }
    }
}
