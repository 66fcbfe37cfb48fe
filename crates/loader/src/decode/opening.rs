//! Opens a large record: reads its head and cuts the rest into parts.

use super::added::AddedRecords;
use super::cuts::{Cut, CutGoal, Cuts, LargeValue};
use super::decoder::RowDecoder;
use super::fields::FieldDecoder;
use super::recipe::Recipe;
use super::record::{RecordBytes, RowField, RowRecord};
use super::tools::Tools;
use crate::rows::{PartMut, RowMut};
use crate::sample::{RowId, SampleAt};
use crate::stage::{StagedPart, StagedParts};
use crate::supply::{KeptBytes, LargeRecord, MadeField, PartTarget, RecordPart, StagedValue, UnmadeRow};
use crate::supply::{size, steps, within};
use shardpack_format::{FRAME_BYTES, FieldPlace, Frame, Record};
use shardpack_reader::Shard;
use shardpack_reader::raw::read_head;
use std::ops::Range;
use std::sync::Arc;

struct Opening<'a> {
    recipe: &'a Recipe,
    tools: &'a mut Tools,
    decoders: &'a mut [Box<dyn FieldDecoder>],
    shard: &'a Arc<Shard>,
    at: SampleAt,
}

struct CutRecord {
    frame: Frame,
    cuts: Cuts,
    kept: Vec<KeptBytes>,
}

/// The staged parts of a value. A part is `None` once a thread has taken it.
type FreeParts = Vec<Option<Box<dyn StagedPart>>>;

impl RowDecoder {
    /// Opens a large record. If it cannot be decoded in parts, returns the row as the error. The record must then be
    /// read whole.
    pub(crate) fn open(
        &mut self,
        recipe: &Recipe,
        shard: &Arc<Shard>,
        of: RowId,
        row: RowMut,
        dims: &[u64],
    ) -> Result<LargeRecord, RowMut> {
        let Self { tools, fields: decoders, .. } = self;
        Opening { recipe, tools, decoders, shard, at: of.at }.open(of, row, dims)
    }
}

