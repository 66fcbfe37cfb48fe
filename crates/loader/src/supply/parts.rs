//! A large record. All threads together decode it into its row.
//!
//! The thread that takes the row *opens* the record (`decode/opening.rs`): it reads the head, small values
//! and chunk headers, and cuts the rest into parts. Idle threads take the parts. Each part passes once
//! through a core's cache, where it is read, added to the CRC32, and decoded into its row. Parts that need no
//! decoding are read directly into the row or, if a stage accepts the value, into staging memory. The thread
//! that finishes the last part combines the CRCs, compares the result, and completes the row.
//!
//! After any failure (a record that cannot be cut, a failed read, a wrong CRC, a bad chunk), the record is
//! read again whole, like a small record. Only that path reports errors. If the failure was temporary, it
//! succeeds.

use super::buffer::class_room;
use crate::fields::CutOf;
use crate::rows::{PartMut, RowMut};
use crate::sample::RowId;
use crate::stage::{StagedPart, StagedRoom};
use crate::stats::{Counters, add, add_since};
use shardpack_array::{ArrayDecoder, ArraySplit, Ends};
use shardpack_format::{Error as FormatError, FieldValue, Frame, Limits, Record, Result};
use shardpack_reader::Shard;
use shardpack_reader::raw::{STEP_BYTES, room};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) struct LargeRecord {
    pub(crate) of: RowId,
    shard: Arc<Shard>,
    frame: Frame,
    /// Bytes that belong to no part, in order: the head, small values, and gaps between values.
    kept: Vec<KeptBytes>,
    fields: Vec<MadeField>,
    parts: Vec<RecordPart>,
    next: AtomicUsize,
    left: AtomicUsize,
    failed: AtomicBool,
    abandoned: AtomicBool,
    row: Mutex<Option<UnmadeRow>>,
}

pub(crate) struct UnmadeRow {
    /// Values in staging memory. They are dropped before the handle, because the slot must stay in use until then.
    pub(crate) staged: Vec<StagedValue>,
    pub(crate) handle: Arc<RowMut>,
    pub(crate) dims: Vec<u64>,
}

pub(crate) struct StagedValue {
    pub(crate) field: usize,
    /// Byte range in the record.
    pub(crate) bytes: Range<u64>,
    pub(crate) room: Box<dyn StagedRoom>,
}

pub(crate) enum PartTarget {
    /// Location in the row to which the bytes are copied or decoded.
    Row(PartMut),
    /// Location in staging memory to which the stored bytes are copied. The handle keeps the slot in use and is
    /// dropped last.
    Stage { part: Box<dyn StagedPart>, _handle: Arc<RowMut> },
}

impl PartTarget {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Row(part) => part.bytes(),
            Self::Stage { part, .. } => part.bytes(),
        }
    }
}

/// Bytes of the record that were read when it was opened.
pub(crate) struct KeptBytes {
    /// Offset from the start of the record.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    /// CRC of these bytes without the frame, which has its own CRC.
    pub(crate) crc: crc32fast::Hasher,
}

pub(crate) enum MadeField {
    /// Field that is decoded from the kept bytes when all parts are done.
    Kept,
    /// Field that is copied as stored, with its number of bytes.
    Stored(u64),
    /// Field that is decoded part by part.
    Array(Box<WindowedSplit>),
    /// Field whose stored bytes are read into staging memory. It is prepared when all parts are done.
    Staged,
}

pub(crate) struct WindowedSplit {
    pub(crate) split: ArraySplit,
    /// Window of the row, if known when the record was opened.
    pub(crate) window: Option<CutOf>,
}

pub(crate) struct RecordPart {
    /// Byte range in the record.
    bytes: Range<u64>,
    /// Index of the field, and index of the part in its array, or `None` for bytes that the batch does not use.
    of: Option<(usize, usize)>,
    state: Mutex<PartState>,
}

#[derive(Default)]
struct PartState {
    to: Option<PartTarget>,
    crc: crc32fast::Hasher,
    ends: Ends,
}

#[derive(Default)]
pub(crate) struct PartScratch {
    bytes: Vec<u8>,
}

pub(crate) fn size(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()
}

