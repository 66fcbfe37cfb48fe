//! One large record, made into its row by all threads together.
//!
//! The thread that takes the row *opens* the record: it reads what must be known first, the head,
//! small values and the headers of chunks, and cuts the rest into parts. Each part is then taken by
//! whoever has time, and goes once through the cache of that core: read, CRC32, decoded to its
//! place. Parts that need no decoding are read to their place. Whoever ends the last part joins the
//! CRCs, compares, and completes the row.
//!
//! Whatever is amiss — a record that cannot be cut, a read that fails, a CRC, a chunk — the record
//! is read once more as a whole, in the way of small records. That way alone says what is wrong, or
//! that it was nothing lasting; here nobody has to.

use super::array_row::ArrayRows;
use super::fields::From;
use super::job::RowOf;
use super::read;
use super::rows::{PartMut, RowMut};
use super::stats::{Counters, add, add_since};
use super::work::{FieldOf, Recipe, SampleAt, Source};
use crate::shard::{Shard, room};
use shardpack_codec::blosc2::HEADER_BYTES;
use shardpack_codec::{ArraySplit, Ends};
use shardpack_format::{Error as FormatError, FRAME_BYTES, FieldPlace, FieldValue, Frame, Limits, Record, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes that are read at a time: they stay in the second-level cache until their CRC is known.
const STEP_BYTES: usize = 256 << 10;

/// A large record and the row that it becomes.
pub(super) struct Large {
    pub(super) of: RowOf,
    shard: Arc<Shard>,
    frame: Frame,
    /// What is not cut: the head, small values, and what is between values. In order.
    kept: Vec<Kept>,
    fields: Vec<Field>,
    parts: Vec<Part>,
    /// The next part that nobody has taken.
    next: AtomicUsize,
    /// Parts that are not done.
    left: AtomicUsize,
    failed: AtomicBool,
    abandoned: AtomicBool,
    /// The row, and the axes of its ragged fields, until it is complete.
    row: Mutex<Option<(Arc<RowMut>, Vec<u64>)>>,
}

/// Bytes of the record that were read by whoever opened it.
struct Kept {
    /// From the start of the record.
    start: u64,
    bytes: Vec<u8>,
    /// Without the frame, which has one of its own.
    crc: crc32fast::Hasher,
}

/// What becomes of a field of the batch.
enum Field {
    /// Decoded of what was kept, when all parts are there.
    Kept,
    /// Its stored bytes come as they are, so many.
    Stored(u64),
    Array(Box<ArraySplit>),
}

/// Consecutive bytes of the record, for one thread.
struct Part {
    /// From the start of the record.
    bytes: Range<u64>,
    /// Number of the field, and of the part in its array; `None` for bytes that the batch has
    /// nothing of.
    of: Option<(usize, usize)>,
    state: Mutex<PartState>,
}

#[derive(Default)]
struct PartState {
    to: Option<PartMut>,
    crc: crc32fast::Hasher,
    ends: Ends,
}

/// What a thread works on parts with: used again for every part.
#[derive(Default)]
pub(super) struct PartBench {
    bytes: Vec<u8>,
}

/// What one thread opens a record with.
pub(super) struct Opening<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) arrays: &'a mut ArrayRows,
    pub(super) shard: &'a Arc<Shard>,
    pub(super) at: SampleAt,
    /// Bytes of a part that is not decoded, about.
    pub(super) part_bytes: usize,
}

/// How a record is cut.
#[derive(Default)]
struct Cuts {
    parts: Vec<Cut>,
    /// Where parts go: the field, and its bytes.
    to: Vec<(usize, Range<usize>)>,
    fields: Vec<Field>,
}

/// A part that is to be.
struct Cut {
    bytes: Range<u64>,
    of: Option<(usize, usize)>,
    /// Its number among those that go somewhere.
    to: usize,
}

impl Cuts {
    /// Adds part `part` of a field, which goes to `to`.
    fn push(&mut self, bytes: Range<u64>, (field, part): (usize, usize), to: Range<usize>) {
        self.parts.push(Cut { bytes, of: Some((field, part)), to: self.to.len() });
        self.to.push((field, to));
    }

    /// Whether a value is cut already.
    fn has(&self, value: &Range<u64>) -> bool {
        self.parts.iter().any(|cut| value.contains(&cut.bytes.start))
    }
}

fn size(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()
}

