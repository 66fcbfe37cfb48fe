//! Copies the collected records from the spool into the dataset.

use super::layout::ProgramLayout;
use super::spool::{Span, Spool};
use crate::encode::{FidelityTotals, PictureNote, RecordNumber, copy_record};
use crate::{Context as _, Error};
use shardpack_format::{Limits, Record, Schema, bug};
use shardpack_writer::{Encoded, SampleSource};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct SpooledSample {
    pub(super) key: Arc<str>,
    pub(super) sequence: u64,
    pub(super) span: Span,
    pub(super) source_bytes: u64,
    pub(super) digest: [u8; 16],
    pub(super) notes: Box<[(usize, PictureNote)]>,
}

/// The collected records, indexed by sample number.
pub(super) struct SpooledSamples<'a> {
    pub(super) spool: &'a Spool,
    pub(super) samples: &'a [SpooledSample],
    pub(super) layout: &'a ProgramLayout,
    /// Schema of the dataset. Unlike the spool's schema, it may lack the field for colour profiles.
    pub(super) schema: &'a Schema,
    /// Position, in the spool's schema, of the stored field to leave out.
    pub(super) dropped: Option<usize>,
}

impl SpooledSamples<'_> {
    fn sample(&self, number: u64) -> Option<&SpooledSample> {
        self.samples.get(usize::try_from(number).ok()?)
    }

    fn totals(&self, entry: &SpooledSample, scalars: &[u8]) -> FidelityTotals {
        FidelityTotals::of_noted_record(self.schema, &entry.key, scalars, |field, figures| {
            let position = self.layout.fields.iter().position(|known| known.name == field);
            let note = entry.notes.iter().find(|(noted, _)| Some(*noted) == position).map(|(_, note)| *note);
            note.unwrap_or_default().totals(&entry.key, figures, &self.layout.pictures)
        })
    }
}

impl SampleSource for SpooledSamples<'_> {
    type Tally = FidelityTotals;
    type Error = Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.sample(sample).map_or("", |entry| &entry.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.sample(sample).map_or(0, |entry| entry.span.bytes.saturating_mul(2))
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<FidelityTotals>, Error> {
        let Some(entry) = self.sample(sample) else { bug("a sample that was not collected") };
        let bytes = self.spool.read(entry.span).context("cannot read the temporary file")?;
        // Disks can return wrong bytes, so check each spooled record like any record from a file.
        let mut record = Record::parse(&bytes, &Limits::none()).context("the temporary file is damaged")?;
        if let Some(dropped) = self.dropped.filter(|dropped| *dropped < record.fields.len()) {
            record.fields.remove(dropped);
        }
        let totals = self.totals(entry, record.scalars);
        let copy = copy_record(&record, self.schema, RecordNumber { shard: shard_number, sample }, buffer)?;
        Ok(Encoded::Record(copy.into_sample(entry.source_bytes, totals)))
    }
}
