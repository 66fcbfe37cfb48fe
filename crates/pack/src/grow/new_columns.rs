//! The values of columns that are added to a dataset, and the rows of its samples in them.

use super::some;
use crate::{Context, bail};
use shardpack_array::Array;
use shardpack_format::{Dtype, Field, FieldKind, Note, bug, to_usize};
use shardpack_reader::Dataset;
use shardpack_sources::words::plural;
use std::collections::HashMap;

/// The values of one new field for all samples.
///
/// ```
/// use shardpack_format::Dtype;
/// use shardpack_pack::grow::NewColumn;
/// let bytes = [0.5_f32, 0.25].map(f32::to_le_bytes).concat();
/// let scores = NewColumn { name: "score".into(), dtype: Dtype::F32, shape: vec![], bytes: &bytes };
/// assert_eq!(scores.value_bytes()?, 4);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewColumn<'a> {
    /// Name of the field.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape of the value of one sample. With an empty shape, the field is a scalar field.
    pub shape: Vec<u64>,
    /// The values of all samples: little-endian, C-contiguous, one sample after the other.
    pub bytes: &'a [u8],
}

impl NewColumn<'_> {
    /// Returns the size of the value of one sample, in bytes.
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn value_bytes(&self) -> Result<u64, shardpack_format::Error> {
        self.dtype.array_bytes(&self.shape)
    }

    pub(super) fn field(&self) -> Field {
        match self.shape.is_empty() {
            true => Field::scalar(&self.name, self.dtype),
            false => Field::stored(&self.name, FieldKind::Array),
        }
    }

    pub(super) fn value(&self, row: usize) -> &[u8] {
        let bytes = self.value_bytes().map_or(0, to_usize);
        let start = row.saturating_mul(bytes);
        self.bytes.get(start..start.saturating_add(bytes)).unwrap_or_else(|| bug("a column is too short"))
    }

    pub(super) fn array(&self, row: usize) -> Result<Array, shardpack_format::Error> {
        Array::new(self.dtype, self.shape.clone(), self.value(row).to_vec())
    }
}

/// New fields for the samples of a dataset.
#[derive(Debug, Clone, Copy)]
pub struct NewColumns<'a> {
    /// The values of each field.
    pub columns: &'a [NewColumn<'a>],
    /// The key of each row. Each sample must have one row, in any order. `None` if the rows are in the order
    /// of the samples.
    pub keys: Option<&'a [String]>,
    /// Generation of the dataset that the rows belong to. Adding to another generation fails, unless it has these
    /// columns already. Default: the newest.
    pub generation: Option<u32>,
}

/// Returns the row of each sample. Checks that there is exactly one, in each column.
pub(super) fn rows(new: &NewColumns<'_>, opened: &Dataset) -> crate::Result<Vec<usize>> {
    let count = new.keys.map_or(opened.len(), |keys| keys.len() as u64);
    for column in new.columns {
        let name = column.name.escape_debug();
        let expected = column.value_bytes().with_context(|| format!("column `{name}`"))?.saturating_mul(count);
        if column.bytes.len() as u64 != expected {
            let found = column.bytes.len();
            let shape = &column.shape;
            bail!(
                "column `{name}`: {count} values of type {} and shape {shape:?} have {expected} bytes, but {found} \
                 were given",
                column.dtype
            );
        }
    }
    let Some(keys) = new.keys else { return Ok((0..to_usize(count)).collect()) };
    let mut rows: HashMap<&str, Option<usize>> = HashMap::with_capacity(keys.len());
    let mut twice = Vec::new();
    for (row, key) in keys.iter().enumerate() {
        if rows.insert(key, Some(row)).is_some() {
            twice.push(key.as_str());
        }
    }
    let (mut found, mut missing) = (Vec::with_capacity(to_usize(opened.len())), Vec::new());
    for number in opened.shard_numbers() {
        let shard = opened.shard(number)?;
        for key in (0..shard.len()).map(|record| shard.index().key(record).unwrap_or_default()) {
            match rows.get_mut(key).and_then(Option::take) {
                Some(row) => found.push(row),
                None => missing.push(key.to_owned()),
            }
        }
    }
    // All keys are left that no sample has.
    let unknown: Vec<&str> =
        keys.iter().map(String::as_str).filter(|key| rows.get(key).is_some_and(Option::is_some)).collect();
    let problem = |verb: &str, noun: &str, keys: Vec<&str>| {
        let count = keys.len();
        (count > 0).then(|| format!("{verb} {} ({})", plural(count as u64, noun), some(keys.into_iter(), count)))
    };
    let problems = [
        problem("lacks", "key", missing.iter().map(String::as_str).collect()),
        problem("repeats", "key", twice),
        problem("has", "unknown key", unknown),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    if problems.is_empty() {
        return Ok(found);
    }
    let samples = plural(opened.len(), "sample");
    let text = format!("the table must have one row for each of {samples}, but it {}", problems.join(", and it "));
    bail!(Note::new(text).with_hint("pass the keys of the newest generation, each once"));
}
