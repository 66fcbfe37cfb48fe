//! `--masks DIR`: which label mask belongs to which sample.
//!
//! A mask belongs to the sample of the same path below its folder, whatever the extensions: `a/x.npy` to `a/x.tif` (and `a/x.tif.npy` as
//! well). If there is none, the file name alone decides, as long as it is unique on both sides.

use super::SideFile;
use super::bad::{BadKind, Flaw};
use super::error::{Result, SourceError};
use super::read_at::{FileAt, ReadAt};
use super::walk::{Tree, walk};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::Path;

/// The key of a sample, and the path below the source of its data file if that is another.
pub(crate) struct Wanting<'a> {
    pub(crate) key: &'a str,
    pub(crate) data: Option<&'a str>,
}

/// One mask or flaw for each sample, and what the user should know.
pub(crate) struct Paired {
    pub(crate) masks: Vec<Result<SideFile, Flaw>>,
    pub(crate) note: Option<String>,
}

/// The masks of a folder, by name.
pub(crate) struct Masks {
    tree: Tree,
}

/// A path without the extension of its file name.
fn stem(key: &str) -> &str {
    let name = bare(key);
    match name.rfind('.') {
        Some(dot) if dot > 0 => key.get(..key.len() - name.len() + dot).unwrap_or(key),
        _ => key,
    }
}

/// The file name of a path.
fn bare(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// Names to which files answer; more than one file may answer to the same.
#[derive(Default)]
struct Names<'a>(HashMap<&'a str, Vec<usize>>);

impl<'a> Names<'a> {
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
    /// Lists the masks in `folder`; `src`, which may stand in it, is left out.
    pub(crate) fn list(folder: &Path, src: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(folder).map_err(SourceError::io("open", folder))?;
        if !metadata.is_dir() {
            return Err(SourceError::NotASource {
                path: folder.to_owned(),
                expected: "a folder of masks",
                found: "a file",
            });
        }
        let mut tree = walk(folder, &[src])?;
        let root = &tree.root;
        tree.files = std::mem::take(&mut tree.files)
            .into_par_iter()
            .filter(|file| is_mask(&root.join(&file.key), file.bytes))
            .collect();
        Ok(Self { tree })
    }

    /// Gives each sample its mask.
    pub(crate) fn pair(&self, samples: &[Wanting<'_>]) -> Paired {
        let (mut paths, mut names, mut sample_names) = (Names::default(), Names::default(), Names::default());
        for (i, file) in self.tree.files.iter().enumerate() {
            paths.add(stem(&file.key), i);
            names.add(bare(stem(&file.key)), i);
        }
        for (i, sample) in samples.iter().enumerate() {
            sample_names.add(bare(stem(sample.key)), i);
        }
        let mut used = vec![false; self.tree.files.len()];
        let masks = samples.iter().map(|sample| {
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
                        "expected a mask `{}.*`, found one for the name `{name}`, which {others} samples share",
                        stem(sample.key)
                    )));
                }
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
                [] => Err(flaw(format!("expected a mask `{}.*`, found none", stem(sample.key)))),
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
        Paired { masks, note: self.unused(&used) }
    }

    fn side_file(&self, place: usize) -> Result<SideFile, Flaw> {
        let file = self.tree.files.get(place).ok_or_else(|| flaw("no mask".to_owned()))?;
        Ok(SideFile { path: self.tree.root.join(&file.key), bytes: file.bytes, mtime_ns: file.mtime_ns })
    }

    fn unused(&self, used: &[bool]) -> Option<String> {
        let mut unused = self.tree.files.iter().zip(used).filter(|(_, used)| !**used);
        let (first, _) = unused.next()?;
        Some(format!(
            "{} of {} masks belong to no sample (first: `{}`)",
            unused.count() + 1,
            used.len(),
            first.key.escape_debug()
        ))
    }
}

fn flaw(detail: String) -> Flaw {
    Flaw::new(BadKind::Mask, detail)
}

/// Whether a file looks like NumPy, PNG, TIFF or MATLAB. Others, such as a text beside the masks, are passed over.
fn is_mask(path: &Path, bytes: u64) -> bool {
    let Ok(file) = FileAt::open(path, bytes) else { return false };
    let Ok(head) = file.head(8) else { return false };
    head.starts_with(b"\x93NUMPY")
        || head.starts_with(b"\x89PNG\r\n\x1a\n")
        || head.starts_with(b"MATLAB")
        || head.starts_with(b"\x89HDF\r\n\x1a\n")
        || super::tiff_header::is_tiff(&head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{npy, png, put};

    fn pair(masks: &[&str], samples: &[(&str, Option<&str>)]) -> (Vec<Result<String, String>>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        for key in masks {
            put(folder.path(), key, if key.ends_with("txt") { b"text".to_vec() } else { npy() });
        }
        let samples: Vec<_> = samples.iter().map(|&(key, data)| Wanting { key, data }).collect();
        let paired = Masks::list(folder.path(), Path::new("elsewhere")).unwrap().pair(&samples);
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let name = |file: SideFile| file.path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        (paired.masks.into_iter().map(|mask| mask.map(name).map_err(|flaw| flaw.detail)).collect(), paired.note)
    }

    #[test]
    fn pairs_by_path_then_by_name() {
        let (masks, note) = pair(
            &["a/x.npy", "b/x.npy", "deep/er/y.npy", "z.tif.npy", "cube.npy"],
            &[
                ("a/x.tif", None),
                ("b/x.tif", None),
                ("other/y.tif", None),
                ("z.tif", None),
                ("cube.img.hdr", Some("cube.img")),
            ],
        );
        let masks: Vec<_> = masks.into_iter().map(Result::unwrap).collect();
        assert_eq!(masks, ["a/x.npy", "b/x.npy", "deep/er/y.npy", "z.tif.npy", "cube.npy"]);
        assert_eq!(note, None);
    }

    #[test]
    fn no_mask_or_two_are_flaws() {
        let (masks, note) = pair(
            &["a.npy", "a.png", "a.txt", "x/b.npy", "y/b.npy", "c.npy", "lonely.npy"],
            &[("a.tif", None), ("b.tif", None), ("p/c.tif", None), ("q/c.tif", None), ("d.tif", None)],
        );
        let flaws: Vec<_> = masks.into_iter().map(Result::unwrap_err).collect();
        assert_eq!(
            flaws,
            [
                "expected one mask, found 2: `a.npy`, `a.png`",
                "expected one mask, found 2: `x/b.npy`, `y/b.npy`",
                "expected a mask `p/c.*`, found one for the name `c`, which 2 samples share",
                "expected a mask `q/c.*`, found one for the name `c`, which 2 samples share",
                "expected a mask `d.*`, found none",
            ]
        );
        assert_eq!(note.unwrap(), "6 of 6 masks belong to no sample (first: `a.npy`)");
    }

    #[test]
    fn stems() {
        for (key, expected) in
            [("a.b/c", "a.b/c"), ("a.b/c.d", "a.b/c"), ("c.d.e", "c.d"), (".c", ".c"), ("a/.c", "a/.c")]
        {
            assert_eq!(stem(key), expected);
        }
    }

    #[test]
    fn content_decides_what_a_mask_is() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes, expected) in
            [("a.txt", png(1, 1), true), ("b.png", b"no".to_vec(), false), ("c", npy(), true)]
        {
            put(folder.path(), name, &bytes);
            assert_eq!(is_mask(&folder.path().join(name), bytes.len() as u64), expected, "{name}");
        }
    }
}
