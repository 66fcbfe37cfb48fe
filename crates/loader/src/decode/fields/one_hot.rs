//! Converts class indices to one-hot weights.

use super::FieldDecoder;
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::OneHotField;
use shardpack_format::{Error, Result};

pub(super) struct OneHotDecoder(pub(super) OneHotField);

impl FieldDecoder for OneHotDecoder {
    fn decode(&mut self, _: &mut Tools, of: &RowField<'_>, out: &mut [u8], _: &mut [u64]) -> Result<bool> {
        let OneHotField { column, classes } = self.0;
        if !column.is_in(of.record.shard) {
            return Ok(false);
        }
        let found = column.integer(of.record.shard, of.at().record);
        let Some(class) = found.and_then(|class| u32::try_from(class).ok()).filter(|&class| class < classes) else {
            let found = found.map_or_else(|| "missing".to_owned(), |found| found.to_string());
            return Err(Error::usage(format!("the label is {found}, but must be a class number below {classes}")));
        };
        out.fill(0);
        let weight = out.as_chunks_mut::<4>().0.get_mut(class as usize);
        weight.into_iter().for_each(|weight| *weight = 1_f32.to_le_bytes());
        Ok(true)
    }
}
