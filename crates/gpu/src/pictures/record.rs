//! Writes `struct Picture`, `Segment` and `Edges` of `kernels/pictures.cuh` byte by byte.

use super::layout::{EDGES_BYTES, NONE, TableWriter};
use super::segments::{Edges, Segment};
use super::staged::StagedPicture;
use super::tiles;
use super::totals::Totals;
use shardpack_jpeg::{AxisFilter, PixelLayout, ResizedAxis};

const TRANSPOSED: u32 = 1;
const MIRRORED_X: u32 = 2;
const MIRRORED_Y: u32 = 4;
const X_FIRST: u32 = 8;

impl TableWriter<'_> {
    fn axis(&mut self, axis: &ResizedAxis, taps: u32, spans: u32, weights: u32) {
        self.0.extend(axis.start.to_le_bytes());
        self.0.extend(axis.end.to_le_bytes());
        let filter = match axis.filter {
            AxisFilter::Triangle => 0,
            AxisFilter::Copy => 1,
            AxisFilter::Cubic => 2,
            AxisFilter::Nearest { mirrored: false } => 3,
            AxisFilter::Nearest { mirrored: true } => 4,
        };
        self.u32s([axis.resized, axis.pixels, taps, spans, weights, filter]);
    }

    /// Appends `struct Picture`. `before` counts the entries that precede the picture in each table. The kernels
    /// write the picture to the output, or to `levels` if it will be changed first. `blocks` is the index of its
    /// first block of samples, which another crop may decode.
    pub(super) fn picture(&mut self, entry: &StagedPicture, before: &Totals, blocks: u32, levels: u64) {
        let StagedPicture { place, frame, shown, blocks: (luma, chroma), .. } = entry;
        // The kernels receive only the part of the output that is not padding.
        let to = if entry.is_changed() { levels } else { entry.out };
        let before_it = u64::from(place.inner.y) * u64::from(place.width) + u64::from(place.inner.x);
        let is_interleaved = !entry.is_changed() && entry.output.layout == PixelLayout::HeightWidthChannels;
        let elements = if is_interleaved { 3 * before_it } else { before_it };
        self.0.extend((to + elements).to_le_bytes());
        self.axis(&place.x, entry.taps.0, before.spans, before.weights);
        self.axis(&place.y, entry.taps.1, before.spans + entry.spans, before.weights + entry.weights);
        let turn = [
            (place.transposed, TRANSPOSED),
            (place.mirrored_x, MIRRORED_X),
            (place.mirrored_y, MIRRORED_Y),
            (tiles::x_first(place), X_FIRST),
        ];
        let turn = turn.iter().map(|&(is, bit)| if is { bit } else { 0 }).sum();
        self.u32s([place.window.x, place.window.y, place.width, place.height, turn]);
        self.u32s([entry.tile.0, entry.tile.1, before.segments, entry.totals().segments.saturating_sub(1)]);
        self.u32s([frame.interval, frame.grid.mcus(), frame.grid.columns]);
        self.u32s([shown.left, shown.top, shown.right, shown.bottom]);
        self.u32s([
            frame.grid.components,
            frame.grid.h,
            frame.grid.v,
            frame.grid.chroma_width,
            frame.grid.chroma_height,
        ]);
        self.u32s([if entry.edges.is_empty() { NONE } else { before.edges }]);
        self.u32s([0, *luma, luma + chroma].map(|plane| blocks + plane));
        self.u32s(entry.dc.map(|code| before.codes + code));
        self.u32s(entry.ac.map(|code| before.codes + code));
        self.0.extend(entry.quantisers.as_flattened());
        // Pad to a multiple of 8 bytes.
        self.u32s([0]);
    }

    /// Appends `struct Border` of a padded picture. `levels` is as for [`picture`](Self::picture).
    pub(super) fn border(&mut self, entry: &StagedPicture, levels: u64) {
        let StagedPicture { place, .. } = entry;
        let to = if entry.is_changed() { levels } else { entry.out };
        self.0.extend(to.to_le_bytes());
        let [red, green, blue] = place.fill;
        let inner = place.inner;
        self.u32s([place.height, place.width, inner.x, inner.y, inner.right(), inner.bottom()]);
        self.u32s([u32::from_le_bytes([red, green, blue, 0]), 0, 0, 0]);
    }

    pub(super) fn segment(&mut self, segment: &Segment) {
        self.u32s([segment.offset, segment.number | (segment.tail as u32) << 30]);
    }
}

impl Edges {
    pub(super) fn to_bytes(self) -> [u8; EDGES_BYTES] {
        let [[s0, s1, s2], [e0, e1, e2]] = [self.start, self.end].map(|of| of.map(i16::cast_unsigned));
        let numbers = [s0, s1, s2, e0, e1, e2, self.bit, self.unused];
        let bytes = numbers.iter().rev().fold(0, |all, number| all << 16 | u128::from(*number));
        bytes.to_le_bytes()
    }
}
