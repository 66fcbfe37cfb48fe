//! Finds the data file of an ENVI header, because the header does not name it.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Usual extensions, in addition to none; upper case is also tried.
const EXTENSIONS: &[&str] = &["img", "dat", "raw", "bsq", "bil", "bip", "hyspex", "sli", "bin", "envi"];

/// The data file of `header`, which needs `end` bytes if that is known. Among the usual names, a
/// file with exactly that size is preferred, else the first file that is long enough, else the
/// first file. If none of these exists, it is the only file with the header's stem, any extension,
/// and exactly that size.
pub(super) fn find(header: &CubeFile, end: Option<u64>) -> Result<CubeFile> {
    let present: Vec<_> = usual_names(header.path())
        .into_iter()
        .filter_map(|path| Some((header.run().files().size(&path)?, path)))
        .collect();
    let exact = present.iter().find(|(size, _)| Some(*size) == end);
    let long_enough = || present.iter().find(|(size, _)| end.is_some_and(|end| *size >= end));
    let best = exact.or_else(long_enough).or(present.first());
    if let Some((_, path)) = best {
        return CubeFile::open(path, header.run());
    }
    match same_stem(header, end).as_slice() {
        [one] => CubeFile::open(one, header.run()),
        other => {
            let expected = "a file of the header's name with `.img`, `.dat`, `.raw`, … or without an extension";
            let found = match other.len() {
                0 => "none".to_owned(),
                many => format!("{many} of other extensions that have the right size"),
            };
            Err(header.format("ENVI data file", expected, found))
        }
    }
}

/// `x.hdr` → `x`, `x.img`, …; `x.img.hdr` → `x.img`, then `x.img.dat`, ….
fn usual_names(header: &Path) -> Vec<PathBuf> {
    let stem = header.with_extension("");
    let mut names = vec![stem.clone()];
    for extension in EXTENSIONS {
        for extension in [(*extension).to_owned(), extension.to_uppercase()] {
            let mut name = stem.clone().into_os_string();
            name.push(".");
            name.push(&extension);
            names.push(name.into());
        }
    }
    names.retain(|name| name != header);
    names
}

fn same_stem(header: &CubeFile, end: Option<u64>) -> Vec<PathBuf> {
    let path = header.path();
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let names = header.run().same_stem(folder, path.file_stem().unwrap_or(OsStr::new("")));
    let others = names.into_iter().filter(|name| Some(name.as_os_str()) != path.file_name());
    others
        .map(|name| folder.join(name))
        .filter(|path| end.is_some() && header.run().files().size(path) == end)
        .collect()
}