impl Opening<'_> {
    /// Memory that opening a record may keep, as a multiple of the part size.
    const MOST_KEPT: u64 = 4;

    fn open(mut self, of: RowId, row: RowMut, dims: &[u64]) -> Result<LargeRecord, RowMut> {
        let Some(CutRecord { frame, cuts, kept }) = self.cut(&row, dims) else { return Err(row) };
        // Claim staging memory last, after all steps that can fail, because it can be freed only with the whole batch.
        let Some((staged, mut free)) = self.claim(&row, &cuts.staged) else { return Err(row) };
        let (handle, places) = row.divide(&cuts.rows)?;
        let mut places: Vec<Option<PartMut>> = places.into_iter().map(Some).collect();
        let part = |Cut { bytes, of, goal }: Cut| {
            let to = match goal {
                CutGoal::Nowhere => None,
                CutGoal::Row(number) => places.get_mut(number).and_then(Option::take).map(PartTarget::Row),
                CutGoal::Stage(value, part) => {
                    let part = free.get_mut(value).and_then(|parts| parts.get_mut(part)?.take());
                    part.map(|part| PartTarget::Stage { part, _handle: Arc::clone(&handle) })
                }
            };
            RecordPart::new(bytes, of, to)
        };
        let parts = cuts.parts.into_iter().map(part).collect();
        // Drop the parts that no `Cut` took. From here on, only threads hold parts.
        drop(free);
        let row = UnmadeRow { staged, handle, dims: dims.to_vec() };
        Ok(LargeRecord::new(of, Arc::clone(self.shard), frame, kept, cuts.fields, parts, row))
    }

    fn claim(&self, row: &RowMut, wanted: &[(usize, Range<u64>)]) -> Option<(Vec<StagedValue>, Vec<FreeParts>)> {
        let (mut staged, mut free) = (Vec::new(), Vec::new());
        for (field, bytes) in wanted {
            let (slot, spot) = row.spot(*field)?;
            let length = size(bytes.end - bytes.start)?;
            let StagedParts { room, parts } = slot.room_for(&spot, length, self.recipe.part_bytes)?;
            staged.push(StagedValue { field: *field, bytes: bytes.clone(), room });
            free.push(parts.into_iter().map(Some).collect());
        }
        Some((staged, free))
    }

    /// Cuts the record into parts. Returns `None` if the record must be read whole.
    fn cut(&mut self, row: &RowMut, dims: &[u64]) -> Option<CutRecord> {
        let (shard, recipe, part_bytes) = (self.shard, self.recipe, self.recipe.part_bytes as u64);
        shard.check_length(self.at.record).ok()?;
        let (frame, head) = read_head(shard, self.at.record).ok()?;
        let places = Record::places(&frame, &head).ok()?;
        let mut cuts = Cuts::default();
        self.tools.window = None;
        for number in 0..recipe.fields.plans.len() {
            let field = self.field(number, row, dims, &frame, &places, &mut cuts)?;
            cuts.fields.push(field);
        }
        // Values that the batch does not contain are read only to compute the CRC.
        let wanted = recipe.fields.positions();
        let wanted = wanted.flat_map(|position| [shard.stored_at(position), shard.segments_at(position)]);
        let wanted: Vec<_> = wanted.flatten().filter_map(|position| places.get(position)?.as_ref()).collect();
        for place in places.iter().flatten() {
            let is_wanted = wanted.contains(&place);
            if !cuts.has(&place.bytes) && !is_wanted {
                steps(&place.bytes, part_bytes).for_each(|bytes| cuts.push_unused(bytes, None));
            }
        }
        cuts.parts.sort_by_key(|cut| cut.bytes.start);
        let kept = self.keep(&frame, &head, &cuts)?;
        check_gaps(&frame, &places, &kept)?;
        (!cuts.parts.is_empty()).then_some(CutRecord { frame, cuts, kept })
    }

    fn field(
        &mut self,
        number: usize,
        row: &RowMut,
        dims: &[u64],
        frame: &Frame,
        places: &[Option<FieldPlace<'_>>],
        cuts: &mut Cuts,
    ) -> Option<MadeField> {
        let (recipe, shard, at) = (self.recipe, &**self.shard, self.at);
        let field = recipe.fields.plans.get(number)?;
        let position = field.kind.position().and_then(|position| shard.stored_at(position));
        let place = position.and_then(|position| places.get(position)?.as_ref());
        let Some(place) = place.filter(|place| !place.bytes.is_empty()) else { return Some(MadeField::Kept) };
        // If two fields use the same bytes, the record is read whole.
        if cuts.has(&place.bytes) {
            return None;
        }
        let payload = RecordBytes::Whole { frame, bytes: &[] };
        let record = RowRecord { recipe, shard, at, payload, added: AddedRecords::NONE };
        let of = RowField { record, field, number };
        let dims = dims.get(field.dims_range())?;
        let value = LargeValue { of: &of, place, room: row.length(number), dims, part_bytes: recipe.part_bytes };
        self.decoders.get_mut(number)?.cut(self.tools, &value, cuts)
    }

    fn keep(&self, frame: &Frame, head: &[u8], cuts: &Cuts) -> Option<Vec<KeptBytes>> {
        let offset = self.shard.row(self.at.record).ok()?.offset;
        let end = std::iter::once(frame.record_bytes..frame.record_bytes);
        let ends = cuts.parts.iter().map(|cut| cut.bytes.clone()).chain(end);
        let (mut kept, mut at, mut left) =
            (Vec::new(), 0, Self::MOST_KEPT.saturating_mul(self.recipe.part_bytes as u64));
        for part in ends {
            let length = part.start.checked_sub(at)?;
            left = left.checked_sub(length)?;
            if length > 0 {
                let mut bytes = vec![0; size(length)?];
                // Copy these bytes instead of reading them again, so the CRC covers exactly the bytes that were
                // parsed.
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

/// Returns `None` unless all bytes between the values are zero.
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
