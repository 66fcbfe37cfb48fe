//! Samples whose keys the dataset holds already.

use super::Behind;
use crate::collect::encode::{Bench, of_sample};
use crate::collect::error::{CollectError, Result};
use crate::collect::layout::Layout;
use crate::collect::value::{Sample, Value};
use crate::collect::{Classes, Collector, lock};
use crate::grow::OnKnownKey;
use shardpack_format::{FRAME_BYTES, Frame, Hint, Setting, to_usize};
use shardpack_reader::Scalar;
use shardpack_sources::words::{plural, short};
use std::collections::HashSet;

/// What came of them.
#[derive(Debug, Default)]
pub(in crate::collect) struct Known {
    /// Samples that were left out.
    count: u64,
    /// Those that are not what the dataset holds, by its index, and the first of them.
    others: u64,
    first: Option<String>,
    /// Samples that came as they did in the newest addition: perhaps the same call was given again.
    repeated: HashSet<String>,
    first_repeated: Option<String>,
}

impl Known {
    /// Samples that the dataset held already.
    pub(super) fn count(&self) -> u64 {
        self.count + self.repeated.len() as u64
    }
}

impl Behind {
    /// The number of the sample with this key, if the dataset has one.
    pub(in crate::collect) fn holds(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.opened.by_key(key)?)
    }

    /// Takes a sample whose key is that of sample `index`: leaves it out, or refuses it.
    pub(in crate::collect) fn take_known(
        &self,
        collector: &Collector,
        layout: &Layout,
        key: &str,
        index: u64,
        sample: Sample,
    ) -> Result<()> {
        if self.on_known_key == OnKnownKey::Skip {
            let other = self.differs(layout, collector.classes.as_ref(), index, &sample)?;
            let mut known = lock(&self.known);
            known.count += 1;
            if let Some(other) = other {
                known.others += 1;
                known.first.get_or_insert_with(|| format!("`{}`: {other}", short(key)));
            }
            return Ok(());
        }
        // The same call may be given again after it had come to its end: then all of its samples are
        // there, and nothing else is new.
        let is_of_last = match &self.before {
            Some(before) => before.by_key(key)?.is_none(),
            None => false,
        };
        if !is_of_last || !collector.is_empty() {
            return Err(refused(key));
        }
        let mut bench = Bench::default();
        let encoded = bench.encode(layout, collector, key, 0, sample)?;
        let there = self.opened.get(index)?;
        if body(&encoded.record)? != body(there.record_bytes())? {
            return Err(CollectError::Sample {
                key: key.to_owned(),
                what: "key",
                expected: "one that the dataset does not hold yet".into(),
                found: "one under which it holds something else".into(),
                hint: leave_out(),
            });
        }
        let mut known = lock(&self.known);
        if !known.repeated.insert(key.to_owned()) {
            return Err(of_sample(key, "key", "each once", "one that is taken"));
        }
        known.first_repeated.get_or_insert_with(|| key.to_owned());
        Ok(())
    }

    /// Whether nothing is left to add. Refuses samples that are there if others came as well.
    pub(in crate::collect) fn is_complete(&self, fresh: u64) -> Result<bool> {
        let known = lock(&self.known);
        if let Some(first) = &known.first_repeated {
            let last = self.before.as_ref().map_or(0, |before| self.opened.len().saturating_sub(before.len()));
            if fresh > 0 || known.repeated.len() as u64 != last {
                return Err(refused(first));
            }
        }
        Ok(fresh == 0 && (known.count > 0 || !known.repeated.is_empty()))
    }

    /// What the user should know of samples that were left out.
    pub(in crate::collect) fn notes(&self) -> Vec<String> {
        let known = lock(&self.known);
        let note = |first: &String| {
            let samples = plural(known.others, "sample");
            format!(
                "{samples} left out although the dataset holds something else under that key; it keeps what it has: {first}"
            )
        };
        known.first.iter().map(note).collect()
    }

    /// In what number a sample differs from the one that is there, by the index: the values that are
    /// stored elsewhere are not read.
    fn differs(
        &self,
        layout: &Layout,
        classes: Option<&Classes>,
        index: u64,
        sample: &Sample,
    ) -> Result<Option<String>> {
        let (number, record) = self.opened.locate(index)?;
        let shard = self.opened.shard(number)?;
        for field in &layout.fields {
            let Some((position, dtype)) = shard.schema().scalar_position(&field.name) else { continue };
            let given =
                sample.values.iter().find(|(name, _)| *name == field.name).and_then(|(_, value)| value.as_ref());
            let classes = classes.filter(|_| field.name == "label" && !dtype.is_float());
            let came = match (given, classes) {
                (Some(Value::Text(name)), Some(classes)) => classes.by_name(name),
                (Some(Value::Number { value, .. }), Some(classes)) => classes.by_number(*value).ok(),
                (Some(Value::Number { value, .. }), _) => Some(*value),
                _ => None,
            };
            let mut bytes = Vec::new();
            let came = came.filter(|came| came.append(dtype, &mut bytes)).and(Scalar::from_bytes(dtype, &bytes));
            let there = shard.index().scalar(record, position).and_then(|bytes| Scalar::from_bytes(dtype, bytes));
            // As text, NaN is the same as NaN.
            let (there, came) = (text(there), text(came));
            if there != came {
                return Ok(Some(format!("in the field `{}` {there} is there, {came} came", short(&field.name))));
            }
        }
        Ok(None)
    }
}

/// What is behind the frame of a record, which alone says where the record is, without padding.
fn body(record: &[u8]) -> Result<&[u8]> {
    let end = Frame::parse(record)?.record_bytes;
    let place = |bytes: u64| to_usize(bytes);
    let body = record.get(place(FRAME_BYTES)..place(end));
    Ok(body.ok_or_else(|| shardpack_format::Error::internal("record", end, record.len()))?)
}

fn text(value: Option<Scalar>) -> String {
    match value {
        Some(Scalar::Bool(value)) => value.to_string(),
        Some(Scalar::Signed(value)) => value.to_string(),
        Some(Scalar::Unsigned(value)) => value.to_string(),
        Some(Scalar::Float(value)) => value.to_string(),
        None => "nothing".to_owned(),
    }
}

fn refused(key: &str) -> CollectError {
    CollectError::Sample {
        key: key.to_owned(),
        what: "key",
        expected: "one that the dataset does not hold yet".into(),
        found: "one that it holds already".into(),
        hint: leave_out(),
    }
}

fn leave_out() -> Hint {
    Hint::set([Setting::word("on_known_key", "skip")])
        .then(" leaves such samples out; a sample that shall replace another needs that one removed first")
}
