//! Several regions of one array at once: each block is decoded once, even if several regions touch it.

use super::source::{PayloadReader, StoredRange};
use shardpack_base::parts::part;
use shardpack_format::Result;

/// A run of stored bytes, and its place.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) run: StoredRange,
    /// Index of the region.
    pub(crate) region: usize,
    /// Offset in the bytes of the region.
    pub(crate) at: usize,
}

/// Memory reused between calls for several regions.
#[derive(Default)]
pub(crate) struct Several {
    pub(crate) runs: Vec<Placed>,
    /// Stored elements of the regions, one after the other.
    pub(crate) stored: Vec<u8>,
}

impl PayloadReader<'_, '_> {
    /// Passes the stored bytes of `runs` to `put`: for each run and each block, the range within the run's
    /// place, and the bytes. `runs` are sorted by their starts and may overlap.
    pub(crate) fn scatter(
        &mut self,
        runs: &[Placed],
        mut put: impl FnMut(&Placed, StoredRange, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut tile = std::mem::take(&mut self.scratch.tile);
        let result = self.scatter_by(runs, &mut tile, &mut put);
        self.scratch.tile = tile;
        result
    }

    fn scatter_by(
        &mut self,
        mut runs: &[Placed],
        tile: &mut Vec<u8>,
        put: &mut impl FnMut(&Placed, StoredRange, &[u8]) -> Result<()>,
    ) -> Result<()> {
        // End of the stored bytes that are done.
        let mut done = 0;
        while let Some(next) = runs.first() {
            if next.run.end <= done {
                runs = runs.split_first().map_or(&[][..], |(_, rest)| rest);
                continue;
            }
            let (block, bytes) = self.whole_block(next.run.start.max(done), tile)?;
            for placed in runs.iter().take_while(|placed| placed.run.start < block.end) {
                let here = placed.run.start.max(block.start)..placed.run.end.min(block.end);
                if here.is_empty() {
                    continue;
                }
                let to = placed.at + (here.start - placed.run.start);
                let from = part(bytes, here.start - block.start..here.end - block.start, "bytes of a block")?;
                put(placed, to..to + from.len(), from)?;
            }
            done = block.end;
        }
        Ok(())
    }
}
