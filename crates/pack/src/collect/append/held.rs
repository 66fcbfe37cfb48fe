//! Samples whose keys the dataset already holds.

use crate::collect::encode::RecordWorkspace;
use crate::collect::error::{CollectError, Result};
use crate::collect::layout::ProgramLayout;
use crate::collect::value::{Sample, Value};
use crate::grow::{OnKnownKey, other_samples, scalar_words};
use crate::lock::lock;
use shardpack_format::{FRAME_BYTES, Frame, Hint, Setting, bug, to_usize};
use shardpack_reader::{Dataset, Scalar};
use shardpack_sources::words::short;
use std::collections::HashSet;
use std::sync::Mutex;

/// The samples of a dataset, and the program's samples with equal keys.
#[derive(Debug)]
pub(crate) struct HeldSamples {
    /// The existing generation.
    pub(crate) opened: Dataset,
    /// The previous generation, which shows if the same samples were added before.
    before: Option<Dataset>,
    on_known_key: OnKnownKey,
    taken: Mutex<TakenSamples>,
}

/// Counts of samples whose keys exist in the dataset.
#[derive(Debug, Default)]
struct TakenSamples {
    /// Number of samples that were left out.
    left_out: u64,
    /// Number of samples that differ from the dataset's samples, by the index, and the first such sample.
    others: u64,
    first_other: Option<String>,
    /// Samples that equal samples of the newest addition: the same call may have been repeated.
    repeated: HashSet<String>,
    first_repeated: Option<String>,
}

impl HeldSamples {
    pub(super) fn new(opened: Dataset, before: Option<Dataset>, on_known_key: OnKnownKey) -> Self {
        Self { opened, before, on_known_key, taken: Mutex::default() }
    }

    /// Returns the number of added samples that the dataset already held.
    pub(super) fn count(&self) -> u64 {
        let taken = lock(&self.taken);
        taken.left_out + taken.repeated.len() as u64
    }

    /// Returns the index of the sample with this key, if the dataset has one.
    pub(crate) fn index(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.opened.by_key(key)?)
    }

    /// Handles a sample with the key of sample `index`: leaves it out, or refuses it. `is_first` if no new sample came
    /// before it.
    pub(crate) fn take(
        &self,
        layout: &ProgramLayout,
        key: &str,
        index: u64,
        sample: &Sample,
        is_first: bool,
    ) -> Result<()> {
        if self.on_known_key == OnKnownKey::Skip {
            let other = self.differs(layout, index, sample)?;
            let mut taken = lock(&self.taken);
            taken.left_out += 1;
            if let Some(other) = other {
                taken.others += 1;
                taken.first_other.get_or_insert_with(|| format!("`{}`: {other}", short(key)));
            }
            return Ok(());
        }
        // A finished call may be repeated: then all of its samples exist, and there are no new ones.
        let is_of_last = match &self.before {
            Some(before) => before.by_key(key)?.is_none(),
            None => false,
        };
        if !is_of_last || !is_first {
            return Err(refused(key, HELD));
        }
        let encoded = RecordWorkspace::default().encode(layout, key, 0, sample)?;
        let there = self.opened.get(index)?;
        if body(&encoded.record)? != body(there.record_bytes())? {
            return Err(refused(key, "one under which it holds something else"));
        }
        let mut taken = lock(&self.taken);
        if !taken.repeated.insert(key.to_owned()) {
            return Err(CollectError::RepeatedKey { key: key.to_owned() });
        }
        taken.first_repeated.get_or_insert_with(|| key.to_owned());
        Ok(())
    }

    /// Returns true if there is nothing left to add. Refuses existing samples if there are new ones as well.
    pub(crate) fn is_complete(&self, fresh: u64) -> Result<bool> {
        let taken = lock(&self.taken);
        if let Some(first) = &taken.first_repeated {
            let last = self.before.as_ref().map_or(0, |before| self.opened.len().saturating_sub(before.len()));
            if fresh > 0 || taken.repeated.len() as u64 != last {
                return Err(refused(first, HELD));
            }
        }
        Ok(fresh == 0 && (taken.left_out > 0 || !taken.repeated.is_empty()))
    }

    /// Returns the notes on left-out samples for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        let taken = lock(&self.taken);
        taken.first_other.iter().map(|first| other_samples(taken.others, first)).collect()
    }

    /// Returns the first number in which a sample differs from the existing one, by the index: values outside the index
    /// are not read.
    fn differs(&self, layout: &ProgramLayout, index: u64, sample: &Sample) -> Result<Option<String>> {
        let (number, record) = self.opened.locate(index)?;
        let shard = self.opened.shard(number)?;
        for field in &layout.fields {
            let Some((position, dtype)) = shard.schema().scalar_position(&field.name) else { continue };
            let given =
                sample.values.iter().find(|(name, _)| *name == field.name).and_then(|(_, value)| value.as_ref());
            let labels = layout.labels.as_ref().filter(|_| field.name == "label" && !dtype.is_float());
            let came = match (given, labels) {
                (Some(Value::Text(name)), Some(labels)) => labels.by_name(name),
                (Some(Value::Number { value, .. }), Some(labels)) => labels.by_number(*value).ok(),
                (Some(Value::Number { value, .. }), _) => Some(*value),
                _ => None,
            };
            let mut bytes = Vec::new();
            let came = came.filter(|came| came.append(dtype, &mut bytes)).and(Scalar::from_bytes(dtype, &bytes));
            let there = shard.index().scalar(record, position).and_then(|bytes| Scalar::from_bytes(dtype, bytes));
            // As text, NaN equals NaN.
            let (there, came) = (scalar_words(there), scalar_words(came));
            if there != came {
                return Ok(Some(format!("in the field `{}` {there} is there, {came} came", short(&field.name))));
            }
        }
        Ok(None)
    }
}

/// Returns the record behind its frame and without padding: only the frame depends on the record's place.
fn body(record: &[u8]) -> Result<&[u8]> {
    let end = Frame::parse(record)?.record_bytes;
    match record.get(to_usize(FRAME_BYTES)..to_usize(end)) {
        Some(body) => Ok(body),
        None => bug("a record that was checked ends before its end"),
    }
}

/// The found value in the error for a refused key.
const HELD: &str = "one that it holds already";

fn refused(key: &str, found: &'static str) -> CollectError {
    let hint = Hint::set([Setting::word("on_known_key", "skip")])
        .then(" leaves such samples out; a sample that shall replace another needs that one removed first");
    CollectError::KnownKey { key: key.to_owned(), found, hint }
}
