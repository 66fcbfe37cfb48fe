//! Handles samples whose keys are already in the dataset.

use crate::collect::encode::RecordWorkspace;
use crate::collect::error::{CollectError, Result, SampleRefusal};
use crate::collect::layout::ProgramLayout;
use crate::collect::value::{Sample, SampleValue};
use crate::grow::{OnKnownKey, other_samples, scalar_words};
use crate::lock::lock;
use shardpack_format::{FRAME_BYTES, Frame, Hint, Note, Setting, bug, to_usize};
use shardpack_reader::{Dataset, Scalar};
use shardpack_sources::words::short;
use std::collections::HashSet;
use std::sync::Mutex;

/// An existing dataset, and counts of the program's samples whose keys are already in it.
#[derive(Debug)]
pub(crate) struct HeldSamples {
    pub(crate) opened: Dataset,
    /// The previous generation, used to recognise a repeated addition.
    before: Option<Dataset>,
    on_known_key: OnKnownKey,
    taken: Mutex<TakenSamples>,
}

#[derive(Debug, Default)]
struct TakenSamples {
    left_out: u64,
    /// Number of skipped samples whose scalars differ from the existing sample's.
    others: u64,
    first_other: Option<String>,
    /// Keys of the newest addition that the program added again, for example because it repeated a
    /// call that had succeeded.
    repeated: HashSet<String>,
    first_repeated: Option<String>,
}

impl HeldSamples {
    pub(super) fn new(opened: Dataset, before: Option<Dataset>, on_known_key: OnKnownKey) -> Self {
        Self { opened, before, on_known_key, taken: Mutex::default() }
    }

    pub(super) fn count(&self) -> u64 {
        let taken = lock(&self.taken);
        taken.left_out + taken.repeated.len() as u64
    }

    pub(crate) fn index(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.opened.by_key(key)?)
    }

    /// Skips or refuses a sample whose key belongs to sample `index` of the dataset. `is_first` is true if the
    /// program has not added any new sample yet.
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
        // Accept samples of the newest addition again, because the program may be repeating the whole call.
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

    /// Returns true if the dataset already has all of the program's samples. Fails if the program
    /// repeated only some samples of the newest addition, or also added new samples.
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

    /// Describes the first scalar that differs from the existing sample. Only values in the index are compared.
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
            let (there, came) = (scalar_words(there), scalar_words(came));
            if there != came {
                return Ok(Some(format!(
                    "field `{}` is {there} in the dataset, but {came} in the new sample",
                    short(&field.name)
                )));
            }
        }
        Ok(None)
    }
}

/// Returns the record without its padding and its frame. The frame depends on where the record is stored.
fn body(record: &[u8]) -> Result<&[u8]> {
    let end = Frame::parse(record)?.record_bytes;
    match record.get(to_usize(FRAME_BYTES)..to_usize(end)) {
        Some(body) => Ok(body),
        None => bug("a record that was checked ends before its end"),
    }
}

const HELD: &str = "a sample";

fn refused(key: &str, held: &'static str) -> CollectError {
    let hint = Hint::new("pass ")
        .and([Setting::word("on_known_key", "skip")])
        .then(" to skip samples whose keys are already in the dataset; to replace a sample, remove the old one first");
    let note = Note::new(format!("the dataset already has {held} with this key")).with_hint(hint);
    CollectError::Sample { key: key.to_owned(), refusal: SampleRefusal::KnownKey(note) }
}
