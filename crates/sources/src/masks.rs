//! Assigns the label masks in the folder of `--masks DIR` to samples.
//!
//! A mask belongs to the sample with the same path below its own folder, ignoring extensions. For example,
//! `a/x.npy` and `a/x.tif.npy` both belong to `a/x.tif`. If no sample has this path, file names are compared if
//! they are unique among masks and among samples. Ground-truth names like `a/x_gt.mat` are tried last. A mask
//! must have one band, and the height and width of the cube or the upright picture.

use crate::bad::{BadInput, BadKind, Flaw};
use crate::cancel::Cancel;
use crate::cubes::{CubeOptions, mask_size, may_be_mask};
use crate::error::{Result, SourceError};
use crate::files::Files;
use crate::files::listed::SideFile;
use crate::files::read_at::{FileAt, ReadAt};
use crate::listing::SourceSample;
use crate::tree::Tree;
use crate::tree::walk::{Follow, walk};
use crate::truth::{self, stem};
use crate::words::{plural, short, verb};
use rayon::prelude::*;
use shardpack_format::Hint;
use std::collections::HashMap;
use std::path::Path;

/// Assigns a mask to each of `samples`. A sample without a mask, or with a mask of the wrong size, becomes bad
/// input. May return a note for the user.
///
/// Checks all masks in parallel, to find wrong ones before the first shard is written. A PNG's header shows if
/// it contains labels. Other masks are read completely, because only the values show if floats are labels.
pub(crate) fn add(
    masks: &Masks,
    tree: &Tree,
    samples: &mut Vec<SourceSample>,
    bad: &mut Vec<BadInput>,
    options: &CubeOptions,
    cancel: Cancel<'_>,
) -> Result<Option<String>> {
    let wanting: Vec<_> = samples
        .iter()
        .map(|sample| {
            let data =
                sample.data.as_ref().and_then(|data| data.path.strip_prefix(&tree.root).ok()).and_then(Path::to_str);
            MaskedSample { key: &sample.key, data }
        })
        .collect();
    let MaskPairs { masks, note } = masks.pair(&wanting);
    give(masks.into_iter().map(Some).collect(), samples, bad, options, cancel)?;
    Ok(note)
}

/// Like [`add`], but with the masks already found. Skips samples that need no mask.
pub(crate) fn give(
    masks: Vec<Option<Result<SideFile, Flaw>>>,
    samples: &mut Vec<SourceSample>,
    bad: &mut Vec<BadInput>,
    options: &CubeOptions,
    cancel: Cancel<'_>,
) -> Result<()> {
    // `--variable` names the cube in a file with several arrays, not the mask.
    let options = CubeOptions { variable: Vec::new(), ..options.clone() };
    let checked = std::mem::take(samples).into_par_iter().zip(masks).map(|(mut sample, mask)| {
        cancel.check()?;
        let Some(mask) = mask else { return Ok(Ok(sample)) };
        Ok(match mask.and_then(|mask| fits(&sample, &mask, &options).map(|()| mask)) {
            Ok(mask) => {
                sample.mask = Some(Box::new(mask));
                Ok(sample)
            }
            Err(flaw) => Err(flaw.of(sample.key)),
        })
    });
    for sample in checked.collect::<Result<Vec<_>>>()? {
        match sample {
            Ok(sample) => samples.push(sample),
            Err(flaw) => bad.push(flaw),
        }
    }
    Ok(())
}

fn fits(sample: &SourceSample, mask: &SideFile, options: &CubeOptions) -> Result<(), Flaw> {
    let ([height, width], what) = sample.content.mask_size();
    let found = mask_size(&mask.path, options).map_err(|error| flaw(format!("mask {error}")))?;
    if found == [height, width] {
        return Ok(());
    }
    let (path, [h, w]) = (mask.path.to_string_lossy(), found);
    Err(flaw(format!("mask `{}` has {h} × {w} pixels, but the {what} has {height} × {width}", path.escape_debug())))
}

/// Maximum number of masks to compare with a sample in search of a common suffix. Only masks that start with
/// the sample's name are compared.
const NEAR: usize = 64;

