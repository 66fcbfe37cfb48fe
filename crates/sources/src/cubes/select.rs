//! Selects the cube in a file with several arrays.

use super::error::Result;
use super::layout::CubeLayout;
use super::options::CubeOptions;
use super::source::CubeFile;
use crate::words::{first, list, short};
use shardpack_format::{Hint, Setting};

/// Maximum number of requested names shown in a message.
const NAMED: usize = 8;

#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// Read a cube: an array with three axes or, if there is none, one with two axes.
    Cube(&'a CubeOptions),
    /// Read a mask: an array with two axes.
    Mask(&'a CubeOptions),
}

impl<'a> Purpose<'a> {
    pub(super) const fn options(&self) -> &'a CubeOptions {
        match self {
            Self::Cube(options) | Self::Mask(options) => options,
        }
    }

    pub(super) const fn max_bytes(&self) -> u64 {
        self.options().max_bytes
    }
}

/// The selected array and its layout in the file. If the caller did not name the array, also the names of the
/// other candidates.
pub(super) struct ChosenArray<'a, T> {
    pub(super) array: &'a T,
    pub(super) layout: CubeLayout,
    pub(super) others: Vec<String>,
}

pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: String,
    pub(super) dims: &'a [u64],
}

impl Candidate<'_> {
    fn describe(&self) -> String {
        format!("`{}` {} {}", short(self.name), describe_dims(self.dims), self.dtype)
    }
}

/// Formats the lengths of up to eight axes.
fn describe_dims(dims: &[u64]) -> String {
    match dims.get(..8) {
        Some(some) if dims.len() > 8 => format!("{some:?} and {} more axes", dims.len() - some.len()),
        _ => format!("{dims:?}"),
    }
}

/// Returns the names of the other arrays that are pictures or cubes, or nothing if the caller named the array.
pub(super) fn others(want: &Purpose, candidates: &[Candidate], chosen: usize) -> Vec<String> {
    if !want.options().variable.is_empty() {
        return Vec::new();
    }
    let pictures = candidates
        .iter()
        .enumerate()
        .filter(|(index, candidate)| *index != chosen && candidate.dims.iter().filter(|&&axis| axis > 1).count() > 1);
    pictures.map(|(_, candidate)| candidate.name.to_owned()).collect()
}

/// Selects an array for `want` and returns its index. Prefers the array that the caller named, then the only
/// array with three axes, then the only array with two axes.
pub(super) fn select(source: &CubeFile, want: &Purpose, candidates: &[Candidate]) -> Result<usize> {
    let all = || match candidates {
        [] => "no numeric array".to_owned(),
        some => first(some.iter().map(Candidate::describe)),
    };
    let names = &want.options().variable;
    for name in names {
        if let Some(exact) = candidates.iter().position(|candidate| candidate.name == name) {
            return Ok(exact);
        }
        let fitting = candidates.iter().enumerate().filter(|(_, candidate)| matches(name, candidate.name));
        match fitting.map(|(place, _)| place).collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => return Ok(*one),
            several => {
                let found = several.iter().filter_map(|place| candidates.get(*place)).map(Candidate::describe);
                let found = first(found.collect::<Vec<_>>().into_iter());
                let text = format!("several arrays have names that match `{}`: {found}", short(name));
                return Err(source.usage(text).with_hint(name_one()));
            }
        }
    }
    if !names.is_empty() {
        let wanted = list(names.iter().map(String::as_str), NAMED);
        return Err(source.usage(format_args!("no numeric array is named {wanted}; the file has {}", all())));
    }
    let with_rank = |rank: usize| -> Vec<usize> {
        // An array with one row or one column is a list of wavelengths or labels, not a picture.
        let picture = |dims: &[u64]| dims.len() == rank && (rank == 3 || !dims.contains(&1));
        (0..).zip(candidates).filter(|(_, candidate)| picture(candidate.dims)).map(|(index, _)| index).collect()
    };
    let ranks: &[usize] = if matches!(want, Purpose::Cube(_)) { &[3, 2] } else { &[2] };
    for &rank in ranks {
        match with_rank(rank).as_slice() {
            [] => {}
            [one] if rank == 2 || !candidates.iter().any(|other| is_larger_matrix(other, candidates.get(*one))) => {
                return Ok(*one);
            }
            // A matrix is larger than the only array with three axes. That array may be the ground
            // truth for the matrix, which may be bands × pixels.
            [_] => {
                let text = format!(
                    "cannot tell whether the cube is the array with 3 axes or a larger matrix: the file has {}",
                    all()
                );
                let hint = name_one().then("; for a matrix with a spectrum for each pixel, also pass ");
                let hint = hint.and([Setting::any("spatial", "HxW")]);
                return Err(source.usage(text).with_hint(hint));
            }
            several => {
                let found = several.iter().filter_map(|place| candidates.get(*place)).map(Candidate::describe);
                let found = first(found.collect::<Vec<_>>().into_iter());
                let text = format!("several arrays have {rank} axes: {found}");
                return Err(source.usage(text).with_hint(name_one()));
            }
        }
    }
    match candidates {
        // Select the only array even if it is unusable, because the error then explains why it is unusable. Do
        // not take a vector, because it may come from a MATLAB file that was truncated between two variables.
        [one] if one.dims.len() != 2 => Ok(0),
        [] => Err(source.unsupported("the file has no numeric array")),
        _ => {
            let axes = if ranks.len() == 2 { "2 or 3" } else { "2" };
            Err(source.unsupported(format_args!("expected an array with {axes} axes, found {}", all())))
        }
    }
}

