//! Derives classes from folder names or from a text column.

use crate::columns::Texts;
use crate::words::{list, plural, verb};
use shardpack_format::bug;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Classes {
    /// Class names sorted by bytes. The position of a name is its label.
    pub(crate) names: Vec<String>,
    /// One label per sample.
    pub(crate) labels: Vec<u32>,
}

/// Returns the first-level folder of a key, if any.
pub(crate) fn folder(key: &str) -> Option<&str> {
    key.split_once('/').map(|(folder, _)| folder)
}

/// If every sample is in a first-level folder, returns these folders as classes, with notes for the user.
///
/// `folders` lists all first-level folders in sorted order. A folder without samples still gets a label, as in
/// torchvision, so that subsets use the same labels.
pub(crate) fn by_folder<'a>(
    folders: &[String],
    keys: impl Iterator<Item = &'a str> + Clone,
) -> (Option<Classes>, Option<String>) {
    let (inside, at_top) = keys.clone().fold((0u64, 0u64), |(inside, at_top), key| match folder(key) {
        Some(_) => (inside + 1, at_top),
        None => (inside, at_top + 1),
    });
    if inside == 0 {
        return (None, None);
    }
    if at_top > 0 {
        let (samples, are) = (plural(inside, "sample"), verb(inside, "is", "are"));
        let not = verb(at_top, "is", "are");
        let note = format!("folder names are not used as labels: {samples} {are} in folders, but {at_top} {not} not");
        return (None, Some(note));
    }
    let mut counts = vec![0u64; folders.len()];
    let mut labels = Vec::new();
    for key in keys {
        // `folders` must contain the folder of every key.
        let place = folder(key).and_then(|folder| folders.binary_search_by(|name| name.as_str().cmp(folder)).ok());
        let counted = place.and_then(|place| Some((u32::try_from(place).ok()?, counts.get_mut(place)?)));
        let (label, count) = counted.unwrap_or_else(|| bug("the folder of each key was listed"));
        *count += 1;
        labels.push(label);
    }
    let empty = || folders.iter().zip(&counts).filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str());
    let count = empty().count() as u64;
    let note = (count > 0).then(|| {
        let all = plural(folders.len() as u64, "class folder");
        let what =
            verb(count, "has no samples, but still counts as a class", "have no samples, but still count as classes");
        format!("{count} of {all} {what}: {}", list(empty(), 10))
    });
    (Some(Classes { names: folders.to_vec(), labels }), note)
}

pub(crate) fn by_text(texts: &Texts) -> Classes {
    let mut places: BTreeMap<&str, u32> = texts.iter().map(|text| (text, 0)).collect();
    for (label, place) in (0..).zip(places.values_mut()) {
        *place = label;
    }
    let label = |text| places.get(text).copied().unwrap_or_else(|| bug("each text is a class"));
    let labels = texts.iter().map(label).collect();
    Classes { names: places.into_keys().map(str::to_owned).collect(), labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(folders: &[&str], keys: &[&str]) -> (Option<Classes>, Option<String>) {
        let folders: Vec<_> = folders.iter().map(ToString::to_string).collect();
        by_folder(&folders, keys.iter().copied())
    }

    #[test]
    fn first_folder_is_the_class() {
        let (found, note) = classes(&["B", "a"], &["B/1", "a/deep/er/1", "a/2"]);
        assert_eq!(found, Some(Classes { names: vec!["B".into(), "a".into()], labels: vec![0, 1, 1] }));
        assert_eq!(note, None);
    }

    #[test]
    fn flat_folders_have_no_classes() {
        assert_eq!(classes(&[], &["1", "2"]), (None, None));
        assert_eq!(classes(&["empty"], &["1", "2"]), (None, None));
    }

    #[test]
    fn samples_at_the_top_get_a_note() {
        let (found, note) = classes(&["a"], &["1", "a/2", "a/3"]);
        assert_eq!(found, None);
        assert_eq!(note.unwrap(), "folder names are not used as labels: 2 samples are in folders, but 1 is not");
        let (_, note) = classes(&["a"], &["1", "2", "a/3"]);
        assert_eq!(note.unwrap(), "folder names are not used as labels: 1 sample is in folders, but 2 are not");
    }

    #[test]
    fn empty_folders_keep_their_labels() {
        let (found, note) = classes(&["a", "b", "c"], &["a/1", "c/1"]);
        assert_eq!(found.unwrap().labels, [0, 2]);
        let (_, two) = classes(&["a", "b", "c"], &["b/1"]);
        assert_eq!(two.unwrap(), "2 of 3 class folders have no samples, but still count as classes: `a`, `c`");
        assert_eq!(note.unwrap(), "1 of 3 class folders has no samples, but still counts as a class: `b`");
    }

    #[test]
    fn texts_become_sorted_classes() {
        let texts: Texts = ["dog", "cat", "dog", "Eel"].into_iter().collect();
        assert_eq!(
            by_text(&texts),
            Classes { names: vec!["Eel".into(), "cat".into(), "dog".into()], labels: vec![2, 1, 2, 0] }
        );
    }
}
