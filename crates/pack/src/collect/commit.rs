//! Moves the collected records from the spool into the dataset, as samples of the writer.

use super::layout::ProgramLayout;
use super::spool::{Span, Spool};
use crate::encode::{PictureNote, RecordNumber, Tally, copy_record};
use shardpack_format::{ErrorKind, Explain, Hint, Limits, Record, Schema, SystemError};
use shardpack_writer::{Encoded, SampleSource};
use std::borrow::Cow;
use std::sync::Arc;

/// Facts about a collected sample.
#[derive(Debug, Clone)]
pub(super) struct SpooledSample {
    pub(super) key: Arc<str>,
    pub(super) sequence: u64,
    pub(super) span: Span,
    pub(super) source_bytes: u64,
    pub(super) digest: [u8; 16],
    pub(super) notes: Box<[(usize, PictureNote)]>,
}

/// The collected records, in the order of their numbers.
pub(super) struct SpooledSamples<'a> {
    pub(super) spool: &'a Spool,
    pub(super) samples: &'a [SpooledSample],
    pub(super) layout: &'a ProgramLayout,
    /// The schema of the dataset: the schema of the spool, with or without profiles.
    pub(super) schema: &'a Schema,
    /// Position in the spool of the stored field that the dataset leaves out.
    pub(super) dropped: Option<usize>,
}

/// The reason why a record could not be copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("cannot read the temporary file: {0}")]
    Io(#[from] shardpack_io::Cause),
    /// The spool is checked like every other file, because a disk does not always return the bytes
    /// that were written.
    #[error("the temporary file is damaged: {0}")]
    Format(#[from] shardpack_format::Error),
}

impl Explain for CopyError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Io,
            Self::Format(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Io(cause) => cause.hint().into_iter().collect(),
            Self::Format(error) => error.hints(),
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io(cause) => Some(cause.system_error()),
            Self::Format(_) => None,
        }
    }
}

impl SpooledSamples<'_> {
    fn sample(&self, number: u64) -> Option<&SpooledSample> {
        self.samples.get(usize::try_from(number).ok()?)
    }

    fn tally(&self, entry: &SpooledSample, scalars: &[u8]) -> Tally {
        Tally::of_noted_record(self.schema, &entry.key, scalars, |field, figures| {
            let position = self.layout.fields.iter().position(|known| known.name == field);
            let note = entry.notes.iter().find(|(noted, _)| Some(*noted) == position).map(|(_, note)| *note);
            note.unwrap_or_default().totals(&entry.key, figures, &self.layout.pictures)
        })
    }
}

impl SampleSource for SpooledSamples<'_> {
    type Tally = Tally;
    type Error = CopyError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.sample(sample).map_or("", |entry| &entry.key))
    }

    /// The record as read, and the new layout of it.
    fn memory_bytes(&self, sample: u64) -> u64 {
        self.sample(sample).map_or(0, |entry| entry.span.bytes.saturating_mul(2))
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Tally>, CopyError> {
        let Some(entry) = self.sample(sample) else {
            return Err(shardpack_format::Error::usage(format!(
                "sample {sample}: expected a sample that was collected"
            ))
            .into());
        };
        let bytes = self.spool.read(entry.span)?;
        let mut record = Record::parse(&bytes, &Limits::none())?;
        if let Some(dropped) = self.dropped.filter(|dropped| *dropped < record.fields.len()) {
            record.fields.remove(dropped);
        }
        let tally = self.tally(entry, record.scalars);
        let copy = copy_record(&record, self.schema, RecordNumber { shard: shard_number, sample }, buffer)?;
        Ok(Encoded::Record(copy.into_sample(entry.source_bytes, tally)))
    }
}
