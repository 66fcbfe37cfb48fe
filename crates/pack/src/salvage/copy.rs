//! Copies the records that a survey found into a new dataset.

use super::survey::{Survey, WholeRecord};
use crate::encode::{FidelityTotals, RecordNumber, copy_record};
use crate::{Context, bail};
use serde_json::json;
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Field, FieldKind, Limits, Metadata, Note, Record, Schema};
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, Report, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::path::Path;

impl Survey {
    /// Writes the undamaged records as a new dataset. Samples get new numbers, in stored order.
    ///
    /// # Errors
    /// Fails if there are no records, or if the dataset cannot be written.
    pub fn write(&mut self, out: &Path, limits: &Limits, options: &WriteOptions<'_>) -> crate::Result<Report> {
        let Some(first) = self.records.first() else {
            bail!("no undamaged record was found, so there is nothing to write")
        };
        let mut metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => {
                self.notes.push(Note::new(
                    "no schema was found, so the fields are named by number, and each byte of the scalar values \
                     becomes a field",
                ));
                let bytes = self.read(first)?;
                guess_metadata(&Record::parse(&bytes, limits)?, limits)?
            }
        };
        metadata.recipe.insert("salvaged".into(), json!({ "lost": self.places_lost() }));
        let samples = self.records.iter().map(|whole| PlanSample {
            key: &whole.key,
            source_bytes: whole.record_bytes,
            stored_bytes: whole.record_bytes,
            mtime_ns: 0,
            extra_digest: whole.digest(),
        });
        let shard_bytes = metadata.recipe.get("shard_bytes").and_then(serde_json::Value::as_u64).unwrap_or(1 << 30);
        let plan = Plan::new(samples, metadata, PlanOptions { shard_bytes, shuffle: None })?;
        let source = SurveyedRecords { survey: self, schema: plan.metadata().schema.clone(), limits };
        Ok(write_dataset(out, &plan, &source, options)?)
    }

    fn read(&self, whole: &WholeRecord) -> crate::Result<Vec<u8>> {
        let file = self.files.get(whole.file).with_context(|| format!("the survey has no file {}", whole.file))?;
        file.read(whole.offset, whole.record_bytes).with_context(|| format!("sample `{}`", whole.key.escape_debug()))
    }
}

/// The undamaged records of a survey, as samples for the writer.
struct SurveyedRecords<'a> {
    survey: &'a Survey,
    schema: Schema,
    limits: &'a Limits,
}

impl SurveyedRecords<'_> {
    fn whole(&self, sample: u64) -> Option<&WholeRecord> {
        self.survey.records.get(usize::try_from(sample).ok()?)
    }

    fn copy(
        &self,
        whole: &WholeRecord,
        sample: u64,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> crate::Result<EncodedSample<FidelityTotals>> {
        let bytes = self.survey.read(whole)?;
        let record = Record::parse(&bytes, self.limits)?;
        if (record.key, record.frame.body_crc32) != (whole.key.as_str(), whole.crc32) {
            bail!("sample `{}`: the file changed while it was being read", whole.key.escape_debug());
        }
        let totals = FidelityTotals::of_record(&self.schema, record.key, record.scalars);
        let copy = copy_record(&record, &self.schema, RecordNumber { shard: shard_number, sample }, buffer)?;
        Ok(copy.into_sample(whole.record_bytes, totals))
    }
}

impl SampleSource for SurveyedRecords<'_> {
    type Tally = FidelityTotals;
    type Error = crate::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.whole(sample).map_or("", |whole| &whole.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.whole(sample).map_or(0, |whole| whole.record_bytes.saturating_mul(2))
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> crate::Result<Encoded<FidelityTotals>> {
        let whole = self.whole(sample).with_context(|| format!("the survey has no sample {sample}"))?;
        Ok(Encoded::Record(self.copy(whole, sample, shard_number, buffer)?))
    }
}

/// Guesses a schema for records whose own schema is lost, from the codecs and descriptors of their fields.
pub(super) fn guess_metadata(record: &Record<'_>, limits: &Limits) -> crate::Result<Metadata> {
    // Check the count before creating the fields, because a record may have gibibytes of scalars.
    let count = (record.fields.len() as u64).saturating_add(record.scalars.len() as u64);
    if count > limits.max_fields {
        bail!(
            "no schema was found, and none can be guessed: the record has {count} fields and scalar bytes, \
             but at most {} are allowed",
            limits.max_fields
        );
    }
    let mut fields: Vec<Field> = Vec::new();
    for (i, value) in record.fields.iter().enumerate() {
        let kind = match value {
            Some(v) if v.codec == Codec::Jpeg || v.descriptor.starts_with(b"image/") => FieldKind::Image,
            Some(v) if ArrayDescriptor::parse(v.descriptor, limits).is_ok() => FieldKind::Array,
            _ => FieldKind::Bytes,
        };
        fields.push(Field::stored(format!("field-{i}"), kind));
    }
    fields.extend((0..record.scalars.len()).map(|i| Field::scalar(format!("scalar-byte-{i}"), Dtype::U8)));
    Ok(Metadata { schema: Schema::new(fields)?, ..Metadata::default() })
}
