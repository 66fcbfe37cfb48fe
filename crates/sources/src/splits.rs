//! Lists the splits of a source. Splits are its first-level folders, such as `train` and `val`.
//! They are listed together, but each is packed into a separate dataset.
//!
//! All splits have the same classes with the same numbers, the same columns from the label table, and the same
//! kind of samples. The keys of a split are paths below its own folder.

use crate::bad::BadInput;
use crate::classes::{self, Classes};
use crate::enumerate::enumerate_tree;
use crate::error::{Result, SourceError};
use crate::label_notes::{Folders, is_split};
use crate::listing::{LabelsFrom, Listing};
use crate::options::SourceOptions;
use crate::words::{list, verb};
use shardpack_format::{Hint, Note, Setting};
use std::collections::BTreeSet;
use std::path::Path;

const NAMED: usize = 8;

/// The splits of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Splits {
    /// Samples of all splits, with keys that start with the name of the split. Labels from folders are only in
    /// `splits`, because some splits may have none.
    pub whole: Listing,
    /// Splits, sorted by name. Never empty.
    pub splits: Vec<Split>,
    /// Files outside all splits that cannot be packed. Empty unless the policy is to skip them.
    pub bad: Vec<BadInput>,
    /// Notes for the user about all splits together.
    pub notes: Vec<Note>,
}

/// A split and its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Name of the split's folder.
    pub name: String,
    /// Listing of the folder, as from [`enumerate`](crate::enumerate()), but with the classes of all splits.
    pub listing: Listing,
}

/// Lists the splits of `src`: its first-level folders that contain samples.
///
/// ```
/// use shardpack_sources::{SourceOptions, splits};
/// let folder = tempfile::tempdir()?;
/// let picture = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0";
/// for split in ["train", "val"] {
///     std::fs::create_dir_all(folder.path().join(split).join("cat"))?;
///     let bytes: Vec<u8> = picture.iter().copied().chain([0; 28]).collect();
///     std::fs::write(folder.path().join(split).join("cat/1.bmp"), bytes)?;
/// }
/// let found = splits::enumerate(folder.path(), &SourceOptions::default())?;
/// let names: Vec<_> = found.splits.iter().map(|split| split.name.as_str()).collect();
/// assert_eq!(names, ["train", "val"]);
/// assert_eq!(found.splits[0].listing.samples[0].key, "cat/1.bmp");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Same as [`enumerate`](crate::enumerate()). A sample outside these folders is bad input.
pub fn enumerate(src: &Path, options: &SourceOptions) -> Result<Splits> {
    let is_folder = || std::fs::canonicalize(src).map(|real| real.is_dir());
    if !options.files.has(src) && !is_folder().map_err(SourceError::io("open", src))? {
        let problem = "expected a folder with a subfolder for each split, found a file";
        return Err(SourceError::NotASource { path: src.to_owned(), problem });
    }
    let (mut whole, folders) = enumerate_tree(src, &SourceOptions { splits: true, ..options.clone() })?;
    let mut names: Vec<&str> = whole.samples.iter().filter_map(|sample| Some(split_of(&sample.key)?.0)).collect();
    names.dedup();
    names.sort_unstable();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let bad = std::mem::take(&mut whole.bad);
    let mut notes = of_names(&names, &folders.first, &bad);
    notes.append(&mut whole.notes);

    let mut splits = names.into_iter().map(|name| cut_out(&whole, name, &bad)).collect::<Vec<_>>();
    let in_a_split = |key: &str| splits.iter().any(|split| split_of(key).is_some_and(|(name, _)| name == split.name));
    let bad = bad.into_iter().filter(|bad| !in_a_split(&bad.key)).collect();
    if whole.labels_from == LabelsFrom::Nothing && folders.by_folder {
        notes.extend(label(&mut splits, &folders.second));
    }
    for split in &mut splits {
        let told = of_folders(split, options.class_folders.is_some());
        notes.extend(told.into_iter().map(|note| note.about(&split.name)));
    }
    Ok(Splits { whole, splits, bad, notes })
}

fn split_of(key: &str) -> Option<(&str, &str)> {
    key.split_once('/')
}

