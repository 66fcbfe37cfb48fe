//! The decoder of rows of one thread.

use super::fields::{FieldDecoder, decoder};
use super::recipe::{Context, Recipe};
use super::record::RowRecord;
use super::tools::Tools;
use crate::rows::RowMut;
use crate::sample::SampleAt;
use crate::supply::PartScratch;
use crate::task::RowNotes;
use shardpack_array::ZstdDecoder;
use shardpack_reader::Shard;

/// One thread's decoders, field by field, and its memory: used again for every row.
pub(crate) struct RowDecoder {
    pub(crate) fields: Vec<Box<dyn FieldDecoder>>,
    pub(crate) tools: Tools,
    /// For values whose bytes a stage wants decompressed.
    pub(crate) zstd: ZstdDecoder,
    /// A row that the host decodes for a device.
    pub(crate) host_row: Vec<u8>,
    /// A record that is read for one row.
    pub(crate) record: Vec<u8>,
    /// Memory for parts of large records.
    pub(crate) parts: PartScratch,
    /// Notes about the last row.
    pub(crate) notes: RowNotes,
}

impl RowDecoder {
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self {
            fields: recipe.fields.plans.iter().map(|field| decoder(&field.kind)).collect(),
            tools: Tools::new(&recipe.limits),
            zstd: ZstdDecoder::default(),
            host_row: Vec::new(),
            record: Vec::new(),
            parts: PartScratch::default(),
            notes: RowNotes::default(),
        }
    }

    /// Begins a row.
    pub(crate) fn begin(&mut self) {
        self.notes = RowNotes::default();
        self.tools.window = None;
    }
}

/// A row that is made: its sample, and where its values go.
pub(crate) struct RowTarget<'a> {
    pub(crate) at: SampleAt,
    pub(crate) row: &'a mut RowMut,
    /// The axes that the index promised, of all ragged fields; where only the record knows, they are
    /// put right.
    pub(crate) dims: &'a mut [u64],
}

impl RowTarget<'_> {
    /// Its record.
    pub(crate) const fn record<'r>(
        &self,
        context: Context<'r>,
        shard: &'r Shard,
        payload: super::record::RecordBytes<'r>,
    ) -> RowRecord<'r> {
        RowRecord { recipe: context.recipe, shard, at: self.at, payload }
    }
}
