//! Copies stored bytes unchanged.

use super::FieldDecoder;
use crate::decode::cuts::{Cuts, LargeValue};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::RawField;
use crate::rows::Share;
use crate::supply::{MadeField, size, steps};
use shardpack_format::{Error, Result};

pub(super) struct RawDecoder(pub(super) RawField);

impl FieldDecoder for RawDecoder {
    fn decode(&mut self, _: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some(value) = of.value(self.0.position)? else { return Ok(false) };
        let length = value.bytes.len();
        let Some(out) = out.get_mut(..length) else {
            return Err(Error::format(
                "size of the stored value",
                format!("at most {} bytes", out.len()),
                format!("{length} bytes"),
            ));
        };
        out.copy_from_slice(value.bytes);
        dims.fill(length as u64);
        Ok(true)
    }

    fn cut(&mut self, _: &mut Tools, value: &LargeValue<'_>, cuts: &mut Cuts) -> Option<MadeField> {
        if value.place.decoded_bytes > value.of.limits().max_decoded_bytes {
            return Some(MadeField::Kept);
        }
        let (start, length) = (value.place.bytes.start, value.bytes());
        if length > value.room as u64 {
            return None;
        }
        for (part, bytes) in steps(&value.place.bytes, value.part_bytes as u64).enumerate() {
            let to = size(bytes.start - start)?..size(bytes.end - start)?;
            cuts.push_row(bytes, value.of.number, part, Share::of_bytes(to));
        }
        Some(MadeField::Stored(length))
    }
}