/// Key of a sample and, if it has a separate data file, that file's path below the source.
pub(crate) struct MaskedSample<'a> {
    pub(crate) key: &'a str,
    pub(crate) data: Option<&'a str>,
}

pub(crate) struct MaskPairs {
    pub(crate) masks: Vec<Result<SideFile, Flaw>>,
    pub(crate) note: Option<String>,
}

pub(crate) struct Masks {
    tree: Tree,
    others: Vec<String>,
}

fn bare(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// Positions of files by name. A name may belong to several files.
#[derive(Default)]
struct FilesByName<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> FilesByName<'a> {
    fn add(&mut self, name: &'a str, file: usize) {
        let files = self.0.entry(name).or_default();
        if !files.contains(&file) {
            files.push(file);
        }
    }

    fn files(&self, name: &str) -> &[usize] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Masks {
    pub(crate) fn list(folder: &Path, src: &Path, files: &Files, follow: Follow, cancel: Cancel<'_>) -> Result<Self> {
        files.check(folder)?;
        let is_file = || std::fs::metadata(folder).map(|metadata| !metadata.is_dir());
        if !files.has(folder) && is_file().map_err(SourceError::io("open", folder))? {
            let problem = "expected a folder with masks, found a file";
            return Err(SourceError::NotASource { path: folder.to_owned(), problem });
        }
        let mut tree = walk(folder, &[src], files, follow, cancel)?;
        let root = &tree.root;
        let looked_at = std::mem::take(&mut tree.files)
            .into_par_iter()
            .map(|file| cancel.check().map(|()| (is_mask(files, &root.join(&file.key), file.bytes), file)))
            .collect::<Result<Vec<_>>>()?;
        let (masks, others): (Vec<_>, Vec<_>) = looked_at.into_iter().partition(|(is_mask, _)| *is_mask);
        tree.files = masks.into_iter().map(|(_, file)| file).collect();
        Ok(Self { tree, others: others.into_iter().map(|(_, file)| file.key).collect() })
    }

    pub(crate) fn pair(&self, samples: &[MaskedSample<'_>]) -> MaskPairs {
        let (mut paths, mut names, mut sample_names) =
            (FilesByName::default(), FilesByName::default(), FilesByName::default());
        for (i, file) in self.tree.files.iter().enumerate() {
            paths.add(stem(&file.key), i);
            names.add(bare(stem(&file.key)), i);
        }
        for (i, sample) in samples.iter().enumerate() {
            sample_names.add(bare(stem(sample.key)), i);
        }
        // Bad files of the mask folder may include pipes and links out of the folder. Do not open
        // the pipes or follow the links.
        let (mut bad_paths, mut bad_names) = (FilesByName::default(), FilesByName::default());
        for (i, bad) in self.tree.bad.iter().enumerate() {
            bad_paths.add(stem(&bad.key), i);
            bad_names.add(bare(stem(&bad.key)), i);
        }
        let (mut other_paths, mut other_names) = (FilesByName::default(), FilesByName::default());
        for (i, key) in self.others.iter().enumerate() {
            other_paths.add(stem(key), i);
            other_names.add(bare(stem(key)), i);
        }
        let mut used = vec![false; self.tree.files.len()];
        let affix = self.affix(samples);
        let [own, wanting]: [Vec<&str>; 2] = [
            self.tree.files.iter().map(|file| file.key.as_str()).collect(),
            samples.iter().map(|sample| sample.key).collect(),
        ];
        let truths = truth::of_masks(&own, &wanting);
        let masks = samples.iter().zip(truths).map(|(sample, truths)| {
            let name = bare(stem(sample.key));
            let mut found = Vec::new();
            for wanted in [Some(stem(sample.key)), Some(sample.key), sample.data.map(stem)].into_iter().flatten() {
                found.extend(
                    paths.files(wanted).iter().copied().filter(|file| !found.contains(file)).collect::<Vec<_>>(),
                );
            }
            if found.is_empty() {
                found.extend(names.files(name));
                if found.len() == 1 && sample_names.files(name).len() > 1 {
                    let others = sample_names.files(name).len();
                    return Err(flaw(format!(
                        "there is no mask `{}.*`, and the mask named `{name}` could belong to any of {others} samples \
                         with this name",
                        stem(sample.key)
                    )));
                }
            }
            if found.is_empty() {
                found = truths;
            }
            let list = || {
                found
                    .iter()
                    .filter_map(|&i| self.tree.files.get(i))
                    .take(3)
                    .map(|file| format!("`{}`", file.key))
                    .collect::<Vec<_>>()
            };
            match found.as_slice() {
                [] => {
                    let bad = bad_paths.files(stem(sample.key)).iter().chain(bad_names.files(name)).next();
                    let other = other_paths.files(stem(sample.key)).iter().chain(other_names.files(name)).next();
                    let other = other.and_then(|&i| self.others.get(i));
                    let told = match (bad.and_then(|&i| self.tree.bad.get(i)), other) {
                        (Some(bad), _) => format!("cannot use the mask {bad}"),
                        (None, Some(other)) => {
                            let other = other.escape_debug();
                            format!("the mask `{other}` is not a {FORMATS} file")
                        }
                        (None, None) => format!("there is no mask `{}.*`", stem(sample.key)),
                    };
                    let hint = affix
                        .as_ref()
                        .map(|affix| format!("give each mask the name of its picture or cube, without `{affix}`"));
                    Err(flaw(told).with_hint(hint.map(Hint::from)))
                }
                [one] => {
                    if let Some(used) = used.get_mut(*one) {
                        *used = true;
                    }
                    self.side_file(*one)
                }
                more => Err(flaw(format!("expected one mask, found {}: {}", more.len(), list().join(", ")))),
            }
        });
        let masks = masks.collect();
        MaskPairs { masks, note: self.unused(&used) }
    }

    /// Returns the suffix of mask names after the sample names, such as `_mask`, if all recognisable pairs have
    /// the same one.
    fn affix(&self, samples: &[MaskedSample<'_>]) -> Option<String> {
        let mut masks: Vec<&str> = self.tree.files.iter().map(|file| bare(stem(&file.key))).collect();
        masks.sort_unstable();
        let mut affix: Option<&str> = None;
        for sample in samples {
            let name = bare(stem(sample.key));
            let behind = masks.get(masks.partition_point(|mask| *mask < name)..).unwrap_or_default();
            // `10_mask` does not belong to sample `1`.
            let ends = |mask: &&str| !mask.starts_with(|c: char| c.is_alphanumeric());
            let more = behind.iter().map_while(|mask| mask.strip_prefix(name)).take(NEAR).find(ends);
            match (affix, more) {
                (_, None) | (_, Some("")) => {}
                (Some(affix), Some(more)) if affix != more => return None,
                (_, more) => affix = more,
            }
        }
        affix.map(short)
    }

    fn side_file(&self, place: usize) -> Result<SideFile, Flaw> {
        let file = self.tree.files.get(place).ok_or_else(|| flaw("no mask".to_owned()))?;
        Ok(SideFile { path: self.tree.root.join(&file.key), bytes: file.bytes, mtime_ns: file.mtime_ns })
    }

    fn unused(&self, used: &[bool]) -> Option<String> {
        let mut unused = self.tree.files.iter().zip(used).filter(|(_, used)| !**used);
        let (first, _) = unused.next()?;
        let count = unused.count() as u64 + 1;
        let (all, belong) = (plural(used.len() as u64, "mask"), verb(count, "belongs", "belong"));
        Some(format!("{count} of {all} {belong} to no sample (first: `{}`)", first.key.escape_debug()))
    }
}

pub(crate) fn flaw(detail: String) -> Flaw {
    Flaw::new(BadKind::Mask, detail)
}

/// Number of bytes needed to recognise a mask, enough for a matrix header and a name.
const MASK_HEAD: u64 = 20 + 256;

/// Formats of masks, as messages name them.
const FORMATS: &str = "PNG, NumPy, Blosc2, TIFF, MATLAB or HDF5";

/// Returns true if the file looks like a mask in one of the [`FORMATS`].
fn is_mask(files: &Files, path: &Path, bytes: u64) -> bool {
    let Ok(file) = FileAt::open(files, path, bytes) else { return false };
    let Ok(head) = file.head(MASK_HEAD) else { return false };
    may_be_mask(&head, bytes)
}

#[cfg(test)]
#[path = "masks_tests.rs"]
mod tests;
