//! Recognises columns that an earlier call has already added, so that adding them can be repeated.

use super::new_columns::{NewColumn, NewColumns, rows};
use super::{RewriteOptions, open_with};
use shardpack_format::{AddedColumns, ErrorKind, bug, to_usize};
use shardpack_reader::{ArrayDecoder, Dataset, DatasetOptions, Shard};
use shardpack_writer::{Error as WriterError, Output};
use std::sync::atomic::Ordering;

/// Returns true if one addition to the newest generation `opened` consists of exactly these columns, with equal values
/// in every byte and the same order. Reads arrays only from the columns files of that addition.
pub(super) fn are_added(
    new: &NewColumns<'_>,
    dataset: &Output,
    opened: &Dataset,
    options: &RewriteOptions<'_>,
) -> crate::Result<bool> {
    let additions = opened.manifest().map(|manifest| manifest.columns.as_slice()).unwrap_or_default();
    let is_same =
        |columns: &AddedColumns| columns.schema.fields().iter().cloned().eq(new.columns.iter().map(NewColumn::field));
    let Some((number, columns)) = (0..).zip(additions).find(|(_, columns)| is_same(columns)) else { return Ok(false) };
    if !is_of_same_samples(new, dataset, opened, options) {
        return Ok(false);
    }
    let rows = match rows(new, opened) {
        Err(error) if error.kind() == ErrorKind::Usage => return Ok(false),
        rows => rows?,
    };
    let added = Added { columns, number, dataset, opened, options };
    Ok(added.has_scalars(new.columns, &rows)? && added.has_arrays(new.columns, &rows)?)
}

/// Returns true if the rows belong to the samples of the newest generation. A program that repeats a call still has the
/// generation that it opened before the first call, with the same shards.
fn is_of_same_samples(new: &NewColumns<'_>, dataset: &Output, opened: &Dataset, options: &RewriteOptions<'_>) -> bool {
    let Some(generation) = new.generation.filter(|&generation| generation != opened.generation()) else { return true };
    let read = DatasetOptions::new().limits(options.limits.clone()).generation(Some(generation));
    let shards = |dataset: &Dataset| dataset.manifest().map(|manifest| manifest.shards.clone());
    open_with(dataset, &read).is_ok_and(|older| shards(&older) == shards(opened))
}

/// One addition of columns to a dataset.
struct Added<'a> {
    columns: &'a AddedColumns,
    /// Position of the addition in the manifest.
    number: usize,
    dataset: &'a Output,
    opened: &'a Dataset,
    options: &'a RewriteOptions<'a>,
}

impl Added<'_> {
    fn check_cancelled(&self) -> crate::Result<()> {
        match self.options.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(WriterError::Cancelled.into()),
            _ => Ok(()),
        }
    }

    /// Compares the scalars, which are in the indexes of the columns files.
    fn has_scalars(&self, columns: &[NewColumn<'_>], rows: &[usize]) -> crate::Result<bool> {
        let mut rows = rows;
        for number in self.opened.shard_numbers() {
            self.check_cancelled()?;
            let shard = self.opened.shard(number)?;
            let file = shard.columns_files().get(self.number).unwrap_or_else(|| bug("a shard has no columns file"));
            let (of_shard, left) = rows.split_at_checked(to_usize(shard.len())).unwrap_or_default();
            rows = left;
            if !columns.iter().filter(|column| column.shape.is_empty()).all(|column| has_scalar(file, column, of_shard))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_arrays(&self, columns: &[NewColumn<'_>], rows: &[usize]) -> crate::Result<bool> {
        let arrays: Vec<&NewColumn<'_>> = columns.iter().filter(|column| !column.shape.is_empty()).collect();
        if arrays.is_empty() {
            return Ok(true);
        }
        let (mut rows, mut decoder) = (rows.iter(), ArrayDecoder::new());
        for file in &self.columns.files {
            let mut stream = self.open(&file.name)?.stream()?;
            while let Some(record) = stream.next_record() {
                self.check_cancelled()?;
                let record = record?;
                // The file may have changed since its shard was opened.
                let Some(&row) = rows.next() else { return Ok(false) };
                for column in &arrays {
                    let there = record.array(&column.name, &mut decoder)?;
                    if there.dtype() != column.dtype
                        || there.shape() != column.shape
                        || there.bytes() != column.value(row)
                    {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Opens a columns file on its own, to stream it without the records of its shard.
    fn open(&self, name: &str) -> shardpack_reader::Result<Dataset> {
        let options = DatasetOptions::new().limits(self.options.limits.clone());
        match self.dataset.storage() {
            Some(storage) => options.open_file_in(storage, name),
            None => options.open(self.dataset.path().join(name)),
        }
    }
}

fn has_scalar(file: &Shard, column: &NewColumn<'_>, rows: &[usize]) -> bool {
    let position = file.schema().scalar_position(&column.name).map(|(position, _)| position);
    let there = position.and_then(|position| file.column_bytes(position)).unwrap_or_default();
    there.chunks_exact(column.dtype.size()).eq(rows.iter().map(|&row| column.value(row)))
}
