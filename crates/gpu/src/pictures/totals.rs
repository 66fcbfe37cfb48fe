//! Counts the entries in each table.

use super::layout::{
    BORDER_BYTES, CHANGE_BYTES, CHANGED_BYTES, CODE_BYTES, EDGES_BYTES, PICTURE_BYTES, SEGMENT_BYTES, TILE_BYTES,
};

/// Number of entries in each table, summed over several pictures. This is also the index of the next picture's first
/// entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(super) pictures: u32,
    pub(super) segments: u32,
    pub(super) edges: u32,
    pub(super) groups: u32,
    pub(super) tiles: u32,
    pub(super) borders: u32,
    pub(super) codes: u32,
    pub(super) spans: u32,
    pub(super) weights: u32,
    pub(super) blocks: u32,
    pub(super) changed: u32,
    pub(super) changes: u32,
    pub(super) blur_weights: u32,
}

impl Totals {
    /// Maximum total size of the gaps before and between the tables, in bytes.
    pub(crate) const GAPS: usize = 10 * 16 + 16;

    /// Adds the counts, or returns `None` if a count exceeds 32 bits.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        Some(Self {
            pictures: self.pictures.checked_add(other.pictures)?,
            segments: self.segments.checked_add(other.segments)?,
            edges: self.edges.checked_add(other.edges)?,
            groups: self.groups.checked_add(other.groups)?,
            tiles: self.tiles.checked_add(other.tiles)?,
            borders: self.borders.checked_add(other.borders)?,
            codes: self.codes.checked_add(other.codes)?,
            spans: self.spans.checked_add(other.spans)?,
            weights: self.weights.checked_add(other.weights)?,
            blocks: self.blocks.checked_add(other.blocks)?,
            changed: self.changed.checked_add(other.changed)?,
            changes: self.changes.checked_add(other.changes)?,
            blur_weights: self.blur_weights.checked_add(other.blur_weights)?,
        })
    }

    /// Returns the total size of all tables in bytes, without gaps.
    pub(crate) const fn table_bytes(&self) -> usize {
        let Self { pictures, segments, edges, groups, tiles, borders, codes, changed, changes, blur_weights, .. } =
            *self;
        PICTURE_BYTES as usize * pictures as usize
            + SEGMENT_BYTES * (segments as usize + groups as usize)
            + EDGES_BYTES * edges as usize
            + TILE_BYTES * tiles as usize
            + BORDER_BYTES as usize * borders as usize
            + CODE_BYTES * codes as usize
            + CHANGED_BYTES as usize * changed as usize
            + CHANGE_BYTES as usize * changes as usize
            + 4 * blur_weights as usize
    }
}
