//! `labels.jsonl`: one line for each sample, as `pack --labels` reads it.

use super::work::Tally;
use crate::cli::show;
use crate::export::{Pending, Placed};
use anyhow::Context;
use serde_json::{Map, Value, json};
use shardpack_reader::{Dataset, RecordView};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Name of the table in the folder.
pub(super) const NAME: &str = "labels.jsonl";

/// The columns of the table that the dataset was packed with; `None` if there was none.
pub(super) fn columns(dataset: &Dataset) -> Option<Vec<String>> {
    let columns = dataset.recipe().get("labels")?.get("columns")?.as_array()?;
    Some(columns.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Writes the table. Samples that cannot be read have no line, as they have no files.
pub(super) fn write(dataset: &Dataset, columns: &[String], dir: &Path, tally: &mut Tally) -> anyhow::Result<()> {
    let path = dir.join(NAME);
    let failed = || format!("cannot write `{}`", path.display());
    let mut out = BufWriter::new(Pending::create(&path).with_context(failed)?);
    let mut bytes = 0;
    let mut stream = dataset.stream()?;
    while let Some(record) = stream.next_record() {
        // What cannot be read was listed when the files were written.
        let Ok(view) = record else { continue };
        let row = match row(dataset, columns, &view) {
            Ok(row) => row,
            Err(error) if show::is_about_data(&error) => {
                tally.add_damage(view.index(), error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        bytes += line.len() as u64;
        out.write_all(&line).with_context(failed)?;
    }
    let placed = out.into_inner().map_err(|e| e.into_error()).and_then(Pending::commit);
    match placed.with_context(failed)? {
        Placed::New => {
            tally.files += 1;
            tally.bytes += bytes;
        }
        Placed::AlreadyThere => tally.already_there += 1,
        Placed::Occupied => tally.occupied.push(path.display().to_string()),
    }
    Ok(())
}

fn row(dataset: &Dataset, columns: &[String], view: &RecordView<'_>) -> anyhow::Result<Map<String, Value>> {
    let mut row = Map::new();
    row.insert("key".into(), json!(view.key()));
    for name in columns {
        let value = if view.schema().scalar_position(name).is_some() {
            let value = view.scalar(name)?;
            let class = dataset.classes().filter(|_| name == "label").zip(value.as_i64());
            let class = class.and_then(|(classes, id)| classes.get(usize::try_from(id).ok()?));
            class.map_or_else(|| show::scalar(value), |name| json!(name))
        } else {
            match view.field(name)? {
                Some(_) => json!(view.text(name)?),
                None => Value::Null,
            }
        };
        row.insert(name.clone(), value);
    }
    Ok(row)
}
