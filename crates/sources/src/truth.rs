//! Finds ground truth by name: `X_gt.mat` belongs to `X.mat` and to `X_corrected.mat`.
//!
//! Next to cubes, `X_gt.mat` is a mask if it has one band of integers and the height and width of its cube. In
//! a folder that contains only ground truth, the files are samples.

use crate::content::SampleContent;
use crate::cubes::{CubeOptions, mask_size};
use crate::files::listed::SideFile;
use crate::listing::SourceSample;
use crate::words::{list, plural, verb};
use rayon::prelude::*;
use shardpack_format::{Hint, Note, Setting};
use shardpack_reader::mask_names;
use std::path::Path;

/// Additional words in a cube's name. They are ignored in the search for its ground truth.
const VERSIONS: &[&str] = &["corrected"];

const NAMED: usize = 4;

const SEPARATORS: [char; 4] = ['_', '-', '.', ' '];

pub(super) fn stem(key: &str) -> &str {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    match name.rfind('.') {
        Some(dot) if dot > 0 => key.get(..key.len() - name.len() + dot).unwrap_or(key),
        _ => key,
    }
}

/// Returns the scene of a ground-truth name, such as `a/X` for `a/X_gt`, `a/X_ground_truth` and `a/X-mask`.
fn scene(stem: &str) -> Option<&str> {
    let from = stem.rfind('/').map_or(0, |slash| slash + 1);
    let mut ends = stem.match_indices(SEPARATORS).map(|(place, _)| place).filter(|&place| place > from);
    ends.find_map(|end| {
        let (scene, rest) = stem.split_at_checked(end)?;
        mask_names::is_whole(rest).then_some(scene)
    })
}

enum Owners {
    Certain(Vec<usize>),
    /// Several files have names that start with the scene's name, so any of them may be the scene.
    Unclear(Vec<usize>),
}

fn owners(scene: &str, stems: &[(&str, usize)], fits: impl Fn(usize) -> bool) -> Owners {
    let behind = stems.get(stems.partition_point(|(stem, _)| *stem < scene)..).unwrap_or_default();
    let (mut certain, mut others) = (Vec::new(), Vec::new());
    for (stem, file) in behind {
        let Some(more) = stem.strip_prefix(scene) else { break };
        let version = more.strip_prefix(SEPARATORS);
        if !(more.is_empty() || version.is_some()) || self::scene(stem) == Some(scene) || !fits(*file) {
            continue;
        }
        if version.is_none_or(|version| VERSIONS.iter().any(|known| known.eq_ignore_ascii_case(version))) {
            certain.push(*file);
        } else {
            others.push(*file);
        }
    }
    match others.len() {
        0 => Owners::Certain(certain),
        1 if certain.is_empty() => Owners::Certain(others),
        _ if certain.is_empty() => Owners::Unclear(others),
        _ => Owners::Certain(certain),
    }
}

/// Returns, for each sample, the indexes of the masks whose names show that they are its ground truth.
pub(super) fn of_masks(masks: &[&str], samples: &[&str]) -> Vec<Vec<usize>> {
    let stems = sorted(samples.iter().copied());
    let mut out = vec![Vec::new(); samples.len()];
    for (place, mask) in masks.iter().enumerate() {
        let Some(scene) = scene(stem(mask)) else { continue };
        let Owners::Certain(owners) = owners(scene, &stems, |_| true) else { continue };
        for owner in owners {
            out.get_mut(owner).into_iter().for_each(|of_one| of_one.push(place));
        }
    }
    out
}

fn sorted<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut stems: Vec<(&str, usize)> = keys.map(stem).zip(0..).collect();
    stems.sort_unstable();
    stems
}

#[derive(Default)]
pub(super) struct Beside {
    /// Sample keys with their mask files.
    pub(super) masks: Vec<(String, SideFile)>,
    pub(super) notes: Vec<Note>,
}

