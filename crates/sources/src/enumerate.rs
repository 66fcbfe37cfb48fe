//! Finds the samples below a path, with their labels and masks.

use crate::bad::{BadInput, BadInputs, BadKind, Flaw, OnBadInput};
use crate::cancel::Cancel;
use crate::classes::{self, Classes};
use crate::columns::TableColumn;
use crate::content::SourceKind;
use crate::cubes::{CubeOptions, CubeRun};
use crate::error::{Result, SourceError};
use crate::files::listed::{SideFile, SourceFile};
use crate::listing::{LabelsFrom, Listing, SourceSample};
use crate::masks::{self, Masks};
use crate::options::{LabelColumn, SourceOptions};
use crate::recognise::{self, KindCounts, Recognised, examine, wrong_kind};
use crate::tree::Tree;
use crate::tree::walk::{Follow, walk};
use crate::unpacked::Unpacked;
use crate::{clips, label_notes, labels, listing_file, notes, side_files, strays, truth};
use rayon::prelude::*;
use shardpack_format::{Hint, Note};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Number of files in a store that are announced together before any of them is examined.
const LOOKED_AT_TOGETHER: usize = 256;

/// Lists the samples of `src`.
///
/// ```
/// use shardpack_sources::{SourceError, SourceOptions, enumerate};
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("notes.txt"), "hello")?;
/// let error = enumerate(folder.path(), &SourceOptions::default()).unwrap_err();
/// assert!(matches!(error, SourceError::BadInputs(bad) if bad.list[0].key == "notes.txt"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `Io` if the source, the table or the folder of masks cannot be read; `NotASource` if the path cannot be a
/// source; `Mixed` if there are pictures and cubes and no kind is given; `BadInputs` with the complete list if
/// the policy is to stop; `Empty` if no samples are left; `Labels` if the table is invalid; `Listing` if the
/// listing file does not match this source and these options; `Cancelled` if the cancellation flag is set.
pub fn enumerate(src: &Path, options: &SourceOptions) -> Result<Listing> {
    if let Some(file) = &options.listing {
        return listing_file::read(file, src, options);
    }
    Ok(enumerate_tree(src, options)?.0)
}

/// Folders of the first two levels, sorted. Second-level folders include the name of their parent.
pub(crate) struct Levels {
    pub(crate) first: Vec<String>,
    pub(crate) second: Vec<String>,
    /// True if folder names become labels, unless a table has labels.
    pub(crate) by_folder: bool,
}

