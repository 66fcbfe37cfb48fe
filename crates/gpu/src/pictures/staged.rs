use super::changes::Changes;
use super::frame::{McuRect, SegmentGrid};
use super::layout::EDGES_BYTES;
use super::options::Output;
use super::segments::Segment;
use super::totals::Totals;
use crate::gather::Piece;
use shardpack_jpeg::Placement;

/// The samples that a staged picture will have on the device. Other crops of the picture may use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Samples {
    /// Width and height of the picture.
    pub(super) size: (u32, u32),
    pub(super) frame: SegmentGrid,
    pub(super) shown: McuRect,
}

/// A picture in staging memory, with the numbers for its table entries. They are relative to the picture's own first
/// segment, first code and so on, because the preceding entries are known only when the batch is complete.
#[derive(Debug)]
pub(crate) struct StagedPicture {
    pub(super) output: Output,
    pub(super) changes: Changes,
    pub(super) place: Placement,
    /// Width and height of the picture.
    pub(super) size: (u32, u32),
    pub(super) frame: SegmentGrid,
    pub(super) shown: McuRect,
    /// True if several crops share the samples.
    pub(super) is_shared: bool,
    /// Index of the first element in the output.
    pub(super) out: u64,
    pub(super) taps: (u32, u32),
    pub(super) tile: (u32, u32),
    /// Segments, followed by an end entry. Empty if the picture uses the samples of another crop. The bytes of the
    /// segments are in staging memory in ascending order.
    pub(super) segments: Vec<Segment>,
    /// Edges of each segment, as in the table. Empty without a segment index.
    pub(super) edges: Vec<[u8; EDGES_BYTES]>,
    /// Position in staging memory, and number of symbols, of each Huffman code.
    pub(super) codes: Vec<[u32; 2]>,
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) quantisers: [[u8; 64]; 3],
    /// Number of luma blocks, and number of blocks of each chroma component.
    pub(super) blocks: (u32, u32),
    /// Number of spans and number of weights of the first axis.
    pub(super) spans: u32,
    pub(super) weights: u32,
    pub(super) pieces: Vec<Piece>,
    pub(super) totals: Totals,
}

impl StagedPicture {
    /// Returns the samples that the picture uses, if several crops share them.
    pub(crate) fn samples(&self) -> Option<Samples> {
        self.is_shared.then(|| self.samples_used())
    }

    /// Returns the samples that the picture uses. They may be the samples of another crop.
    pub(crate) const fn samples_used(&self) -> Samples {
        let Self { size, frame, shown, .. } = *self;
        Samples { size, frame, shown }
    }

    /// Returns true if the picture uses the samples of another crop.
    pub(crate) const fn is_further_crop(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn elements(&self) -> u64 {
        u64::from(self.place.height) * u64::from(self.place.width) * 3
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) const fn is_changed(&self) -> bool {
        !self.changes.operations.is_empty()
    }

    pub(super) const fn size(&self) -> [u32; 2] {
        [self.place.height, self.place.width]
    }

    pub(super) const fn tiles(&self) -> (u32, u32) {
        (self.place.x.resized.div_ceil(self.tile.0), self.place.y.resized.div_ceil(self.tile.1))
    }

    /// Iterates over the first segment of each group. One warp decodes a group.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> {
        (0..self.totals.segments.saturating_sub(1)).step_by(32)
    }

    pub(super) fn count(&mut self) -> Option<()> {
        let narrow = |n: u64| u32::try_from(n).ok();
        let (place, frame, shown) = (&self.place, &self.frame, &self.shown);
        let (across, down) = (u64::from(shown.right - shown.left), u64::from(shown.bottom - shown.top));
        let luma = narrow(across * u64::from(frame.grid.h) * (down * u64::from(frame.grid.v)))?;
        let owns = !self.is_further_crop();
        let chroma = if frame.grid.components == 1 { 0 } else { narrow(across * down)? };
        let weights = |pixels: u32, taps: u32| u64::from(pixels) * u64::from(taps);
        let x_weights = weights(place.x.resized, self.taps.0);
        let (columns, rows) = self.tiles();
        // A tile's position is stored as two 16-bit numbers.
        if columns > 0x1_0000 || rows > 0x1_0000 {
            return None;
        }
        let segments = narrow(self.segments.len() as u64)?;
        let operations = narrow(self.changes.operations.len() as u64)?;
        // The kernel for changes counts elements in 32 bits.
        narrow(self.elements())?;
        self.blocks = (luma, chroma);
        self.weights = narrow(x_weights)?;
        self.totals = Totals {
            pictures: 1,
            segments,
            edges: narrow(self.edges.len() as u64)?,
            groups: segments.saturating_sub(1).div_ceil(32),
            tiles: columns.checked_mul(rows)?,
            borders: u32::from(place.is_padded()),
            codes: narrow(self.codes.len() as u64)?,
            spans: place.x.resized.checked_add(place.y.resized)?,
            weights: narrow(x_weights + weights(place.y.resized, self.taps.1))?,
            blocks: narrow(if owns { u64::from(luma) + 2 * u64::from(chroma) } else { 0 })?,
            changed: operations.min(1),
            changes: operations,
            blur_weights: narrow(self.changes.weights.len() as u64)?,
        };
        Some(())
    }
}