/// Moves ground-truth files out of `samples`. The samples are cubes in the folder `root`.
pub(super) fn take(root: &Path, samples: &mut Vec<SourceSample>, options: &CubeOptions) -> Beside {
    let stems = sorted(samples.iter().map(|sample| sample.key.as_str()));
    let size = |sample: &SourceSample| sample.content.mask_size().0;
    let bands = |sample: &SourceSample| match &sample.content {
        SampleContent::Cube(info) => info.shape[2],
        SampleContent::Picture(_) => 0,
    };
    let found = samples.iter().enumerate().filter(|(_, truth)| bands(truth) == 1).filter_map(|(place, truth)| {
        let fits = |other: usize| other != place && samples.get(other).is_some_and(|other| size(other) == size(truth));
        match owners(scene(stem(&truth.key))?, &stems, fits) {
            Owners::Certain(owners) if owners.is_empty() => None,
            owners => Some((place, owners)),
        }
    });
    let found: Vec<(usize, Owners)> = found.collect();
    if found.is_empty() {
        return Beside::default();
    }
    // A mask's class numbers are whole numbers, even if the file stores them as floats.
    let alone = CubeOptions { variable: Vec::new(), ..options.clone() };
    let is_truth = |place: &usize| {
        let content = samples.get(*place).map(|sample| (&sample.content, root.join(&sample.key)));
        content.is_some_and(|(content, path)| match content {
            SampleContent::Cube(info) if info.dtype.is_float() => mask_size(&path, &alone).is_ok(),
            _ => true,
        })
    };
    let integers: Vec<bool> = found.par_iter().map(|(place, _)| is_truth(place)).collect();

    let mut beside = Beside::default();
    let mut taken = vec![false; samples.len()];
    let (mut first, mut unclear) = (None, Vec::new());
    let key = |place: usize| samples.get(place).map_or("", |sample| sample.key.as_str());
    for ((place, owners), integers) in found.iter().zip(integers) {
        match owners {
            Owners::Certain(owners) if integers => {
                first = first.or_else(|| Some((key(*place).to_owned(), key(*owners.first()?).to_owned())));
                taken.get_mut(*place).into_iter().for_each(|taken| *taken = true);
                let file = |truth: &SourceSample| SideFile {
                    path: root.join(&truth.key),
                    bytes: truth.bytes,
                    mtime_ns: truth.mtime_ns,
                };
                let owned =
                    owners.iter().filter_map(|owner| Some((key(*owner).to_owned(), file(samples.get(*place)?))));
                beside.masks.extend(owned);
            }
            Owners::Certain(owners) | Owners::Unclear(owners) => unclear.push((*place, owners.clone(), integers)),
        }
    }
    if let Some((truth, cube)) = first {
        let count = taken.iter().filter(|taken| **taken).count() as u64;
        let (hold, are, masks) = (verb(count, "seems", "seem"), verb(count, "is", "are"), verb(count, "mask", "masks"));
        let note = format!(
            "judging by name and shape, {} {hold} to be the ground truth of other cubes, and {are} packed as their \
             {masks} (first: {} for {})",
            plural(count, "file"),
            list([truth.as_str()], 1),
            list([cube.as_str()], 1),
        );
        let hint = Hint::new("if a file is not a mask, drop the ending such as `_gt` from its name, or pass ");
        let hint = hint.and([Setting::any("masks", "DIR")]);
        beside.notes.push(Note::new(note).with_hint(hint.then(" to take masks from a folder")));
    }
    if let Some((place, owners, integers)) = unclear.first() {
        let names = list(owners.iter().map(|owner| key(*owner)), NAMED);
        let why = match integers {
            true => format!("could belong to any of {names}"),
            false => format!("has values that are not integers, although its name matches {names}"),
        };
        let more = match unclear.len() - 1 {
            0 => String::new(),
            more => format!("; the same is true of {}", plural(more as u64, "other file")),
        };
        let note = format!(
            "{} looks like ground truth, but is packed as a sample because it {why}{more}",
            list([key(*place)], 1)
        );
        let hint = Hint::new("if it is a mask, move it to a separate folder, give it the name of its cube, and pass ");
        beside.notes.push(Note::new(note).with_hint(hint.and([Setting::any("masks", "DIR")])));
    }
    let mut taken = taken.into_iter();
    samples.retain(|_| !taken.next().unwrap_or(false));
    beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{npy_of, npy_with, put, told};
    use crate::{Listing, SourceOptions, enumerate};

    fn of(files: &[(&str, Vec<u8>)]) -> Listing {
        let root = tempfile::tempdir().unwrap();
        files.iter().for_each(|(path, bytes)| put(root.path(), path, bytes));
        enumerate(root.path(), &SourceOptions::default()).unwrap()
    }

    fn masks(listing: &Listing) -> Vec<(&str, Option<String>)> {
        let name = |mask: &SideFile| mask.path.file_name().unwrap().to_str().unwrap().to_owned();
        listing.samples.iter().map(|sample| (sample.key.as_str(), sample.mask.as_deref().map(name))).collect()
    }

    #[test]
    fn names_of_ground_truth() {
        for (stem, expected) in [
            ("PaviaU_gt", Some("PaviaU")),
            ("a/Indian_pines_gt", Some("a/Indian_pines")),
            ("x_ground_truth", Some("x")),
            ("x-GT", Some("x")),
            ("x.mask", Some("x")),
            ("gt", None),
            ("a_gt/x", None),
            ("_gt", None),
            ("x_gtx", None),
            ("xgt", None),
        ] {
            assert_eq!(scene(stem), expected, "{stem}");
        }
    }

    #[test]
    fn ground_truth_next_to_its_cube_is_its_mask() {
        let (cube, truth) = (npy_of(&[4, 3, 5]), npy_of(&[4, 3]));
        let listing =
            of(&[("s/X.npy", cube.clone()), ("s/X_corrected.npy", cube.clone()), ("s/X_gt.npy", truth.clone())]);
        let gt = Some("X_gt.npy".to_owned());
        assert_eq!(masks(&listing), [("s/X.npy", gt.clone()), ("s/X_corrected.npy", gt)]);
        let said = told(&listing);
        assert!(
            said[0].starts_with("judging by name and shape, 1 file seems to be the ground truth of other cubes"),
            "{said:?}"
        );
        assert!(said[0].contains("(first: `s/X_gt.npy` for `s/X.npy`)\nhint: "), "{said:?}");
        // If a scene has only one cube, the name of the cube may have any suffix. Other cubes have
        // no ground truth.
        let listing = of(&[("X_vnir.npy", cube.clone()), ("X_gt.npy", truth.clone()), ("Y.npy", cube.clone())]);
        assert_eq!(masks(&listing), [("X_vnir.npy", Some("X_gt.npy".to_owned())), ("Y.npy", None)]);
        assert!(told(&listing)[1].contains("has no mask"), "{:?}", told(&listing));
    }

    #[test]
    fn other_cubes_stay_samples() {
        let (cube, truth) = (npy_of(&[4, 3, 5]), npy_of(&[4, 3]));
        // `X_gt.npy` is not a mask if it is on its own, next to a cube of a different size or name,
        // or has several bands.
        for other in [("Z_gt.npy", truth.clone()), ("X.npy", npy_of(&[5, 3, 5])), ("Y.npy", cube.clone())] {
            let listing = of(&[("X_gt.npy", truth.clone()), other]);
            assert!(listing.samples.len() == 2 && listing.notes.is_empty(), "{:?}", listing.notes);
        }
        assert_eq!(of(&[("X_gt.npy", cube.clone()), ("X.npy", cube.clone())]).samples.len(), 2);
        // Several cubes match, so it is unclear to which of them the mask belongs.
        let listing = of(&[("X_1.npy", cube.clone()), ("X_2.npy", cube.clone()), ("X_gt.npy", truth)]);
        assert_eq!(listing.samples.len(), 3);
        let said = told(&listing);
        assert!(
            said[0].contains(
                "`X_gt.npy` looks like ground truth, but is packed as a sample because it could belong to any"
            ),
            "{said:?}"
        );
        assert!(said[0].ends_with("and pass `--masks DIR`"), "{said:?}");
        // Fractions cannot be class numbers, so the file `X_gt.npy` is not a mask.
        let shares = npy_with("<f4", &[4, 3], &[0.5f32; 12].map(f32::to_le_bytes).concat());
        let listing = of(&[("X.npy", cube.clone()), ("X_gt.npy", shares)]);
        assert_eq!(listing.samples.len(), 2);
        assert!(told(&listing)[0].contains("has values that are not integers"), "{:?}", told(&listing));
        let classes = npy_with("<f8", &[4, 3], &[2f64; 12].map(f64::to_le_bytes).concat());
        assert_eq!(of(&[("X.npy", cube), ("X_gt.npy", classes)]).samples.len(), 1);
    }
}