/// Lists `src` by scanning it, ignoring any listing file.
pub(crate) fn enumerate_tree(src: &Path, options: &SourceOptions) -> Result<(Listing, Levels)> {
    let exclude: Vec<&Path> =
        [&options.exclude, &options.labels, &options.masks].into_iter().flatten().map(PathBuf::as_path).collect();
    let cancel = Cancel::new(options.cancel.as_deref());
    let cubes =
        CubeOptions { run: CubeRun::within(options.files.clone(), options.cancel.clone()), ..options.cubes.clone() };
    let follow = if options.follow_links { Follow::Everywhere } else { Follow::Inside };
    let files = &options.files;
    let mut tree = walk(src, &exclude, files, follow, cancel)?;
    side_files::drop(&mut tree);
    let mut unpacked = Unpacked::take(&mut tree, options.masks.is_none());
    let of = (tree.files.len() + tree.bad.len()) as u64;

    let wanted = if options.clips { Some(SourceKind::Images) } else { options.kind };
    let mut found = look_at_all(&tree, wanted, &cubes, cancel)?;
    let deep = wanted.is_none() && recognise::all_deep(&found);
    if deep {
        found = look_at_all(&tree, Some(SourceKind::Cubes), &cubes, cancel)?;
    }
    // If the run was cancelled or the store failed, a reader may report a flaw that the file does not have.
    cancel.check()?;
    files.failure()?;
    let mut bad = std::mem::take(&mut tree.bad);
    let (kind, mut samples) = sort_out(src, &mut tree, found, wanted, &mut bad)?;
    if options.clips {
        samples = clips::group(&tree.root, samples, &mut bad);
    }
    let mut notes = Vec::new();
    if deep {
        notes.extend(notes::as_arrays(&samples));
    }
    notes.extend(notes::followed(&tree.followed));
    if let Some(folder) = &options.masks {
        let masks = Masks::list(folder, src, files, follow, cancel)?;
        notes.extend(masks::add(&masks, &tree, &mut samples, &mut bad, &cubes, cancel)?.map(Note::new));
        cancel.check()?;
    }
    bad.extend(unpacked.add_metas(&mut samples, files));
    if options.masks.is_none() && kind == Some(SourceKind::Cubes) {
        let beside = truth::take(&tree.root, &mut samples, &cubes);
        cancel.check()?;
        notes.extend(beside.notes);
        unpacked.add_masks(beside.masks);
    }
    if let Some(found) = unpacked.masks(&samples) {
        notes.extend(Unpacked::without_masks(&found, &samples).map(Note::new));
        let found = found.into_iter().map(|mask| mask.map(Ok)).collect();
        masks::give(found, &mut samples, &mut bad, &cubes, cancel)?;
        cancel.check()?;
    }
    files.failure()?;
    if options.splits {
        strays::refuse_outside_splits(&mut samples, &mut bad);
    }
    // 16-bit PNGs in class folders count as pictures too.
    let by_folder = options.class_folders.unwrap_or(kind == Some(SourceKind::Images) || deep);
    if by_folder && options.labels.is_none() && !options.splits && !options.clips {
        strays::refuse_outside_classes(&mut samples, &mut bad, options.class_folders.is_some());
    }
    notes.extend(notes::on(&samples));
    notes.extend(notes::hidden(&tree.hidden));

    bad.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    // If there are no other samples, report these files as samples that cannot be packed.
    if !samples.is_empty() {
        let (passed, note) = side_files::pass_over(&mut bad, options.labels.is_some());
        tree.ignored += passed;
        notes.extend(note);
    }
    if !bad.is_empty() && options.on_bad_input == OnBadInput::Stop {
        return Err(SourceError::BadInputs(BadInputs { list: bad, of }));
    }
    let Some(kind) = kind.filter(|_| !samples.is_empty()) else {
        let first_bad = bad.first().map(ToString::to_string);
        return Err(SourceError::Empty {
            src: src.to_owned(),
            files: of,
            bad: bad.len() as u64,
            ignored: tree.ignored,
            first_bad,
        });
    };

    let left_out = bad.iter().map(|bad| bad.key.as_str()).collect();
    let (classes, columns, labels_from) =
        find_labels(options, kind, by_folder, &tree, &samples, &left_out, &mut notes)?;
    let names = classes.map_or_else(Vec::new, |Classes { names, labels }| {
        samples.iter_mut().zip(labels).for_each(|(sample, label)| sample.class = Some(label));
        names
    });
    let Tree { root, ignored, folders: first, inner: second, .. } = tree;
    let files = files.clone();
    let listing = Listing { root, files, kind, samples, classes: names, columns, labels_from, bad, ignored, notes };
    Ok((listing, Levels { first, second, by_folder }))
}

/// Examines all files on the caller's rayon pool while the store fetches the next files.
fn look_at_all(
    tree: &Tree,
    wanted: Option<SourceKind>,
    cubes: &CubeOptions,
    cancel: Cancel<'_>,
) -> Result<Vec<Recognised>> {
    let files = cubes.run.files();
    let path = |file: &SourceFile| tree.root.join(&file.key);
    let look = |file: &SourceFile| {
        cancel.check()?;
        let found = examine(&path(file), file, wanted, cubes);
        files.release(&path(file));
        Ok(found)
    };
    if !files.has(&tree.root) {
        return tree.files.par_iter().with_min_len(16).map(look).collect();
    }
    let mut found = Vec::with_capacity(tree.files.len());
    let announce = |window: &[SourceFile]| window.iter().for_each(|file| files.announce_look(&path(file), file.bytes));
    let mut windows = tree.files.chunks(LOOKED_AT_TOGETHER).peekable();
    windows.peek().into_iter().for_each(|window| announce(window));
    while let Some(window) = windows.next() {
        windows.peek().into_iter().for_each(|window| announce(window));
        found.extend(window.par_iter().with_max_len(1).map(look).collect::<Result<Vec<_>>>()?);
    }
    Ok(found)
}