fn of_names(names: &[String], folders: &[String], bad: &[BadInput]) -> Vec<Note> {
    let mut notes = Vec::new();
    let of_bad: BTreeSet<&str> = bad.iter().filter_map(|bad| Some(split_of(&bad.key)?.0)).collect();
    let others = folders.iter().filter(|name| !names.contains(name)).map(String::as_str);
    let (refused, others): (Vec<&str>, Vec<&str>) = others.partition(|name| of_bad.contains(name));
    if !refused.is_empty() {
        let count = refused.len() as u64;
        let (is, its) = (verb(count, "is", "are"), verb(count, "its", "their"));
        let named = list(refused.iter().copied(), NAMED);
        notes.push(Note::new(format!("{named} {is} not packed, because none of {its} files can be packed")));
    }
    if !others.is_empty() {
        let is = verb(others.len() as u64, "is", "are");
        let others = list(others.iter().copied(), NAMED);
        notes.push(Note::new(format!("{others} {is} not packed: no samples were found there")));
    }
    if !names.iter().any(|name| is_split(name)) {
        let names = list(names.iter().map(String::as_str), NAMED);
        let note = format!("each folder is packed into a separate dataset, but none is named like a split: {names}");
        let hint = Hint::new("omit ").and([Setting::named("splits")]);
        notes.push(
            Note::new(note).with_hint(hint.then(" to pack these folders as classes, or as parts of one dataset")),
        );
    }
    notes
}

fn cut_out(whole: &Listing, name: String, bad: &[BadInput]) -> Split {
    let own = |key: &str| split_of(key).filter(|(split, _)| *split == name).map(|(_, key)| key.to_owned());
    let positions: Vec<usize> =
        whole.samples.iter().enumerate().filter(|(_, sample)| own(&sample.key).is_some()).map(|(i, _)| i).collect();
    let mut listing = whole.subset(&positions);
    listing.root.push(&name);
    for sample in &mut listing.samples {
        sample.key = own(&sample.key).unwrap_or_default();
    }
    let bad = bad.iter().filter_map(|bad| Some(BadInput { key: own(&bad.key)?, ..bad.clone() }));
    listing.bad = bad.collect();
    Split { name, listing }
}

/// Labels each split in which all samples are in folders. The classes are the folders of these splits.
/// `folders` contains all second-level folders.
fn label(splits: &mut [Split], folders: &[String]) -> Vec<Note> {
    let in_folders = |split: &Split| split.listing.samples.iter().all(|sample| sample.key.contains('/'));
    let labelled: BTreeSet<String> = splits.iter().filter(|split| in_folders(split)).map(|s| s.name.clone()).collect();
    let folders = folders.iter().filter_map(|folder| split_of(folder));
    let names: BTreeSet<&str> = folders.filter(|(split, _)| labelled.contains(*split)).map(|(_, name)| name).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let mut notes = Vec::new();
    let keys = |split: &Split| split.listing.samples.iter().map(|sample| sample.key.clone()).collect::<Vec<_>>();
    let mut unused: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    for split in splits.iter_mut() {
        let keys = keys(split);
        // The note on empty folders is about this split only.
        let (found, told) = classes::by_folder(&names, keys.iter().map(String::as_str));
        let Some(Classes { names: classes, labels }) = found else {
            let none = || (!labelled.is_empty()).then(|| "no labels: the samples are not in class folders".to_owned());
            notes.extend(told.or_else(none).map(|why| Note::new(why).about(&split.name)));
            continue;
        };
        keys.iter().filter_map(|key| split_of(key)).for_each(|(folder, _)| _ = unused.remove(folder));
        split.listing.samples.iter_mut().zip(labels).for_each(|(sample, label)| sample.class = Some(label));
        split.listing.classes = classes;
        split.listing.labels_from = LabelsFrom::Folders;
    }
    if !unused.is_empty() {
        let what = verb(unused.len() as u64, "class has", "classes have");
        let note = format!("{} {what} no samples in any split: {}", unused.len(), list(unused, NAMED));
        notes.push(note.into());
    }
    notes
}

fn of_folders(split: &Split, chosen: bool) -> Vec<Note> {
    let listing = &split.listing;
    let keys: Vec<&str> = listing.samples.iter().map(|sample| sample.key.as_str()).collect();
    let names: BTreeSet<&str> = keys.iter().filter_map(|key| Some(split_of(key)?.0)).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let src = format!("SRC/{}", split.name.escape_debug());
    let folders =
        Folders { kind: listing.kind, names: &names, keys: &keys, labels: &listing.labels_from, chosen, src: &src };
    folders.notes()
}

#[cfg(test)]
#[path = "splits_tests.rs"]
mod tests;