impl Opening<'_> {
    /// As many bytes as those of this many parts may be kept by whoever opens a record.
    const MOST_KEPT: u64 = 4;

    /// Opens the record of a row. The row comes back if the record has to be read as a whole.
    pub(super) fn open(mut self, of: RowOf, row: RowMut, dims: &[u64]) -> Result<Large, RowMut> {
        let Some((frame, cuts, kept)) = self.cut(&row, dims) else { return Err(row) };
        let (row, places) = row.divide(&cuts.to)?;
        let mut places: Vec<Option<PartMut>> = places.into_iter().map(Some).collect();
        let part = |Cut { bytes, of, to }: Cut| {
            let to = of.and_then(|_| places.get_mut(to)?.take());
            Part { bytes, of, state: Mutex::new(PartState { to, ..PartState::default() }) }
        };
        let parts: Vec<Part> = cuts.parts.into_iter().map(part).collect();
        Ok(Large {
            of,
            shard: Arc::clone(self.shard),
            frame,
            kept,
            fields: cuts.fields,
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(parts.len()),
            parts,
            failed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            row: Mutex::new(Some((row, dims.to_vec()))),
        })
    }

    /// `None` if the record has to be read as a whole.
    fn cut(&mut self, row: &RowMut, dims: &[u64]) -> Option<(Frame, Cuts, Vec<Kept>)> {
        let (shard, record) = (self.shard, self.at.record);
        shard.check_length(record).ok()?;
        let (frame, head) = read::head(shard, record).ok()?;
        let places = Record::places(&frame, &head).ok()?;
        let mut cuts = Cuts::default();
        self.arrays.begin();
        for number in 0..self.recipe.fields.plans.len() {
            let field = self.field(number, row, dims, &frame, &places, &mut cuts)?;
            cuts.fields.push(field);
        }
        // Of values that the batch has nothing of, only the CRC is wanted.
        for place in places.iter().flatten() {
            let is_wanted = self.recipe.fields.plans.iter().any(|plan| {
                let position = plan.from.position();
                position.and_then(|position| places.get(position)).is_some_and(|wanted| wanted.as_ref() == Some(place))
            });
            if !cuts.has(&place.bytes) && !is_wanted {
                let steps = steps(&place.bytes, self.part_bytes as u64);
                cuts.parts.extend(steps.map(|bytes| Cut { bytes, of: None, to: 0 }));
            }
        }
        cuts.parts.sort_by_key(|cut| cut.bytes.start);
        let kept = self.keep(&frame, &head, &cuts)?;
        check_gaps(&frame, &places, &kept)?;
        (!cuts.parts.is_empty()).then_some((frame, cuts, kept))
    }

    /// What becomes of a field; its parts are added to `cuts`.
    fn field(
        &mut self,
        number: usize,
        row: &RowMut,
        dims: &[u64],
        frame: &Frame,
        places: &[Option<FieldPlace<'_>>],
        cuts: &mut Cuts,
    ) -> Option<Field> {
        let plan = self.recipe.fields.plans.get(number)?;
        let (shard, at, record) = (self.shard, self.at, self.at.record);
        let place = plan.from.position().and_then(|position| places.get(position)?.as_ref());
        let Some(place) = place.filter(|place| !place.bytes.is_empty()) else { return Some(Field::Kept) };
        // A field that is asked for twice is cut once: the other has to have the bytes.
        if cuts.has(&place.bytes) {
            return None;
        }
        let limits = &shard.options().limits;
        let (start, length) = (place.bytes.start, place.bytes.end - place.bytes.start);
        match &plan.from {
            From::Raw { .. } if place.decoded_bytes <= limits.max_decoded_bytes => {
                if length > row.length(number) as u64 {
                    return None;
                }
                for (part, bytes) in steps(&place.bytes, self.part_bytes as u64).enumerate() {
                    let to = size(bytes.start - start)?..size(bytes.end - start)?;
                    cuts.push(bytes, (number, part), to);
                }
                Some(Field::Stored(length))
            }
            From::Array { channels_first, cut: None, .. } if place.decoded_bytes <= limits.max_decoded_bytes => {
                let (codec, decoded_bytes, descriptor) = (place.codec, place.decoded_bytes, place.descriptor);
                let value = FieldValue { codec, decoded_bytes, descriptor, bytes: &[] };
                let source = Source::Whole { frame, bytes: &[] };
                let field = FieldOf { shard, at, field: plan, number, source };
                let axes = if plan.is_ragged() { plan.shape.len() } else { 0 };
                let dims = dims.get(plan.dims_at..plan.dims_at + axes)?;
                let offset = shard.row(record).ok()?.offset + start;
                let header = |at: usize| {
                    let mut header = [0; HEADER_BYTES];
                    shard.file().read_exact_at(&mut header, offset.checked_add(at as u64)?).ok()?;
                    Some(header)
                };
                let bytes = (size(length)?, self.part_bytes);
                let split = self.arrays.split(self.recipe, &field, &value, (*channels_first, dims), bytes, header);
                let Some(split) = split else { return Some(Field::Kept) };
                for (part, here) in split.parts().iter().enumerate() {
                    let bytes = start + here.payload.start as u64..start + here.payload.end as u64;
                    cuts.push(bytes, (number, part), here.out.clone());
                }
                Some(Field::Array(Box::new(split)))
            }
            _ => Some(Field::Kept),
        }
    }

    /// Reads what is between the parts.
    fn keep(&self, frame: &Frame, head: &[u8], cuts: &Cuts) -> Option<Vec<Kept>> {
        let offset = self.shard.row(self.at.record).ok()?.offset;
        let end = std::iter::once(frame.record_bytes..frame.record_bytes);
        let ends = cuts.parts.iter().map(|cut| cut.bytes.clone()).chain(end);
        let (mut kept, mut at, mut left) = (Vec::new(), 0, Self::MOST_KEPT.saturating_mul(self.part_bytes as u64));
        for part in ends {
            let length = part.start.checked_sub(at)?;
            left = left.checked_sub(length)?;
            if length > 0 {
                let mut bytes = vec![0; size(length)?];
                // The head was looked at: its bytes are those that the CRC is made of.
                let known = if at == 0 { head.len() } else { 0 };
                let (front, rest) = bytes.split_at_mut_checked(known)?;
                front.copy_from_slice(head.get(..known)?);
                self.shard.file().read_exact_at(rest, offset.checked_add(at)?.checked_add(known as u64)?).ok()?;
                let mut crc = crc32fast::Hasher::new();
                crc.update(bytes.get(if at == 0 { size(FRAME_BYTES)? } else { 0 }..)?);
                kept.push(Kept { start: at, bytes, crc });
            }
            at = part.end;
        }
        Some(kept)
    }
}

