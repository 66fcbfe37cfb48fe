//! Decodes scalar fields. Their numbers come from the index.

use super::FieldDecoder;
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::Col;
use shardpack_format::{Error, Result};

pub(super) struct ColumnDecoder(pub(super) Col);

impl FieldDecoder for ColumnDecoder {
    fn decode(&mut self, _: &mut Tools, of: &RowField<'_>, out: &mut [u8], _: &mut [u64]) -> Result<bool> {
        let value = self.0.bytes(of.record.shard, of.at().record);
        if value.len() != out.len() {
            let (expected, found) = (out.len(), value.len());
            return Err(Error::malformed(format!(
                "the index stores this scalar in {found} bytes instead of {expected}"
            )));
        }
        out.copy_from_slice(value);
        Ok(self.0.is_in(of.record.shard))
    }

    fn is_zero_if_missing(&self) -> bool {
        false
    }
}
