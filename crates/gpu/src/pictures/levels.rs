//! Converts host-decoded levels of pictures to floats, on the device.

use super::batch::written;
use super::layout::{LEVELS_BYTES, LEVELS_THREADS, TableWriter};
use super::options::Output;
use crate::driver::{Launch, Params};

const ELEMENTS_PER_THREAD: u32 = 16;

/// Levels in staging memory, which are uploaded together with all other staged bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StagedLevels {
    /// Offset of the levels in staging memory.
    pub(crate) at: u32,
    pub(crate) count: u32,
    /// Type and layout of the output, and the index of the first element that these levels fill.
    pub(crate) output: Output,
    pub(crate) out: u64,
}

impl StagedLevels {
    pub(crate) const TABLE_BYTES: usize = LEVELS_BYTES as usize;
    /// Maximum size of the gap before the table, in bytes.
    pub(crate) const GAP: usize = 16;
}

/// The pictures of a batch that the host has decoded.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LevelsBatch {
    /// One group for each kind of output, with the offset of the group's table in the upload.
    groups: Vec<LevelsGroup>,
}

#[derive(Debug, PartialEq)]
struct LevelsGroup {
    output: Output,
    table: usize,
    rows: u32,
    most: u32,
}

impl LevelsBatch {
    /// Appends the tables of `rows` to `tables`, whose first byte is at `start` in the upload.
    pub(crate) fn assemble(rows: &[StagedLevels], start: usize, tables: &mut Vec<u8>) -> Self {
        let mut groups: Vec<LevelsGroup> = Vec::new();
        if !rows.is_empty() {
            tables.resize(tables.len().next_multiple_of(16), 0);
        }
        for row in rows {
            if !groups.iter().any(|group| group.output == row.output) {
                let table = start + tables.len();
                let mut group = LevelsGroup { output: row.output, table, rows: 0, most: 0 };
                for row in rows.iter().filter(|other| other.output == row.output) {
                    TableWriter(tables).levels(row);
                    group.rows += 1;
                    group.most = group.most.max(row.count);
                }
                groups.push(group);
            }
        }
        Self { groups }
    }

    pub(crate) fn launches(&self, upload: u64, out: u64) -> impl Iterator<Item = Launch> {
        self.groups.iter().map(move |group| {
            let params = Params::new().address(upload).address(upload + group.table as u64).address(out);
            let blocks = group.most.div_ceil(LEVELS_THREADS * ELEMENTS_PER_THREAD).max(1);
            Launch {
                kernel: "picture_levels",
                grid: [group.rows, blocks.min(1 << 15), 1],
                block: [LEVELS_THREADS, 1, 1],
                params: written(params, Some(&group.output)),
            }
        })
    }
}

impl TableWriter<'_> {
    fn levels(&mut self, row: &StagedLevels) {
        let is_planar = row.output.layout == shardpack_jpeg::PixelLayout::ChannelsHeightWidth;
        let plane = if is_planar { row.count / 3 } else { 0 };
        self.0.extend_from_slice(&row.out.to_le_bytes());
        self.u32s([row.at, row.count, plane, 0]);
    }
}
