//! Adds fields to the samples of a dataset, in columns files next to its shards (spec §3.6).

use super::equal_columns::are_added;
use super::new_columns::{NewColumn, NewColumns, rows};
use super::whole_record::ShardRecords;
use super::{RewriteOptions, open};
use crate::encode::{ArrayRecorder, ArrayWorkspace, Columns, FidelityTotals, RecordDraft, RecordNumber};
use crate::lock::lock;
use crate::pool::on_pool;
use crate::{Context, Error, bail};
use shardpack_array::{ArrayOptions, ArraySettings, trial};
use shardpack_format::{Field, Manifest, Note, Schema, bug, to_usize};
use shardpack_reader::Dataset;
use shardpack_writer::{Encoded, Growth, KeptSample, Next, Output, Plan, SampleSource, Tally as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Names that a new column must not have, because readers expect the sizes of pictures and the like in fields with
/// these names, or add columns with these names to tables.
const RESERVED: [&str; 8] = ["index", "key", "height", "width", "channels", "orientation", "gpu_jpeg", "icc"];

/// Approximate size of a record without its values, in bytes.
const HEAD_BYTES: u64 = 192;

/// The result of [`add_columns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnsReport {
    /// Number of the newest generation.
    pub generation: u32,
    /// Number of samples, each of which has a value for each new field.
    pub samples: u64,
    /// Names of the new fields.
    pub fields: Vec<String>,
    /// Number of columns files that were written. 0 if an earlier call has added the same columns.
    pub files: u32,
    /// Total size of the columns files, in bytes.
    pub bytes_out: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Creates a new generation of the dataset in the folder `dataset`, in which all samples also have the fields of `new`.
/// No shard is rewritten: the values are in new files, and arrays are stored without loss. Older generations do not
/// have the fields.
///
/// An interrupted run leaves the dataset unchanged, and repeating the call continues the run. Repeating a call that
/// succeeded adds nothing: the dataset then has exactly these fields from one addition, with equal values in every byte.
///
/// # Errors
/// Fails if there is no dataset, if it has a field with one of the names, if a name is reserved, if `keys` are not
/// those of the samples, if a column has another number of values, or if the dataset cannot be written.
pub fn add_columns(
    dataset: impl Into<Output>,
    new: &NewColumns<'_>,
    options: &RewriteOptions<'_>,
) -> crate::Result<ColumnsReport> {
    let dataset = &dataset.into();
    let growth = Growth::take(dataset.clone())?;
    let opened = open(dataset, &options.limits)?;
    let base = growth.manifest();
    let report = |newest: &Dataset, files, bytes_out, notes| ColumnsReport {
        generation: newest.generation(),
        samples: newest.len(),
        fields: new.columns.iter().map(|column| column.name.clone()).collect(),
        files,
        bytes_out,
        notes,
    };
    if are_added(new, dataset, &opened, options)? {
        return Ok(report(&opened, 0, 0, Vec::new()));
    }
    if let Some(expected) = new.generation.filter(|&expected| expected != base.generation()) {
        let found = base.generation();
        let text = format!("the values belong to generation {expected}, but the newest generation is {found}");
        bail!(Note::new(text).with_hint("open the newest generation, and pass the values of its samples"));
    }
    if opened.is_empty() {
        bail!("the dataset has no samples, so there is nothing to add columns to");
    }
    check_names(new.columns, &opened)?;
    let schema = Schema::new(new.columns.iter().map(NewColumn::field).collect())?;
    base.whole_schema()?.with_fields(schema.fields().iter().cloned())?;
    let rows = rows(new, &opened)?;
    let source = AddedValues::new(new.columns, &schema, rows, &opened, options)?;
    let plan = Plan::columns(base, schema.clone(), source.samples(base)?)?;
    // All samples have values of the same size.
    let write = options.to_write(source.memory_bytes(0));
    let next = Next { kept: BTreeMap::new(), fidelity: &FidelityTotals::fidelity };
    let written = growth.write(&plan, &source, next, &write)?;
    let newest = open(dataset, &options.limits)?;
    Ok(report(&newest, written.shards, written.bytes_out, written.notes))
}

fn check_names(columns: &[NewColumn<'_>], opened: &Dataset) -> crate::Result<()> {
    if columns.is_empty() {
        bail!("there are no columns to add");
    }
    let all = opened.schema().fields();
    for column in columns {
        let name = column.name.escape_debug();
        if all.iter().any(|field| field.name == column.name) {
            let generation = opened.generation();
            let text = format!("cannot add the column `{name}`: generation {generation} has a field with this name");
            bail!(Note::new(text).with_hint("choose another name: fields are never replaced"));
        }
        let of_field = |field: &Field| column.name.strip_prefix(&field.name).is_some_and(|rest| rest.starts_with('.'));
        if RESERVED.contains(&column.name.as_str()) || all.iter().any(of_field) {
            let text = format!("cannot add the column `{name}`: this name is reserved");
            let hint =
                format!("choose a name other than {}, without the name of a field and a dot", RESERVED.join(", "));
            bail!(Note::new(text).with_hint(hint));
        }
    }
    Ok(())
}

/// The values of the new fields, as samples for the writer.
struct AddedValues<'a> {
    columns: &'a [NewColumn<'a>],
    schema: &'a Schema,
    places: Vec<ColumnPlace>,
    records: ShardRecords,
    /// Row of each sample in the columns.
    rows: Vec<usize>,
    idle: Mutex<Vec<Vec<ArrayWorkspace>>>,
}

