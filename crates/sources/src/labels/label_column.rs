//! Finds the column of a table that contains the labels.

use super::{LISTED_COLUMNS, Labels, TableRows, list, short};
use crate::classes;
use crate::columns::{ColumnValues, TableColumn, Texts};
use crate::error::Result;
use crate::options::LabelColumn;
use shardpack_format::{Hint, Note, Setting};
use std::collections::HashSet;

/// Name of the preferred label column.
const LABEL: &str = "label";

pub(super) fn find(mut columns: Vec<TableColumn>, wanted: &LabelColumn, rows: &TableRows<'_>) -> Result<Labels> {
    let position = |name: &str| columns.iter().position(|column| column.name == name);
    let is_text =
        |place: &usize| matches!(columns.get(*place), Some(TableColumn { values: ColumnValues::Text(_), .. }));
    let (place, stays) = match wanted {
        LabelColumn::Guessed | LabelColumn::Usual => {
            (position(LABEL).or_else(|| position("class").filter(is_text)), false)
        }
        LabelColumn::Named(name) | LabelColumn::AlsoField(name) => {
            let missing = || {
                let found = list(columns.iter().map(|column| column.name.as_str()), LISTED_COLUMNS);
                let message =
                    format!("the table has no column `{}` for the labels; its columns are {found}", short(name));
                let hint =
                    Hint::new("pass ").and([Setting::any("label_column", "NAME")]).then(" to select another column");
                rows.error(Some(1), message, hint)
            };
            (Some(position(name).ok_or_else(missing)?), matches!(wanted, LabelColumn::AlsoField(_)))
        }
    };
    let Some((place, column)) = place.and_then(|place| Some((place, columns.get_mut(place)?))) else {
        return Ok(Labels { columns, classes: None, label_column: None });
    };
    let name = column.name.clone();
    let found = match &column.values {
        ColumnValues::Text(texts) => {
            rows.refuse_no_class(&name, texts)?;
            Some(classes::by_text(texts))
        }
        _ => {
            column.name = LABEL.to_owned();
            None
        }
    };
    if found.is_some() && !stays {
        columns.remove(place);
    }
    if name != LABEL && columns.iter().filter(|column| column.name == LABEL).count() > usize::from(found.is_none()) {
        let message = format!("the labels come from the column `{}`, but there is also a column `label`", short(&name));
        return Err(rows.error(Some(1), message, "rename one of the two columns"));
    }
    Ok(Labels { columns, classes: found, label_column: Some(name) })
}

impl Labels {
    /// Uses the only text column as classes if its values repeat often enough. The column is also kept as a
    /// field. Returns a note for the user.
    pub(crate) fn guess(&mut self) -> Option<Note> {
        let mut of_text = self.columns.iter().filter_map(|column| match &column.values {
            ColumnValues::Text(texts) if !is_no_label(&column.name) => Some((&column.name, texts)),
            _ => None,
        });
        let first = of_text.next();
        let others: Vec<&str> = of_text.map(|(name, _)| name.as_str()).collect();
        let which = Hint::new("pass ").and([Setting::any("label_column", "NAME")]).then(" to select the label column");
        match first {
            Some((name, texts)) if others.is_empty() && repeats(texts) => {
                let (name, classes) = (name.clone(), classes::by_text(texts));
                let note = format!(
                    "the labels come from the column `{}`, the only text column, which has {} different values and is \
                     also stored as a field",
                    short(&name),
                    classes.names.len()
                );
                (self.classes, self.label_column) = (Some(classes), Some(name));
                Some(Note::new(note).with_hint(which))
            }
            _ if !self.columns.iter().any(may_be_classes) => None,
            _ => {
                let columns = list(self.columns.iter().map(|column| column.name.as_str()), LISTED_COLUMNS);
                let note = format!("no labels: the table has no column `label` or `class`; its columns are {columns}");
                Some(Note::new(note).with_hint(which))
            }
        }
    }
}

/// Maximum number of samples for which text can be classes even if no value repeats. In larger tables, such
/// text is captions or names.
const FEW: usize = 20;

/// Columns with repeated text that does not describe the content of a sample.
const NO_LABELS: [&str; 7] = ["split", "subset", "set", "fold", "partition", "licence", "license"];

fn is_no_label(name: &str) -> bool {
    NO_LABELS.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
}

fn may_be_classes(column: &TableColumn) -> bool {
    !is_no_label(&column.name)
        && matches!(&column.values, ColumnValues::Text(texts) if texts.len() <= FEW || repeats(texts))
}

