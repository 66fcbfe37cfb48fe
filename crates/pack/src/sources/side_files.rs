//! Files next to a sample: those that other programs leave there, and those that belong to it.

use super::SideFile;
use super::bad::{BadKind, Flaw};
use super::walk::{Tree, mtime_ns};
use std::path::Path;

/// What GDAL, QGIS and ArcGIS write next to a raster, as a suffix to its name: statistics, and
/// overviews, which are TIFFs themselves.
const ADDED: &[&str] = &[".aux.xml", ".ovr", ".msk"];

/// Takes the side files of other files out of `tree`, and counts them as ignored.
pub(crate) fn drop(tree: &mut Tree) {
    let owner = |key: &str| {
        let owner = ADDED.iter().find_map(|added| key.strip_suffix(added))?;
        tree.files.binary_search_by(|file| file.key.as_str().cmp(owner)).ok()
    };
    let dropped: Vec<bool> = tree.files.iter().map(|file| owner(&file.key).is_some()).collect();
    let before = tree.files.len();
    let mut dropped = dropped.into_iter();
    tree.files.retain(|_| !dropped.next().unwrap_or(false));
    tree.ignored += (before - tree.files.len()) as u64;
}

/// Size and time of a sample's data file. Usually it is already listed.
pub(crate) fn look(tree: &Tree, path: &Path) -> Result<SideFile, Flaw> {
    let key = path.strip_prefix(&tree.root).ok().and_then(|key| key.to_str());
    let place = key.and_then(|key| tree.files.binary_search_by(|file| file.key.as_str().cmp(key)).ok());
    if let Some(file) = place.and_then(|place| tree.files.get(place)) {
        return Ok(SideFile { path: path.to_owned(), bytes: file.bytes, mtime_ns: file.mtime_ns });
    }
    if !tree.single {
        // It was refused, for example because it is a link that leads out of the source.
        return Err(Flaw::new(BadKind::Link, format!("its data `{}` is no file of the source", path.display())));
    }
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Flaw::new(BadKind::Special, format!("its data `{}` is no regular file", path.display())));
    }
    Ok(SideFile { bytes: metadata.len(), mtime_ns: mtime_ns(&metadata)?, path: path.to_owned() })
}
