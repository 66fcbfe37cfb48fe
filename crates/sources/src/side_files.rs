//! Handles files next to a sample. They belong to the sample, or other programs wrote them.

use crate::bad::{BadInput, BadKind, Flaw};
use crate::files::listed::{SideFile, mtime_ns};
use crate::tree::Tree;
use crate::words::plural;
use shardpack_format::visible_path;
use shardpack_format::{Hint, Note, Setting};
use std::collections::BTreeMap;
use std::path::Path;

/// Suffixes of the statistics and overviews that GDAL, QGIS and ArcGIS write next to a raster. The overviews
/// are themselves TIFFs.
const ADDED: &[&str] = &[".aux.xml", ".ovr", ".msk"];

/// Removes side files from `tree` and counts them as ignored.
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

/// Extensions of files that are often next to samples, but are intended for people or other tools. Examples are
/// annotations of COCO (`.json`), YOLO (`.txt`) and Pascal VOC (`.xml`), tables, and documents.
const BESIDE: &[&str] = &[
    "cfg", "csv", "htm", "html", "ini", "json", "jsonl", "log", "md", "pdf", "rst", "sh", "toml", "tsv", "txt", "xml",
    "yaml", "yml",
];
/// Names of files often found next to samples.
const BESIDE_NAMES: &[&str] = &["LICENSE", "LICENCE", "MD5SUMS", "README", "SHA256SUMS", "Thumbs.db", "desktop.ini"];
/// Extensions of tables that may contain labels.
const TABLES: &[&str] = &["csv", "jsonl"];

/// Removes files from `bad` whose names and contents show that they are not meant to be packed. Returns the
/// number of removed files, and a note that names the first of each kind. If there are no labels, the note
/// mentions tables that may contain them.
pub(crate) fn pass_over(bad: &mut Vec<BadInput>, has_labels: bool) -> (u64, Option<Note>) {
    let mut kinds: BTreeMap<String, (u64, String)> = BTreeMap::new();
    bad.retain(|file| {
        let name = file.key.rsplit('/').next().unwrap_or(&file.key);
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let kind = match extension {
            _ if BESIDE_NAMES.contains(&name) => name.to_owned(),
            Some(extension) if BESIDE.contains(&extension.as_str()) => format!(".{extension}"),
            _ => return true,
        };
        // Also pass over empty files with these names, because they are not truncated samples.
        if !matches!(file.kind, BadKind::Unknown | BadKind::Empty) {
            return true;
        }
        kinds.entry(kind).or_insert_with(|| (0, file.key.clone())).0 += 1;
        false
    });
    let count = kinds.values().map(|(count, _)| count).sum();
    let names: Vec<String> = kinds
        .iter()
        .map(|(kind, (count, first))| match count {
            1 => format!("`{}`", first.escape_debug()),
            _ => format!("{count} `{kind}` files (first: `{}`)", first.escape_debug()),
        })
        .collect();
    let note = (count > 0).then(|| {
        let files = plural(count, "file");
        let are_no_samples = if count == 1 { "is not a sample" } else { "are not samples" };
        let note = Note::new(format!("ignored {files} that {are_no_samples}: {}", names.join(", ")));
        if !has_labels && TABLES.iter().any(|table| kinds.contains_key(&format!(".{table}"))) {
            let hint = Hint::new("pass ").and([Setting::any("labels", "FILE")]);
            return note.with_hint(hint.then(" to read labels from a table"));
        }
        note
    });
    (count, note)
}

/// Returns the size and modification time of a sample's data file, usually from the listing.
pub(crate) fn look(tree: &Tree, path: &Path) -> Result<SideFile, Flaw> {
    let key = path.strip_prefix(&tree.root).ok().and_then(|key| key.to_str());
    let place = key.and_then(|key| tree.files.binary_search_by(|file| file.key.as_str().cmp(key)).ok());
    if let Some(file) = place.and_then(|place| tree.files.get(place)) {
        return Ok(SideFile { path: path.to_owned(), bytes: file.bytes, mtime_ns: file.mtime_ns });
    }
    if !tree.single {
        // The file was refused, for example because it is a link out of the source.
        return Err(Flaw::new(
            BadKind::Link,
            format!(
                "the data file `{}` of this header cannot be used: it is not a regular file within the source",
                visible_path(path)
            ),
        ));
    }
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Flaw::new(
            BadKind::Special,
            format!("the data file `{}` of this header is not a regular file", visible_path(path)),
        ));
    }
    Ok(SideFile { bytes: metadata.len(), mtime_ns: mtime_ns(&metadata)?, path: path.to_owned() })
}