fn repeats(texts: &Texts) -> bool {
    let different: HashSet<&str> = texts.iter().map(str::trim).collect();
    !different.contains("") && different.len() < texts.len() && different.len() <= texts.len().div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Jpeg, put, said, told};
    use crate::{LabelsFrom, Listing, SourceError, SourceOptions, enumerate};

    /// Lists four photos, `0.jpg` to `3.jpg`, in `folder`, with a table.
    fn list(folder: &str, table: &str, label_column: LabelColumn) -> Result<Listing, SourceError> {
        let root = tempfile::tempdir().unwrap();
        (0..4).for_each(|n| put(root.path(), &format!("src/{folder}{n}.jpg"), Jpeg::default().bytes()));
        put(root.path(), "labels.csv", table);
        let labels = Some(root.path().join("labels.csv"));
        enumerate(&root.path().join("src"), &SourceOptions { labels, label_column, ..SourceOptions::default() })
    }

    fn columns(listing: &Listing) -> Vec<&str> {
        listing.columns.iter().map(|column| column.name.as_str()).collect()
    }

    const SPECIES: &str = "filename,species,n\n0.jpg,owl,1\n1.jpg,fox,2\n2.jpg,owl,1\n3.jpg,fox,2\n";

    #[test]
    fn the_only_text_that_repeats_is_guessed_and_stays_a_field() {
        let listing = list("", SPECIES, LabelColumn::Guessed).unwrap();
        assert_eq!(listing.classes, ["fox", "owl"]);
        assert_eq!(listing.samples.iter().map(|sample| sample.class.unwrap()).collect::<Vec<_>>(), [1, 0, 1, 0]);
        assert!(matches!(&listing.labels_from, LabelsFrom::Column { column, .. } if column == "species"));
        assert_eq!(columns(&listing), ["species", "n"]);
        let note = "the labels come from the column `species`, the only text column, which has 2 different values \
                    and is also stored as a field\nhint: pass `--label-column NAME` to select the label column";
        assert_eq!(told(&listing), [note]);
        // Class folders take precedence over a guessed column.
        let in_folder = SPECIES.replace(".jpg", "").replace("\n", "\na/").trim_end_matches("a/").to_owned();
        let listing = list("a/", &in_folder, LabelColumn::Guessed).unwrap();
        assert_eq!((listing.classes.as_slice(), &listing.labels_from), (&["a".to_owned()][..], &LabelsFrom::Folders));
    }

    #[test]
    fn splits_and_licences_are_no_labels() {
        for name in ["split", "Subset", "set", "fold", "partition", "licence", "license"] {
            let alone = SPECIES.replace("species", name).replace("owl", "train").replace("fox", "val");
            let listing = list("", &alone, LabelColumn::Guessed).unwrap();
            assert!(listing.classes.is_empty() && listing.notes.is_empty(), "{name}: {:?}", listing.notes);
            assert_eq!(columns(&listing), [name, "n"]);
            // If there is a column such as `split`, the second text column is the only candidate.
            let beside = SPECIES.replace(",n\n", &format!(",{name}\n")).replace(",1\n", ",a\n").replace(",2\n", ",b\n");
            assert_eq!(list("", &beside, LabelColumn::Guessed).unwrap().classes, ["fox", "owl"], "{name}");
            let named = LabelColumn::Named(name.to_owned());
            assert_eq!(list("", &alone, named).unwrap().classes, ["train", "val"]);
        }
    }

    #[test]
    fn without_a_guess_the_note_names_the_columns() {
        let two = SPECIES.replace(",1\n", ",a\n").replace(",2\n", ",b\n");
        let note = "no labels: the table has no column `label` or `class`; its columns are `species`, \
                    `n`\nhint: pass `--label-column NAME` to select the label column";
        assert_eq!(told(&list("", &two, LabelColumn::Guessed).unwrap()), [note]);
        let usual = list("", SPECIES, LabelColumn::Usual).unwrap();
        assert!(usual.classes.is_empty() && usual.notes.is_empty());
        // Columns of numbers are not mistaken for overlooked classes.
        let numbers = "file,age\n0.jpg,1\n1.jpg,2\n2.jpg,3\n3.jpg,4\n";
        assert!(list("", numbers, LabelColumn::Guessed).unwrap().notes.is_empty());
        let captions: Texts = (0..30).map(|n| ["a", "b", "c"][n % 3]).collect();
        assert!(repeats(&captions) && !repeats(&["a", ""].into_iter().collect()));
        let all_different: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        let values = ColumnValues::Text(all_different.iter().map(String::as_str).collect());
        assert!(!may_be_classes(&TableColumn { name: "caption".into(), values }));
    }

    #[test]
    fn a_column_that_is_named_holds_the_labels() {
        let named = |name: &str| LabelColumn::Named(name.to_owned());
        let listing = list("", SPECIES, named("species")).unwrap();
        assert_eq!((listing.classes.len(), columns(&listing), listing.notes.len()), (2, vec!["n"], 0));
        // A column of numbers contains the labels themselves.
        let listing = list("", SPECIES, named("n")).unwrap();
        assert_eq!((listing.classes.len(), columns(&listing)), (0, vec!["species", "label"]));
        let listing = list("", SPECIES, LabelColumn::AlsoField("species".to_owned())).unwrap();
        assert_eq!((listing.classes.len(), columns(&listing)), (2, vec!["species", "n"]));
        let missing = said(&list("", SPECIES, named("kind")).unwrap_err());
        let text = "labels.csv`, line 1: the table has no column `kind` for the labels; its columns are `species`, \
                    `n`\nhint: pass `--label-column NAME` to select another column";
        assert!(missing.ends_with(text), "{missing}");
        let both = said(&list("", &SPECIES.replace(",n\n", ",label\n"), named("species")).unwrap_err());
        assert!(
            both.contains("the labels come from the column `species`, but there is also a column `label`"),
            "{both}"
        );
    }
}