/// Whether the bytes between values are zero: padding.
fn check_gaps(frame: &Frame, places: &[Option<FieldPlace<'_>>], kept: &[Kept]) -> Option<()> {
    let mut at = u64::from(frame.head_bytes);
    for place in places.iter().flatten() {
        let gap = at..place.bytes.start;
        at = place.bytes.end;
        let zero = gap.is_empty() || within(kept, &gap)?.iter().all(|&byte| byte == 0);
        zero.then_some(())?;
    }
    Some(())
}

/// These bytes of the record, if they were kept.
fn within<'k>(kept: &'k [Kept], bytes: &Range<u64>) -> Option<&'k [u8]> {
    let number = kept.partition_point(|kept| kept.start <= bytes.start).checked_sub(1)?;
    let kept = kept.get(number)?;
    kept.bytes.get(size(bytes.start - kept.start)?..size(bytes.end - kept.start)?)
}

/// Consecutive parts of `step` bytes.
fn steps(bytes: &Range<u64>, step: u64) -> impl Iterator<Item = Range<u64>> {
    let (Range { start, end }, step) = (bytes.clone(), step.max(1));
    (0..(end - start).div_ceil(step)).map(move |part| start + part * step..(start + (part + 1) * step).min(end))
}

impl Part {
    fn state(&self) -> MutexGuard<'_, PartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Large {
    /// Whether there are parts that nobody has taken.
    pub(super) fn has_parts(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts.len()
    }

