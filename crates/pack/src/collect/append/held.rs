//! Samples whose keys the dataset already holds.

use crate::collect::encode::RecordWorkspace;
use crate::collect::error::{CollectError, Result};
use crate::collect::layout::ProgramLayout;
use crate::collect::value::{Sample, SampleValue};
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
    pub(crate) opened: Dataset,
    /// The previous generation, used to detect a repeated addition.
    before: Option<Dataset>,
    on_known_key: OnKnownKey,
    taken: Mutex<TakenSamples>,
}

/// Counts of samples whose keys exist in the dataset.
#[derive(Debug, Default)]
struct TakenSamples {
    left_out: u64,
    /// Number of samples whose indexed values differ from the dataset's, and the first such sample.
    others: u64,
    first_other: Option<String>,
    /// Samples that the newest addition holds too, because a program may repeat a finished call.
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

    pub(crate) fn index(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.opened.by_key(key)?)
    }

    /// Skips or refuses a sample with the key of sample `index`. `is_first` means that no new sample came before it.
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
        // A repeated call adds only existing samples.
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
            return Err(refused(key, "a different sample"));
        }
        let mut taken = lock(&self.taken);
        if !taken.repeated.insert(key.to_owned()) {
            return Err(CollectError::RepeatedKey { key: key.to_owned() });
        }
        taken.first_repeated.get_or_insert_with(|| key.to_owned());
        Ok(())
    }

    /// Returns true if there is nothing to add. Refuses existing samples if there are also new ones.
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

    pub(crate) fn notes(&self) -> Vec<String> {
        let taken = lock(&self.taken);
        taken.first_other.iter().map(|first| other_samples(taken.others, first)).collect()
    }

    /// Describes the first indexed value that differs from the existing sample. Other values are not read.
    fn differs(&self, layout: &ProgramLayout, index: u64, sample: &Sample) -> Result<Option<String>> {
        let (number, record) = self.opened.locate(index)?;
        let shard = self.opened.shard(number)?;
        for field in &layout.fields {
            let Some((position, dtype)) = shard.schema().scalar_position(&field.name) else { continue };
            let given =
                sample.values.iter().find(|(name, _)| *name == field.name).and_then(|(_, value)| value.as_ref());
            let labels = layout.labels.as_ref().filter(|_| field.name == "label" && !dtype.is_float());
            let came = match (given, labels) {
                (Some(SampleValue::Text(name)), Some(labels)) => labels.by_name(name),
                (Some(SampleValue::Number { value, .. }), Some(labels)) => labels.by_number(*value).ok(),
                (Some(SampleValue::Number { value, .. }), _) => Some(*value),
                _ => None,
            };
            let mut bytes = Vec::new();
            let came = came.filter(|came| came.append(dtype, &mut bytes)).and(Scalar::from_bytes(dtype, &bytes));
            let there = shard.index().scalar(record, position).and_then(|bytes| Scalar::from_bytes(dtype, bytes));
            // Compare as text, so that NaN equals NaN.
            let (there, came) = (scalar_words(there), scalar_words(came));
            if there != came {
                return Ok(Some(format!(
                    "field `{}`: {there} in the dataset, {came} in the new sample",
                    short(&field.name)
                )));
            }
        }
        Ok(None)
    }
}

/// Returns the record without its frame and padding. Only the frame depends on the record's place.
fn body(record: &[u8]) -> Result<&[u8]> {
    let end = Frame::parse(record)?.record_bytes;
    match record.get(to_usize(FRAME_BYTES)..to_usize(end)) {
        Some(body) => Ok(body),
        None => bug("a record that was checked ends before its end"),
    }
}

/// Word for an existing sample in the error for a refused key.
const HELD: &str = "a sample";

fn refused(key: &str, held: &'static str) -> CollectError {
    let hint = Hint::set([Setting::word("on_known_key", "skip")])
        .then(" leaves such samples out; to replace a sample, remove it first");
    CollectError::KnownKey { key: key.to_owned(), held, hint }
}
