//! What one thread makes rows with.

use super::align::MaskRows;
use super::array_row::ArrayRows;
use super::job::Made;
use super::large::PartBench;
use super::pictures::Changes;
use super::recipe::Recipe;
use super::stage::Stage;
use shardpack_array::ArrayDecoder;
use shardpack_jpeg::PictureDecoder;
use std::any::Any;

/// One thread's decoders and scratch memory: used again for every row.
pub(super) struct Bench {
    pub(super) arrays: ArrayRows,
    pub(super) pictures: PictureDecoder,
    pub(super) changes: Changes,
    /// The stage's own.
    pub(super) stage: Box<dyn Any + Send>,
    /// Levels that floats are made of.
    pub(super) levels: Vec<u8>,
    /// A row that the stage refused.
    pub(super) refused: Vec<u8>,
    /// The record, where the page cache holds its run.
    pub(super) record: Vec<u8>,
    /// What parts of large records are worked on with.
    pub(super) parts: PartBench,
    pub(super) masks: MaskRows,
    pub(super) objects: ArrayDecoder,
    /// What is known of the last row.
    pub(super) made: Made,
}

impl Bench {
    pub(super) fn new(recipe: &Recipe, stage: Option<&dyn Stage>) -> Self {
        Self {
            arrays: ArrayRows::new(recipe),
            pictures: PictureDecoder::new(recipe.decode.clone()),
            changes: Changes::default(),
            stage: stage.map_or_else(|| Box::new(()) as Box<dyn Any + Send>, Stage::bench),
            levels: Vec::new(),
            refused: Vec::new(),
            record: Vec::new(),
            parts: PartBench::default(),
            masks: MaskRows::new(),
            objects: ArrayDecoder::new(),
            made: Made::default(),
        }
    }
}