    /// Bytes that were read to open it.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(|kept| kept.bytes.len() as u64).sum()
    }

    /// Takes a part; `None` if none is left.
    pub(super) fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.parts.len()).then_some(number)
    }

    /// Reads and decodes a part that was taken.
    pub(super) fn work(&self, number: usize, arrays: &mut ArrayRows, bench: &mut PartBench, counters: &Counters) {
        // What fails once is read as a whole anyway.
        let wanted = !self.failed.load(Ordering::Relaxed) && !self.is_abandoned();
        if wanted && self.part(number, arrays, bench, counters).is_none() {
            self.fail();
        }
    }

    /// Nobody wants the row any more.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The record has to be read as a whole.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// A part that was taken is done, or has failed: whether it was the last one.
    pub(super) fn done(&self, number: usize) -> bool {
        if let Some(part) = self.parts.get(number) {
            // Its bytes of the row are given back before it counts.
            part.state().to = None;
        }
        // AcqRel: who ends the last part sees what all others have done.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn part(&self, number: usize, arrays: &mut ArrayRows, bench: &mut PartBench, counters: &Counters) -> Option<()> {
        let part = self.parts.get(number)?;
        let mut state = part.state();
        let PartState { to, crc, ends } = &mut *state;
        let length = size(part.bytes.end - part.bytes.start)?;
        let split = match part.of.and_then(|(field, part)| Some((self.fields.get(field)?, part))) {
            Some((Field::Array(split), part)) if !split.is_copy() => Some((split, part)),
            _ => None,
        };
        match (to, split) {
            (Some(to), None) => self.read(part, Some(to.bytes()), &mut bench.bytes, crc, counters),
            (None, None) => self.read(part, None, &mut bench.bytes, crc, counters),
            (None, Some(_)) => None,
            (Some(to), Some((split, number))) => {
                room(&mut bench.bytes, read::size_class(length as u64)).ok()?;
                let bytes = bench.bytes.get_mut(..length)?;
                self.read(part, Some(bytes), &mut Vec::new(), crc, counters)?;
                let start = Instant::now();
                *ends = arrays.part(split, number, bytes, to.bytes()).ok()?;
                add_since(&counters.decode, start);
                Some(())
            }
        }
    }

    /// Reads a part, and its CRC32 while it is in the cache; to `scratch`, step by step, if it is
    /// wanted for nothing else.
    fn read(
        &self,
        part: &Part,
        mut to: Option<&mut [u8]>,
        scratch: &mut Vec<u8>,
        crc: &mut crc32fast::Hasher,
        counters: &Counters,
    ) -> Option<()> {
        let base = self.shard.row(self.of.record).ok()?.offset;
        for step in steps(&part.bytes, STEP_BYTES as u64) {
            let here = size(step.start - part.bytes.start)?..size(step.end - part.bytes.start)?;
            let bytes = match &mut to {
                Some(to) => to.get_mut(here)?,
                None => room(scratch, step.end - step.start).ok()?,
            };
            let start = Instant::now();
            self.shard.file().read_exact_at(bytes, base.checked_add(step.start)?).ok()?;
            add_since(&counters.read, start);
            if self.shard.options().check_crc {
                let start = Instant::now();
                crc.update(bytes);
                add_since(&counters.crc, start);
            }
        }
        add(&counters.read_bytes, part.bytes.end - part.bytes.start);
        Some(())
    }

    pub(super) const fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// The row, when all parts are done.
    pub(super) fn take_row(&self) -> Option<(RowMut, Vec<u64>)> {
        let (row, dims) = self.row.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((Arc::into_inner(row)?, dims))
    }

    /// Whether every part is there, and the CRC32 of all of them is that of the record.
    pub(super) fn is_whole(&self) -> bool {
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

    /// The value of a stored field, out of what was kept.
    pub(super) fn value(&self, position: usize, limits: &Limits) -> Result<Option<FieldValue<'_>>> {
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
        let bytes = within(&self.kept, &place.bytes);
        let bytes =
            bytes.ok_or_else(|| FormatError::internal("value of a large record", "one that was kept", position))?;
        Ok(Some(FieldValue {
            codec: place.codec,
            decoded_bytes: place.decoded_bytes,
            descriptor: place.descriptor,
            bytes,
        }))
    }

    /// Completes a field that was made in parts, with its axes; false if it was not.
    pub(super) fn complete(&self, number: usize, row: &mut RowMut, dims: &mut [u64]) -> Result<bool> {
        match self.fields.get(number) {
            Some(Field::Stored(length)) => {
                dims.fill(*length);
                Ok(true)
            }
            Some(Field::Array(split)) => {
                if !split.is_copy() {
                    split.join(&self.ends(number), row.part(number))?;
                }
                Ok(true)
            }
            Some(Field::Kept) | None => Ok(false),
        }
    }

    fn ends(&self, number: usize) -> Vec<Ends> {
        let of_field = self.parts.iter().filter(|part| part.of.is_some_and(|(field, _)| field == number));
        let take = |part: &Part| std::mem::take(&mut part.state().ends);
        of_field.map(take).collect()
    }
}
