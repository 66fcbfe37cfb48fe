//! Writes `labels.jsonl`, with one line per sample, in the format of `pack --labels`.

use super::work::Tally;
use crate::cli::show;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use shardpack_format::{Error as FormatError, FieldKind};
use shardpack_pack::Context;
use shardpack_pack::export::{OutFolder, Pending, Placed};
use shardpack_reader::{Dataset, RecordView, Scalar};
use shardpack_recipe::DatasetRecipe;
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Returns the name of the table: `labels.jsonl`, or the first of `labels-1.jsonl`, … that is not also a folder
/// of samples.
pub(super) fn name<'k>(keys: impl Iterator<Item = &'k str>) -> String {
    // Compare in lower case, because some file systems ignore case.
    let folders = keys.filter_map(|key| key.split_once('/')).map(|(folder, _)| folder.to_ascii_lowercase());
    let folders: HashSet<String> = folders.filter(|folder| folder.starts_with("labels")).collect();
    let more = (1u64..).map(|number| format!("labels-{number}.jsonl"));
    let mut names = std::iter::once("labels.jsonl".to_owned()).chain(more);
    names.find(|name| !folders.contains(name)).unwrap_or_default()
}

/// Returns the columns of the label table used in packing, or `None` if there was none.
pub(super) fn columns(dataset: &Dataset) -> Option<Vec<String>> {
    DatasetRecipe::read(dataset.recipe()).labels().map(|labels| labels.columns.clone())
}

/// The label table. Samples are added in stored order. An unreadable sample has neither a line nor files.
pub(super) struct LabelTable<'a> {
    dataset: &'a Dataset,
    columns: &'a [String],
    path: PathBuf,
    out: BufWriter<Pending>,
    bytes: u64,
    /// Indexes of the samples with an unreadable column, with the errors.
    damaged: Vec<(u64, crate::Error)>,
}

impl<'a> LabelTable<'a> {
    pub(super) fn create(
        dataset: &'a Dataset,
        columns: &'a [String],
        folder: &OutFolder,
        path: PathBuf,
    ) -> crate::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let out = folder.begin(name).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self { dataset, columns, path, out: BufWriter::new(out), bytes: 0, damaged: Vec::new() })
    }

    pub(super) fn add(&mut self, view: &RecordView<'_>) -> crate::Result<()> {
        let row = match row(self.dataset, self.columns, view) {
            Ok(row) => row,
            Err(error) if show::is_about_data(&error) => {
                self.damaged.push((view.index(), error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut line = serde_json::to_vec(&LabelRow(row))?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        self.out.write_all(&line).with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    /// Gives the table its final name. A table that is dropped before that leaves no file.
    pub(super) fn finish(self, tally: &mut Tally) -> crate::Result<()> {
        let Self { path, out, bytes, damaged, .. } = self;
        damaged.into_iter().for_each(|(index, error)| tally.add_damage(index, error));
        let placed = out.into_inner().map_err(|e| e.into_error()).and_then(Pending::commit);
        match placed.with_context(|| format!("cannot write `{}`", path.display()))? {
            Placed::New => {
                tally.files += 1;
                tally.bytes += bytes;
            }
            Placed::AlreadyThere => tally.already_there += 1,
            Placed::Occupied => tally.occupied.push(path.display().to_string()),
        }
        Ok(())
    }
}

/// Returns a scalar in the form that `pack --labels` reads. NaN and infinity become strings, because JSON lacks them.
fn scalar(value: Scalar) -> Value {
    match value {
        Scalar::Float(v) if v.is_nan() => json!("NaN"),
        Scalar::Float(v) if v.is_infinite() => json!(if v > 0.0 { "Infinity" } else { "-Infinity" }),
        other => show::scalar(other),
    }
}

struct LabelRow(Vec<(String, Box<RawValue>)>);

impl Serialize for LabelRow {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn row(dataset: &Dataset, columns: &[String], view: &RecordView<'_>) -> crate::Result<Vec<(String, Box<RawValue>)>> {
    let mut row = vec![("key".to_owned(), to_raw_value(view.key())?)];
    for name in columns {
        let value = if view.schema().scalar_position(name).is_some() {
            let value = view.scalar(name)?;
            let class = dataset.classes().filter(|_| name == "label").zip(value.as_i64());
            let class = class.and_then(|(classes, id)| classes.get(usize::try_from(id).ok()?));
            to_raw_value(&class.map_or_else(|| scalar(value), |name| json!(name)))?
        } else {
            match view.field(name)? {
                Some(_) if is_json(view, name) => as_it_stands(name, view.text(name)?)?,
                Some(_) => to_raw_value(&view.text(name)?)?,
                None => to_raw_value(&Value::Null)?,
            }
        };
        row.push((name.clone(), value));
    }
    Ok(row)
}

fn is_json(view: &RecordView<'_>, name: &str) -> bool {
    view.schema().stored().any(|field| field.name == name && field.kind == FieldKind::Json)
}

/// Returns JSON text on one line, with its numbers unchanged. JSON strings cannot contain line breaks, so
/// replacing them changes no value.
fn as_it_stands(name: &str, text: String) -> crate::Result<Box<RawValue>> {
    let text = text.replace(['\n', '\r'], " ");
    let damaged = |error| FormatError::malformed(format!("field `{name}` is not valid JSON: {error}"));
    RawValue::from_string(text).map_err(|error| damaged(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_sources::{ColumnValues, SourceOptions, enumerate};

    #[test]
    fn the_table_gives_way_to_folders() {
        let name = |keys: &[&'static str]| name(keys.iter().copied());
        assert_eq!(name(&["labels.jsonl", "a/labels.jsonl/b", "labels.json"]), "labels.jsonl");
        assert_eq!(name(&["labels.jsonl/b.jpg"]), "labels-1.jsonl");
        assert_eq!(name(&["Labels.JSONL/a", "labels-1.jsonl/b", "labels-3.jsonl/c"]), "labels-2.jsonl");
    }

    #[test]
    fn every_float_comes_back() {
        let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1, f64::MAX];
        let root = tempfile::tempdir().unwrap();
        let samples = root.path().join("samples");
        std::fs::create_dir(&samples).unwrap();
        let mut lines = String::new();
        for (i, float) in floats.iter().enumerate() {
            let mut npy = b"\x93NUMPY\x01\0\x76\0{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1), }".to_vec();
            npy.resize(127, b' ');
            npy.extend(b"\n\x01");
            std::fs::write(samples.join(format!("{i}.npy")), npy).unwrap();
            let row = json!({ "key": format!("{i}.npy"), "x": scalar(Scalar::Float(*float)) });
            lines += &format!("{row}\n");
        }
        let table = root.path().join("labels.jsonl");
        std::fs::write(&table, lines).unwrap();
        let listing = enumerate(&samples, &SourceOptions { labels: Some(table), ..Default::default() }).unwrap();
        let ColumnValues::Float(found) = &listing.columns[0].values else { panic!("{:?}", listing.columns) };
        assert_eq!(found.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), floats.map(f64::to_bits));
    }
}
