//! What one thread makes rows with.

use super::array_row::ArrayRows;
use super::mask::MaskRows;
use super::pictures::Changes;
use super::recipe::Recipe;
use crate::stage::Stage;
use crate::supply::PartScratch;
use crate::task::RowNotes;
use shardpack_array::ArrayDecoder;
use shardpack_jpeg::PictureDecoder;
use std::any::Any;

/// One thread's decoders and scratch memory: used again for every row.
pub(crate) struct Bench {
    pub(crate) arrays: ArrayRows,
    pub(crate) pictures: PictureDecoder,
    pub(crate) changes: Changes,
    /// The stage's own.
    pub(crate) stage: Box<dyn Any + Send>,
    /// Levels that floats are made of.
    pub(crate) levels: Vec<u8>,
    /// A row that the stage refused.
    pub(crate) refused: Vec<u8>,
    /// The record, where the page cache holds its run.
    pub(crate) record: Vec<u8>,
    /// What parts of large records are worked on with.
    pub(crate) parts: PartScratch,
    pub(crate) masks: MaskRows,
    pub(crate) objects: ArrayDecoder,
    /// What is known of the last row.
    pub(crate) made: RowNotes,
}

impl Bench {
    pub(crate) fn new(recipe: &Recipe, stage: Option<&dyn Stage>) -> Self {
        Self {
            arrays: ArrayRows::new(recipe),
            pictures: PictureDecoder::new(recipe.decode.clone()),
            changes: Changes::default(),
            stage: stage.map_or_else(|| Box::new(()) as Box<dyn Any + Send>, Stage::bench),
            levels: Vec::new(),
            refused: Vec::new(),
            record: Vec::new(),
            parts: PartScratch::default(),
            masks: MaskRows::new(),
            objects: ArrayDecoder::new(),
            made: RowNotes::default(),
        }
    }
}
