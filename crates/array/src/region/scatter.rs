//! Decodes several regions of one array at once. Each touched block is decoded only once.

use super::source::{PayloadReader, StoredRange};
use shardpack_base::parts::part;
use shardpack_format::Result;

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) run: StoredRange,
    pub(crate) region: usize,
    /// Offset of the run's bytes in the destination.
    pub(crate) at: usize,
}

#[derive(Default)]
pub(crate) struct Several {
    pub(crate) runs: Vec<Placed>,
    /// Stored elements of all regions, without gaps.
    pub(crate) stored: Vec<u8>,
}

impl PayloadReader<'_, '_> {
    /// Passes the stored bytes of `runs` to `put`. For each run, `put` is called once per block that the run touches.
    /// It receives the run, the range of the destination (relative to the run's `at`), and the bytes. `runs` must be
    /// sorted by start and may overlap.
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
        // The stored bytes before this offset have been passed to `put`.
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
                let from = part(bytes, here.start - block.start..here.end - block.start, "bytes in a block")?;
                put(placed, to..to + from.len(), from)?;
            }
            done = block.end;
        }
        Ok(())
    }
}
