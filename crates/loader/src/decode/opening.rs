//! Opens a large record: reads what must be known first, and cuts the rest into parts.

use super::array_row::ArrayRows;
use super::recipe::Recipe;
use super::record::{FieldOf, Payload};
use crate::fields::From;
use crate::rows::{PartMut, RowMut, Share};
use crate::sample::{RowId, SampleAt};
use crate::stage::{StagedPart, StagedParts};
use crate::supply::{KeptBytes, LargeRecord, MadeField, PartTarget, RecordPart, StagedValue, UnmadeRow, read_head};
use crate::supply::{size, steps, within};
use shardpack_format::{FRAME_BYTES, FieldPlace, FieldValue, Frame, Record};
use shardpack_reader::Shard;
use std::ops::Range;
use std::sync::Arc;

/// What one thread opens a record with.
pub(crate) struct Opening<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) arrays: &'a mut ArrayRows,
    pub(crate) shard: &'a Arc<Shard>,
    pub(crate) at: SampleAt,
    /// Bytes of a part that is not decoded, about.
    pub(crate) part_bytes: usize,
}

/// How a record is cut.
#[derive(Default)]
struct Cuts {
    parts: Vec<Cut>,
    /// Where parts go in the row: the field, and what of it.
    to: Vec<(usize, Share)>,
    /// Values that go to staging memory: the field, and where they are in the record.
    staged: Vec<(usize, Range<u64>)>,
    fields: Vec<MadeField>,
}

/// A part that is to be.
struct Cut {
    bytes: Range<u64>,
    of: Option<(usize, usize)>,
    goal: Goal,
}

/// Where it is to go.
#[derive(Clone, Copy)]
enum Goal {
    Nowhere,
    /// Its number among those that go to the row.
    Row(usize),
    /// The number of its value among those that are staged, and its own in that value.
    Stage(usize, usize),
}

impl Cuts {
    /// Adds part `part` of a field, which goes to `to` in the row.
    fn push(&mut self, bytes: Range<u64>, (field, part): (usize, usize), to: Share) {
        self.parts.push(Cut { bytes, of: Some((field, part)), goal: Goal::Row(self.to.len()) });
        self.to.push((field, to));
    }

    /// Adds a field that is staged, in parts of `step` bytes.
    fn stage(&mut self, field: usize, bytes: &Range<u64>, step: u64) {
        let value = self.staged.len();
        let cut = |(part, bytes)| Cut { bytes, of: Some((field, part)), goal: Goal::Stage(value, part) };
        self.parts.extend(steps(bytes, step).enumerate().map(cut));
        self.staged.push((field, bytes.clone()));
    }

    /// Whether a value is cut already.
    fn has(&self, value: &Range<u64>) -> bool {
        self.parts.iter().any(|cut| value.contains(&cut.bytes.start))
    }
}

/// Parts of one value in staging memory that nobody has yet.
type Free = Vec<Option<Box<dyn StagedPart>>>;