fn name_one() -> Hint {
    Hint::new("choose an array with ").and([Setting::any("variable", "NAME")])
}

/// Returns true if `name` matches `pattern`, in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let start = parts.next().unwrap_or_default();
    let Some(end) = parts.next_back() else { return false };
    let inner = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    // Matching each part as early as possible leaves the most text for the others.
    inner.is_some_and(|inner| {
        parts.try_fold(inner, |rest, part| Some(rest.split_at(rest.find(part)? + part.len()).1)).is_some()
    })
}

fn is_larger_matrix(other: &Candidate, cube: Option<&Candidate>) -> bool {
    let elements = |dims: &[u64]| dims.iter().fold(1u64, |product, &axis| product.saturating_mul(axis));
    other.dims.len() == 2 && cube.is_some_and(|cube| elements(other.dims) > elements(cube.dims))
}

/// Like [`select`], for MATLAB files. If the caller specified the picture's size but no name, prefers a matrix
/// with that number of pixels over a cube.
pub(super) fn select_matlab(source: &CubeFile, want: &Purpose, candidates: &[Candidate]) -> Result<usize> {
    let options = want.options();
    if let (Purpose::Cube(_), [], Some((height, width))) = (want, options.variable.as_slice(), options.spatial) {
        let pixels = height.checked_mul(width);
        let fits = |dims: &[u64]| matches!(*dims, [a, b] if Some(a) == pixels || Some(b) == pixels);
        let fitting: Vec<_> = (0..).zip(candidates).filter(|(_, candidate)| fits(candidate.dims)).collect();
        match fitting.as_slice() {
            [] => {}
            [(one, _)] => return Ok(*one),
            many => {
                let found = first(many.iter().map(|(_, candidate)| candidate.describe()));
                let error = source.usage(format_args!("several matrices have {height} x {width} pixels: {found}"));
                return Err(error.with_hint(name_one()));
            }
        }
    }
    select(source, want, candidates)
}

/// Returns the shape `[height, width, channels]` of an array with three axes, or with two axes and therefore one band.
pub(super) fn cube_shape(source: &CubeFile, dims: &[u64]) -> Result<[u64; 3]> {
    let shape = match *dims {
        [h, w] => [h, w, 1],
        [h, w, c] => [h, w, c],
        _ => {
            let axes = if dims.len() == 1 { "axis" } else { "axes" };
            let (rank, dims) = (dims.len(), describe_dims(dims));
            let needed = "[height, width] or [height, width, channels]";
            let text = format!("the array has {rank} {axes} ({dims}), but must have {needed}");
            let error = source.unsupported(text);
            return Err(if rank > 3 {
                error.with_hint("save each cube of the stack as a separate file")
            } else {
                error
            });
        }
    };
    if shape.contains(&0) {
        return Err(source.unsupported(format_args!("the array with shape {dims:?} is empty")));
    }
    Ok(shape)
}