/// How the values of a column are stored in a record.
enum ColumnPlace {
    Scalar(Columns),
    Array(ArrayRecorder, ArraySettings),
}

impl<'a> AddedValues<'a> {
    fn new(
        columns: &'a [NewColumn<'a>],
        schema: &'a Schema,
        rows: Vec<usize>,
        opened: &Dataset,
        options: &RewriteOptions<'_>,
    ) -> crate::Result<Self> {
        let records = ShardRecords::all(opened)?;
        let place = |column: &NewColumn<'_>| {
            if column.shape.is_empty() {
                let place = Columns::of(schema, &[column.field()]);
                return Ok(ColumnPlace::Scalar(place.unwrap_or_else(|| bug("a new field is not in its schema"))));
            }
            let recorder = ArrayRecorder::new(schema, &column.name, None, false)?;
            Ok(ColumnPlace::Array(recorder, settings(column, &rows, options)?))
        };
        let places = columns.iter().map(place).collect::<crate::Result<_>>()?;
        Ok(Self { columns, schema, places, records, rows, idle: Mutex::default() })
    }

    fn row(&self, sample: u64) -> usize {
        self.rows.get(to_usize(sample)).copied().unwrap_or_else(|| bug("a sample is not part of the plan"))
    }

    fn value_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.value_bytes().unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Returns the samples of each shard.
    fn samples(&self, base: &Manifest) -> crate::Result<Vec<Vec<KeptSample>>> {
        let mut all: Vec<Vec<KeptSample>> = base.shards.iter().map(|_| Vec::new()).collect();
        let record_bytes = self.value_bytes().saturating_add(HEAD_BYTES);
        for ((shard, record), &row) in self.records.0.iter().zip(&self.rows) {
            let mut crc = crc32fast::Hasher::new();
            self.columns.iter().for_each(|column| crc.update(column.value(row)));
            let sample_id = shard.row(*record)?.sample_id;
            let of_shard = all.get_mut(to_usize(shard.identity().shard_number));
            let sample = KeptSample { sample_id, record_bytes, crc32: crc.finalize() };
            of_shard.unwrap_or_else(|| bug("a shard is not in the manifest")).push(sample);
        }
        Ok(all)
    }
}

/// Chooses how the arrays of a column are stored, by the first array that is not constant.
fn settings(column: &NewColumn<'_>, rows: &[usize], options: &RewriteOptions<'_>) -> crate::Result<ArraySettings> {
    let width = column.dtype.size();
    let varies = |row: &&usize| {
        let value = column.value(**row);
        value.iter().ne(value.iter().take(width).cycle().take(value.len()))
    };
    let Some(&row) = rows.iter().find(varies).or(rows.first()) else { bug("a dataset without samples") };
    let example = column.array(row)?;
    let lossless = ArrayOptions { lossless: true, ..ArrayOptions::default() };
    let found = on_pool(options.threads.max(1), || trial(&[(&example, None)], &lossless))?;
    Ok(found.with_context(|| format!("column `{}`", column.name.escape_debug()))?.settings)
}

impl SampleSource for AddedValues<'_> {
    type Tally = FidelityTotals;
    type Error = Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.records.key(sample)
    }

    fn memory_bytes(&self, _sample: u64) -> u64 {
        // The values, their encoded form, and the record.
        self.value_bytes().saturating_mul(3).saturating_add(HEAD_BYTES)
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<FidelityTotals>, Error> {
        let row = self.row(sample);
        let mut draft = RecordDraft::new(self.schema, buffer);
        let mut workspaces = lock(&self.idle).pop().unwrap_or_default();
        workspaces.resize_with(self.columns.len(), ArrayWorkspace::default);
        for ((column, place), workspace) in self.columns.iter().zip(&self.places).zip(&mut workspaces) {
            match place {
                ColumnPlace::Scalar(place) => draft.set_scalars(place, column.value(row)),
                ColumnPlace::Array(recorder, settings) => {
                    recorder.put(workspace, *settings, &column.array(row)?, None, &mut draft)?;
                }
            }
        }
        lock(&self.idle).push(workspaces);
        let record = draft.finish(RecordNumber { shard: shard_number, sample }, &self.key(sample))?;
        Ok(Encoded::Record(record.into_sample(self.value_bytes(), FidelityTotals::default())))
    }
}