fn sort_out(
    src: &Path,
    tree: &mut Tree,
    found: Vec<Recognised>,
    wanted: Option<SourceKind>,
    bad: &mut Vec<BadInput>,
) -> Result<(Option<SourceKind>, Vec<SourceSample>)> {
    // A header claims its data file by path, even if the header itself cannot be read.
    let claimed: HashSet<&Path> = found
        .iter()
        .filter_map(|found| match found {
            Recognised::Sample(_, data) | Recognised::Bad(_, data) => data.as_deref(),
            Recognised::Unknown(_) => None,
        })
        .filter_map(|data| data.strip_prefix(&tree.root).ok())
        .collect();
    let is_claimed = |file: &SourceFile| claimed.contains(Path::new(&file.key));

    let mut tally = KindCounts::default();
    for (file, found) in tree.files.iter().zip(&found) {
        if let Recognised::Sample(content, _) = found
            && !is_claimed(file)
        {
            tally.count(&file.key, content.kind());
        }
    }
    let kind = tally.decide(wanted, src)?;

    // Look up the claims first, because the keys are moved below.
    let claims: Vec<bool> = tree.files.iter().map(is_claimed).collect();
    let mut data_files: HashMap<usize, Result<SideFile, Flaw>> = HashMap::new();
    for (i, found) in found.iter().enumerate() {
        if let Recognised::Sample(_, Some(path)) = found {
            data_files.insert(i, side_files::look(tree, path));
        }
    }
    let mut samples = Vec::new();
    for (i, ((file, found), claimed)) in std::mem::take(&mut tree.files).into_iter().zip(found).zip(claims).enumerate()
    {
        if claimed {
            continue;
        }
        let flaw = match found {
            Recognised::Sample(content, _) if Some(content.kind()) == kind => {
                // Keys can only be checked now, because a data file's name is not a key.
                match check_key(&file.key).and_then(|()| data_files.remove(&i).transpose()) {
                    Ok(data) => {
                        samples.push(SourceSample::new(file, content, data));
                        continue;
                    }
                    Err(flaw) => flaw,
                }
            }
            Recognised::Sample(content, _) => wrong_kind(&content),
            Recognised::Unknown(flaw) | Recognised::Bad(flaw, _) => flaw,
        };
        bad.push(flaw.of(file.key));
    }
    Ok((kind, samples))
}

fn check_key(key: &str) -> Result<(), Flaw> {
    shardpack_format::check_key(key).map_err(|error| {
        let why = match error {
            shardpack_format::Error::Format { expected, .. } => expected,
            other => other.to_string(),
        };
        Flaw::new(BadKind::Name, format!("the path cannot be used as a sample key: expected {why}"))
            .with_hint(Hint::from("rename the file, or its folder"))
    })
}

fn find_labels(
    options: &SourceOptions,
    kind: SourceKind,
    by_folder: bool,
    tree: &Tree,
    samples: &[SourceSample],
    left_out: &HashSet<&str>,
    notes: &mut Vec<Note>,
) -> Result<(Option<Classes>, Vec<TableColumn>, LabelsFrom)> {
    let mut columns = Vec::new();
    let mut found = None;
    if let Some(file) = &options.labels {
        let keys: Vec<_> = samples.iter().map(|sample| sample.key.as_str()).collect();
        let cancel = Cancel::new(options.cancel.as_deref());
        let mut table = labels::read(file, options, &keys, left_out, cancel)?;
        // Class folders take precedence over a column with an unusual name. With splits, the folders are
        // checked for each split.
        let depth = 1 + usize::from(options.splits);
        let by_folder = by_folder && keys.iter().any(|key| key.matches('/').count() >= depth);
        let guesses = options.label_column == LabelColumn::Guessed && !by_folder;
        if table.label_column.is_none() && guesses {
            notes.extend(table.guess());
        }
        if let Some(column) = table.label_column {
            found = Some((table.classes, LabelsFrom::Column { table: file.clone(), column }));
        }
        columns = table.columns;
    }
    if options.splits {
        let (classes, from) = found.map_or((None, LabelsFrom::Nothing), |(classes, from)| (classes, from));
        return Ok((classes, columns, from));
    }
    let (classes, from) = match found {
        Some(found) => found,
        None if by_folder => {
            let keys = samples.iter().map(|sample| sample.key.as_str());
            let (classes, note) = classes::by_folder(&tree.folders, keys);
            notes.extend(note.map(Note::new));
            let from = if classes.is_some() { LabelsFrom::Folders } else { LabelsFrom::Nothing };
            (classes, from)
        }
        None => (None, LabelsFrom::Nothing),
    };
    let keys: Vec<_> = samples.iter().map(|sample| sample.key.as_str()).collect();
    let mut folders = tree.folders.clone();
    if from != LabelsFrom::Folders {
        // If folders are not classes, folders without samples get no notes.
        let used: HashSet<&str> = keys.iter().filter_map(|key| Some(key.split_once('/')?.0)).collect();
        folders.retain(|folder| used.contains(folder.as_str()));
    }
    let chosen = options.class_folders.is_some();
    notes
        .extend(label_notes::Folders { kind, names: &folders, keys: &keys, labels: &from, chosen, src: "SRC" }.notes());
    Ok((classes, columns, from))
}
