//! Finds the data file of an ENVI header. The header itself does not name it.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Common extensions of data files. Upper-case extensions and a name without an extension are tried too.
const EXTENSIONS: &[&str] = &["img", "dat", "raw", "bsq", "bil", "bip", "hyspex", "sli", "bin", "envi"];

/// Finds the data file of `header`. `end` is the size that the file needs, in bytes, if known. Among files with
/// common names, prefers a file of exactly that size, then the first file that is long enough, then the first
/// file. If no file has a common name, returns the only file with the header's stem and exactly that size.
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
            let stem = header.path().file_stem().unwrap_or(OsStr::new("")).to_string_lossy();
            let stem = stem.escape_debug();
            let also = match other.len() {
                0 => String::new(),
                many => format!(" ({many} files have the right size, but other extensions)"),
            };
            Err(header.damaged(format_args!(
                "found no data file for this ENVI header: expected `{stem}`, `{stem}.img`, `{stem}.dat` or \
                 similar{also}"
            )))
        }
    }
}

/// Returns the common names: `x`, `x.img` and so on for `x.hdr`; `x.img`, `x.img.dat` and so on for `x.img.hdr`.
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