impl Opening<'_> {
    /// As many bytes as those of this many parts may be kept by whoever opens a record.
    const MOST_KEPT: u64 = 4;

    /// Opens the record of a row. The row comes back if the record has to be read as a whole.
    pub(crate) fn open(mut self, of: RowId, row: RowMut, dims: &[u64]) -> Result<LargeRecord, RowMut> {
        let Some((frame, cuts, kept)) = self.cut(&row, dims) else { return Err(row) };
        // After all that may fail: what is claimed of staging memory is gone until the next batch.
        let Some((there, mut free)) = self.claim(&row, &cuts.staged) else { return Err(row) };
        let (handle, places) = row.divide(&cuts.to)?;
        let mut places: Vec<Option<PartMut>> = places.into_iter().map(Some).collect();
        let part = |Cut { bytes, of, goal }: Cut| {
            let to = match goal {
                Goal::Nowhere => None,
                Goal::Row(number) => places.get_mut(number).and_then(Option::take).map(PartTarget::Row),
                Goal::Stage(value, part) => {
                    let part = free.get_mut(value).and_then(|parts| parts.get_mut(part)?.take());
                    part.map(|part| PartTarget::Stage { part, _handle: Arc::clone(&handle) })
                }
            };
            RecordPart::new(bytes, of, to)
        };
        let parts = cuts.parts.into_iter().map(part).collect();
        // Whatever was not asked for: no part is left but those that threads have.
        drop(free);
        let row = UnmadeRow { there, handle, dims: dims.to_vec() };
        Ok(LargeRecord::new(of, Arc::clone(self.shard), frame, kept, cuts.fields, parts, row))
    }

    /// Claims staging memory for these values; `None` if there is not enough.
    fn claim(&self, row: &RowMut, staged: &[(usize, Range<u64>)]) -> Option<(Vec<StagedValue>, Vec<Free>)> {
        let (mut there, mut free) = (Vec::new(), Vec::new());
        for (field, bytes) in staged {
            let (slot, spot) = row.spot(*field)?;
            let StagedParts { room, parts } = slot.room_for(&spot, size(bytes.end - bytes.start)?, self.part_bytes)?;
            there.push(StagedValue { field: *field, bytes: bytes.clone(), room });
            free.push(parts.into_iter().map(Some).collect());
        }
        Some((there, free))
    }

    /// `None` if the record has to be read as a whole.
    fn cut(&mut self, row: &RowMut, dims: &[u64]) -> Option<(Frame, Cuts, Vec<KeptBytes>)> {
        let (shard, record) = (self.shard, self.at.record);
        shard.check_length(record).ok()?;
        let (frame, head) = read_head(shard, record).ok()?;
        let places = Record::places(&frame, &head).ok()?;
        let mut cuts = Cuts::default();
        self.arrays.begin();
        for number in 0..self.recipe.fields.plans.len() {
            let field = self.field(number, row, dims, &frame, &places, &mut cuts)?;
            cuts.fields.push(field);
        }
        // Of values that the batch has nothing of, only the CRC is wanted.
        for place in places.iter().flatten() {
            let mut wanted =
                self.recipe.fields.positions().filter_map(|position| places.get(shard.stored_at(position)?)?.as_ref());
            let is_wanted = wanted.any(|wanted| wanted == place);
            if !cuts.has(&place.bytes) && !is_wanted {
                let steps = steps(&place.bytes, self.part_bytes as u64);
                cuts.parts.extend(steps.map(|bytes| Cut { bytes, of: None, goal: Goal::Nowhere }));
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
    ) -> Option<MadeField> {
        let plan = self.recipe.fields.plans.get(number)?;
        let (shard, at, record) = (self.shard, self.at, self.at.record);
        let position = plan.from.position().and_then(|position| shard.stored_at(position));
        let place = position.and_then(|position| places.get(position)?.as_ref());
        let Some(place) = place.filter(|place| !place.bytes.is_empty()) else { return Some(MadeField::Kept) };
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
                    cuts.push(bytes, (number, part), Share::of_bytes(to));
                }
                Some(MadeField::Stored(length))
            }
            // Patches too: the device cuts them out of the whole.
            From::Array { cut, .. }
                if plan.is_shared() && (cut.is_some() || place.decoded_bytes <= limits.max_decoded_bytes) =>
            {
                cuts.stage(number, &place.bytes, self.part_bytes as u64);
                Some(MadeField::Staged)
            }
            From::Array { channels_first, cut, .. }
                if !plan.staged && (cut.is_some() || place.decoded_bytes <= limits.max_decoded_bytes) =>
            {
                let (codec, decoded_bytes, descriptor) = (place.codec, place.decoded_bytes, place.descriptor);
                let value = FieldValue { codec, decoded_bytes, descriptor, bytes: &[] };
                let source = Payload::Whole { frame, bytes: &[] };
                let field = FieldOf { shard, at, field: plan, number, source };
                let axes = if plan.is_ragged() { plan.shape.len() } else { 0 };
                let dims = dims.get(plan.dims_at..plan.dims_at + axes)?;
                let offset = shard.row(record).ok()?.offset + start;
                let read =
                    |at: usize, to: &mut [u8]| shard.file().read_exact_at(to, offset.checked_add(at as u64)?).ok();
                let (bytes, how) = ((size(length)?, self.part_bytes), (*channels_first, cut.as_ref()));
                let split = self.arrays.split(self.recipe, &field, &value, (how, dims), bytes, read);
                let Some((split, window)) = split else { return Some(MadeField::Kept) };
                for (part, here) in split.parts().iter().enumerate() {
                    let bytes = start + here.payload.start as u64..start + here.payload.end as u64;
                    match here.is_wanted {
                        true => cuts.push(
                            bytes,
                            (number, part),
                            Share { origins: split.origins(), own: here.pixels.clone() },
                        ),
                        false => cuts.parts.push(Cut { bytes, of: Some((number, part)), goal: Goal::Nowhere }),
                    }
                }
                Some(MadeField::Array(Box::new((split, window))))
            }
            _ => Some(MadeField::Kept),
        }
    }

    /// Reads what is between the parts.
    fn keep(&self, frame: &Frame, head: &[u8], cuts: &Cuts) -> Option<Vec<KeptBytes>> {
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
                kept.push(KeptBytes { start: at, bytes, crc });
            }
            at = part.end;
        }
        Some(kept)
    }
}

/// Whether the bytes between values are zero: padding.
fn check_gaps(frame: &Frame, places: &[Option<FieldPlace<'_>>], kept: &[KeptBytes]) -> Option<()> {
    let mut at = u64::from(frame.head_bytes);
    for place in places.iter().flatten() {
        let gap = at..place.bytes.start;
        at = place.bytes.end;
        let zero = gap.is_empty() || within(kept, &gap)?.iter().all(|&byte| byte == 0);
        zero.then_some(())?;
    }
    Some(())
}
