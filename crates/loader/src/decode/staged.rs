//! Decodes rows for a device. The stage accepts rows, and the host decodes the rows that the stage refuses or fails
//! to decode.

use super::added::AddedRecords;
use super::decoder::RowDecoder;
use super::fields::{StageTarget, set_row_size};
use super::recipe::Context;
use super::record::{RecordBytes, RowField, RowRecord};
use super::row::counted;
use crate::stage::{Prepared, Spot, StageSlot};
use crate::supply::{Residence, ResidentValue, check, read_alone};
use crate::task::{MendedRow, OddRow};
use shardpack_format::{Error as FormatError, bug, to_usize};
use shardpack_reader::raw::name_field;
use shardpack_reader::{Error, Result};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;

impl RowDecoder {
    /// Passes a field to the stage, or decodes it on the host if the stage refuses it. Returns false and
    /// writes nothing if the sample has no value for it.
    pub(super) fn stage_field(
        &mut self,
        context: Context<'_>,
        of: &RowField<'_>,
        slot: &dyn StageSlot,
        spot: &Spot,
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        if !context.recipe.device_decodes() {
            return self.put(of, slot, spot, dims);
        }
        let resident = context.recipe.resident.as_ref();
        match resident.map_or(Residence::Absent, |all| all.residence(of.at().sample, of.number)) {
            Residence::Absent => {}
            Residence::Missing => return Ok(false),
            // Ignore errors. Reading the record reports their cause.
            Residence::Present(value) => {
                if let Ok(Some(Ok(()))) = self.prepare(of, slot, spot, Some(value), dims) {
                    return Ok(true);
                }
            }
        }
        match self.prepare(of, slot, spot, None, dims)? {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(reason)) => {
                context.refusals.add(reason, || of.record.key().to_owned());
                self.put(of, slot, spot, dims)
            }
        }
    }

    fn put(
        &mut self,
        of: &RowField<'_>,
        slot: &dyn StageSlot,
        spot: &Spot,
        dims: &mut [u64],
    ) -> Result<bool, FormatError> {
        let Some(elements) = self.decoder(of.number).elements(of) else {
            return self.decode_for_device(of, spot.bytes.len(), dims, |row| slot.put(spot, row));
        };
        let Some(decoder) = self.fields.get_mut(of.number) else { bug("a field has no decoder") };
        let mut decoded = Ok(false);
        let mut fill = |levels: &mut [u8]| {
            decoded = decoder.decode_levels(&mut self.tools, of, levels, dims);
            matches!(decoded, Ok(true))
        };
        slot.put_levels(spot, &elements, &mut fill).map_err(no_room)?;
        decoded
    }

    /// Passes a field to the stage, which may refuse it with a reason. Returns `None` if the sample has no
    /// value for it.
    fn prepare(
        &mut self,
        of: &RowField<'_>,
        slot: &dyn StageSlot,
        spot: &Spot,
        resident: Option<ResidentValue>,
        dims: &mut [u64],
    ) -> Result<Option<Result<(), Cow<'static, str>>>, FormatError> {
        let Some(decoder) = self.fields.get_mut(of.number) else { bug("a field has no decoder") };
        let mut to = StageTarget { slot, spot, zstd: &mut self.zstd, resident };
        Ok(match decoder.prepare(&mut self.tools, of, dims, &mut to)? {
            Some(Prepared::Taken(size)) => {
                if let Some(size) = size {
                    let promised: u64 = dims.iter().product();
                    set_row_size(of, dims, size);
                    let found: u64 = dims.iter().product();
                    if found != promised {
                        let expected = format!("{promised} elements (from the index)");
                        return Err(FormatError::format("size of the value", expected, found));
                    }
                }
                self.notes.staged += 1;
                Some(Ok(()))
            }
            Some(Prepared::Refused(reason)) => Some(Err(reason)),
            None => None,
        })
    }

    /// Decodes odd values on the host, into the device's output. Reads the record again, because its run may already
    /// be freed. This costs little, because odd values are rare.
    pub(crate) fn mend(&mut self, context: Context<'_>, odd: &mut OddRow) -> Result<()> {
        let shard = Arc::clone(&odd.shard);
        let payload = RecordBytes::Elsewhere;
        let added = &AddedRecords::read(context, &shard, odd.at)?;
        let record = RowRecord { recipe: context.recipe, shard: &shard, at: odd.at, payload, added };
        for (_, reason) in &odd.fields {
            context.refusals.add(reason.clone(), || record.key().to_owned());
        }
        let mut buffer = Vec::new();
        let bytes = read_alone(&shard, odd.at.record, &mut buffer)?;
        let frame = check(&shard, odd.at.record, bytes).map_err(|error| record.named(error))?;
        let record = RowRecord { payload: RecordBytes::Whole { frame: &frame, bytes }, ..record };
        let record = self.placed(record).map_err(|error| record.named(error))?;
        self.begin();
        let before = counted(&self.tools.pictures);
        for (number, _) in &odd.fields {
            let number = to_usize(*number);
            let found = context.recipe.fields.plans.get(number).zip(odd.handle.spot(number));
            let Some((field, (slot, spot))) = found else {
                return Err(Error::internal(
                    format!("the device could not decode field {number}, which it was not asked to decode"),
                    "",
                    "",
                ));
            };
            let dims = odd.dims.get_mut(field.dims_range()).unwrap_or_default();
            let of = RowField { record, field, number };
            let write = |row: &[u8]| slot.write(spot.bytes.start, row);
            let there = self.decode_for_device(&of, spot.bytes.len(), dims, write);
            if !there.map_err(|error| record.named(name_field(&field.name, error)))? {
                let missing = FormatError::malformed("the record is damaged: it has no value to decode");
                return Err(record.named(name_field(&field.name, missing)));
            }
        }
        self.count_since(before, context.counters);
        Ok(())
    }

    /// Decodes a field on the host for the device. Returns false without calling `keep` if the sample has no
    /// value for it.
    fn decode_for_device(
        &mut self,
        of: &RowField<'_>,
        row_bytes: usize,
        dims: &mut [u64],
        keep: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> Result<bool, FormatError> {
        let mut row = std::mem::take(&mut self.host_row);
        row.clear();
        row.resize(row_bytes, 0);
        let result = self.decode_field(of, &mut row, dims).and_then(|there| {
            if there {
                of.recipe().add_noise(of.field, of.at(), &mut row, dims)?;
                keep(&row).map_err(no_room)?;
            }
            Ok(there)
        });
        self.host_row = row;
        result
    }
}

fn no_room(error: io::Error) -> FormatError {
    FormatError::internal(format!("cannot stage a row for the device: {error}"), "", "")
}

impl OddRow {
    pub(crate) fn erase(&mut self, fields: usize) -> Result<()> {
        let failed = |error| Error::io(format!("batch row {} in device memory", self.row), "clear the row", error);
        (0..fields).try_for_each(|field| self.handle.erase(field)).map_err(failed)
    }

    pub(crate) fn done(self, fault: Option<Error>) -> MendedRow {
        MendedRow { row: self.row, dims: self.dims, fault }
    }
}