pub(crate) fn within<'k>(kept: &'k [KeptBytes], bytes: &Range<u64>) -> Option<&'k [u8]> {
    let number = kept.partition_point(|kept| kept.start <= bytes.start).checked_sub(1)?;
    let kept = kept.get(number)?;
    kept.bytes.get(size(bytes.start - kept.start)?..size(bytes.end - kept.start)?)
}

pub(crate) fn steps(bytes: &Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> {
    let (Range { start, end }, step) = (bytes.clone(), step.max(1));
    (0..(end - start).div_ceil(step)).map(move |part| start + part * step..(start + (part + 1) * step).min(end))
}

impl RecordPart {
    pub(crate) fn new(bytes: Range<u64>, of: Option<(usize, usize)>, to: Option<PartTarget>) -> Self {
        Self { bytes, of, state: Mutex::new(PartState { to, ..PartState::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, PartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LargeRecord {
    pub(crate) fn new(
        of: RowId,
        shard: Arc<Shard>,
        frame: Frame,
        kept: Vec<KeptBytes>,
        fields: Vec<MadeField>,
        parts: Vec<RecordPart>,
        row: UnmadeRow,
    ) -> Self {
        let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(parts.len()));
        let (failed, abandoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { of, shard, frame, kept, fields, parts, next, left, failed, abandoned, row: Mutex::new(Some(row)) }
    }

    pub(crate) fn has_parts(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts.len()
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|kept| kept.bytes.len() as u64).sum()
    }

    pub(crate) fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.parts.len()).then_some(number)
    }

    pub(crate) fn work(
        &self,
        number: usize,
        decoder: &mut ArrayDecoder,
        scratch: &mut PartScratch,
        counters: &Counters,
    ) {
        // After a failure, decoding is pointless, because the record is then read whole.
        let wanted = !self.failed.load(Ordering::Relaxed) && !self.is_abandoned();
        if wanted && self.part(number, decoder, scratch, counters).is_none() {
            self.fail();
        }
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Marks a part as done, even if it failed. Returns true if it was the last part.
    pub(crate) fn done(&self, number: usize) -> bool {
        if let Some(part) = self.parts.get(number) {
            // Release the part's bytes before the part counts as done.
            part.state().to = None;
        }
        // AcqRel: the thread that finishes the last part sees the writes of all other threads.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn part(
        &self,
        number: usize,
        decoder: &mut ArrayDecoder,
        scratch: &mut PartScratch,
        counters: &Counters,
    ) -> Option<()> {
        let part = self.parts.get(number)?;
        let mut state = part.state();
        let PartState { to, crc, ends } = &mut *state;
        let length = size(part.bytes.end - part.bytes.start)?;
        let split = match part.of.and_then(|(field, part)| Some((self.fields.get(field)?, part))) {
            Some((MadeField::Array(array), part)) if !array.split.is_copy() => Some((&array.split, part)),
            Some((MadeField::Staged, _)) if to.as_mut().is_none_or(|to| to.bytes().len() != length) => return None,
            _ => None,
        };
        match (to, split) {
            (Some(to), None) => self.read(part, Some(to.bytes()), &mut scratch.bytes, crc, counters),
            (None, _) => self.read(part, None, &mut scratch.bytes, crc, counters),
            (Some(PartTarget::Stage { .. }), Some(_)) => None,
            (Some(PartTarget::Row(to)), Some((split, number))) => {
                class_room(&mut scratch.bytes, length as u64).ok()?;
                let bytes = scratch.bytes.get_mut(..length)?;
                self.read(part, Some(bytes), &mut Vec::new(), crc, counters)?;
                let start = Instant::now();
                *ends = decoder.decode_part(split, number, bytes, to).ok()?;
                add_since(&counters.decode, start);
                Some(())
            }
        }
    }

    /// Reads a part, and computes its CRC32 while the bytes are in the cache. If only the CRC is needed,
    /// reads into `scratch` step by step.
    fn read(
        &self,
        part: &RecordPart,
        mut to: Option<&mut [u8]>,
        scratch: &mut Vec<u8>,
        crc: &mut crc32fast::Hasher,
        counters: &Counters,
    ) -> Option<()> {
        let base = self.shard.row(self.of.at.record).ok()?.offset;
        let has_crc = self.shard.options().check_crc;
        for step in steps(&part.bytes, STEP_BYTES as u64) {
            let here = size(step.start - part.bytes.start)?..size(step.end - part.bytes.start)?;
            let bytes = match &mut to {
                Some(to) => to.get_mut(here)?,
                None => room(scratch, step.end - step.start).ok()?,
            };
            let start = Instant::now();
            let (file, at) = (self.shard.file(), base.checked_add(step.start)?);
            // The CRC32 of the record covers these bytes, and a wrong record is read again.
            let read = if has_crc { file.read_exact_unchecked_at(bytes, at) } else { file.read_exact_at(bytes, at) };
            read.ok()?;
            add_since(&counters.read, start);
            if has_crc {
                let start = Instant::now();
                crc.update(bytes);
                add_since(&counters.crc, start);
            }
        }
        add(&counters.read_bytes, part.bytes.end - part.bytes.start);
        Some(())
    }

    pub(crate) const fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Takes the row, its axes and its staged values when all parts are done.
    pub(crate) fn take_row(&self) -> Option<(RowMut, Vec<u64>, Vec<StagedValue>)> {
        let UnmadeRow { staged, handle, dims } = self.row.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((Arc::into_inner(handle)?, dims, staged))
    }

    /// Returns true if every part is done and the combined CRC32 equals the record's.
    pub(crate) fn is_whole(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && (!self.shard.options().check_crc || self.crc() == self.frame.body_crc32)
    }

    fn crc(&self) -> u32 {
        let kept = self.kept.iter().map(|kept| (kept.start, kept.crc.clone()));
        let parts = self.parts.iter().map(|part| (part.bytes.start, part.state().crc.clone()));
        let mut all: Vec<(u64, crc32fast::Hasher)> = kept.chain(parts).collect();
        all.sort_by_key(|(start, _)| *start);
        let mut whole = crc32fast::Hasher::new();
        all.iter().for_each(|(_, crc)| whole.combine(crc));
        whole.finalize()
    }

    pub(crate) fn value<'a>(
        &'a self,
        staged: &'a [StagedValue],
        position: usize,
        limits: &Limits,
    ) -> Result<Option<FieldValue<'a>>> {
        let head = self.kept.first().map_or(&[][..], |kept| &kept.bytes);
        let head = size(self.frame.head_bytes.into()).and_then(|length| head.get(..length)).unwrap_or_default();
        let Some(place) = Record::places(&self.frame, head)?.into_iter().nth(position).flatten() else {
            return Ok(None);
        };
        if place.decoded_bytes > limits.max_decoded_bytes {
            return Err(FormatError::limit(
                "decoded field",
                "max_decoded_bytes",
                limits.max_decoded_bytes,
                place.decoded_bytes,
            ));
        }
        let bytes = match staged.iter().find(|staged| staged.bytes == place.bytes) {
            Some(staged) => staged.room.bytes(),
            None => within(&self.kept, &place.bytes),
        };
        // Users never see this error, because the record is then read whole.
        let bytes =
            bytes.ok_or_else(|| FormatError::usage(format!("value {position} in a large record was not kept")))?;
        Ok(Some(FieldValue {
            codec: place.codec,
            decoded_bytes: place.decoded_bytes,
            descriptor: place.descriptor,
            bytes,
        }))
    }

    /// Returns the window of a field that was decoded in parts, if the window is known.
    pub(crate) fn window(&self, number: usize) -> Option<CutOf> {
        match self.fields.get(number) {
            Some(MadeField::Array(array)) => array.window,
            Some(MadeField::Kept | MadeField::Stored(_) | MadeField::Staged) | None => None,
        }
    }

    /// Completes a field that was decoded in parts. Returns false for all other fields.
    pub(crate) fn complete(&self, number: usize, row: &mut RowMut, dims: &mut [u64]) -> Result<bool> {
        match self.fields.get(number) {
            Some(MadeField::Stored(length)) => {
                dims.fill(*length);
                Ok(true)
            }
            Some(MadeField::Array(array)) => {
                if !array.split.is_copy() {
                    array.split.join(&self.ends(number), row.part(number))?;
                }
                Ok(true)
            }
            Some(MadeField::Kept | MadeField::Staged) | None => Ok(false),
        }
    }

    fn ends(&self, number: usize) -> Vec<Ends> {
        let of_field = self.parts.iter().filter(|part| part.of.is_some_and(|(field, _)| field == number));
        let take = |part: &RecordPart| std::mem::take(&mut part.state().ends);
        of_field.map(take).collect()
    }
}
