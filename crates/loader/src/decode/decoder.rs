//! Decodes rows. Each thread owns a decoder with its scratch memory.

use super::added::AddedRecords;
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

pub(crate) struct RowDecoder {
    pub(crate) fields: Vec<Box<dyn FieldDecoder>>,
    pub(crate) tools: Tools,
    /// Decompresses values for a stage that needs them uncompressed.
    pub(crate) zstd: ZstdDecoder,
    pub(crate) host_row: Vec<u8>,
    /// Buffer for a record that is read for a single row.
    pub(crate) record: Vec<u8>,
    pub(crate) parts: PartScratch,
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

    pub(crate) fn begin(&mut self) {
        self.notes = RowNotes::default();
        self.tools.window = None;
        self.tools.crops.forget();
    }
}

pub(crate) struct RowTarget<'a> {
    pub(crate) at: SampleAt,
    pub(crate) row: &'a mut RowMut,
    /// Axes of all ragged fields, as given in the index. Decoding corrects them if only the record has the
    /// exact lengths.
    pub(crate) dims: &'a mut [u64],
}

impl RowTarget<'_> {
    pub(crate) const fn record<'r>(
        &self,
        context: Context<'r>,
        shard: &'r Shard,
        payload: super::record::RecordBytes<'r>,
    ) -> RowRecord<'r> {
        RowRecord { recipe: context.recipe, shard, at: self.at, payload, added: AddedRecords::NONE }
    }
}
