//! Makes mosaics of four rows of a batch. This implementation is for the host, and defines the result for devices
//! too.

use half::{bf16, f16};
use shardpack_format::{Dtype, ElementType, to_usize};
use shardpack_jpeg::PixelLayout;
use std::mem;
use std::ops::Range;
use std::thread;

/// How the rows of a field become mosaics, and the layout of their elements.
#[derive(Debug, Clone, PartialEq)]
pub struct RowMosaic {
    /// Element type.
    pub dtype: ElementType,
    /// Axis order.
    pub layout: PixelLayout,
    /// Height and width of a row.
    pub size: [u32; 2],
    /// Number of channels. 1 for a mask without channels.
    pub channels: usize,
    /// Elements of pixels that no picture covers, for the first three channels, as little-endian bits. Further
    /// channels use the last value.
    pub fill: [u64; 3],
    /// True to interpolate bilinearly between four source pixels, which requires uint8 or floats of at most 32 bits.
    /// If false, the nearest source pixel is copied.
    pub is_bilinear: bool,
    /// Mosaic of each row, or `None` if the row stays unchanged.
    pub rows: Vec<Option<MosaicRow>>,
}

/// The mosaic of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MosaicRow {
    /// Coefficients of the map from the row back to the canvas, from
    /// [`MosaicPlan::inverse`](shardpack_augment::MosaicPlan::inverse). The canvas has twice the height and width of
    /// the row.
    pub inverse: [f64; 6],
    /// Column and row of the canvas where the four pictures meet.
    pub centre: [u32; 2],
    /// The pictures in reading order.
    pub tiles: [MosaicTile; 4],
}

/// One of the four pictures of a mosaic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MosaicTile {
    /// Index of the row among the mixed rows.
    pub row: usize,
    /// Column and row of the canvas at which the row begins.
    pub offset: [i64; 2],
    /// Edges of the picture within the row: left, top, right, bottom.
    pub content: [u32; 4],
}

/// The four source pixels of a bilinear mean.
struct FourPixels {
    row: usize,
    /// Left and right column, upper and lower row.
    columns: [u32; 2],
    lines: [u32; 2],
    /// Weights of the right column and of the lower row.
    weights: [f32; 2],
}

impl MosaicRow {
    /// Returns the picture, and the point (x, y) in it, that the pixel in this row and column shows. Returns `None`
    /// if no picture covers the pixel. Rounds products and sums separately, so devices can compute the same result.
    fn place(&self, [row, column]: [u32; 2], size: [u32; 2]) -> Option<(&MosaicTile, [f64; 2])> {
        let ([high, wide], [xx, xy, x0, yx, yy, y0]) = (size.map(f64::from), self.inverse);
        // A pixel's centre is half a pixel from its edge.
        let (y, x) = (f64::from(row) + 0.5 - high * 0.5, f64::from(column) + 0.5 - wide * 0.5);
        let (x, y) = (xx * x + (xy * y + x0 + wide), yx * x + (yy * y + y0 + high));
        let number = usize::from(x >= f64::from(self.centre[0])) + 2 * usize::from(y >= f64::from(self.centre[1]));
        let tile = self.tiles.get(number)?;
        let (x, y) = (x - tile.offset[0] as f64, y - tile.offset[1] as f64);
        let [left, top, right, bottom] = tile.content.map(f64::from);
        (x >= left && x < right && y >= top && y < bottom).then_some((tile, [x, y]))
    }

    /// Returns the source pixel nearest to the point that a pixel shows: the index of its row among the mixed rows,
    /// and its line and column in that row.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the content of a tile")]
    fn nearest(&self, at: [u32; 2], size: [u32; 2]) -> Option<(usize, [u32; 2])> {
        self.place(at, size).map(|(tile, [x, y])| (tile.row, [y as u32, x as u32]))
    }

    /// Returns the four source pixels whose weighted mean a pixel shows. Source pixels beyond the border of the
    /// picture are replaced by pixels on the border.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the content of a tile")]
    fn source(&self, at: [u32; 2], size: [u32; 2]) -> Option<FourPixels> {
        let (tile, [x, y]) = self.place(at, size)?;
        let [left, top, right, bottom] = tile.content;
        let axis = |at: f64, low: u32, high: u32| {
            let first = (at - 0.5).floor();
            let pixel = |at: f64| (at.max(f64::from(low)) as u32).min(high.saturating_sub(1));
            ([pixel(first), pixel(first + 1.0)], (at - 0.5 - first) as f32)
        };
        let ((columns, weight_x), (lines, weight_y)) = (axis(x, left, right), axis(y, top, bottom));
        Some(FourPixels { row: tile.row, columns, lines, weights: [weight_x, weight_y] })
    }
}

impl RowMosaic {
    /// Returns the number of bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        let [height, width] = self.size.map(|side| side as usize);
        height.saturating_mul(width).saturating_mul(self.channels).saturating_mul(to_usize(self.dtype.bytes()))
    }

    /// Makes the mosaics of the rows of `memory`, with at most `threads` threads. The rows must be in ascending order
    /// and have [`row_bytes`](Self::row_bytes) bytes. All mosaics are made from the original content of the rows,
    /// which this function copies first.
    pub fn apply(&self, rows: &[Range<usize>], memory: &mut [u8], threads: usize) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        let Some(all) = memory.get_mut(first.start..last.end) else { return };
        let before = all.to_vec();
        let source = |row: &Range<usize>| before.get(row.start - first.start..row.end - first.start);
        let sources: Vec<&[u8]> = rows.iter().map(|row| source(row).unwrap_or_default()).collect();
        let (mut rest, mut at, mut outputs) = (all, first.start, Vec::new());
        for (row, mosaic) in rows.iter().zip(&self.rows) {
            let Some((_, from)) = mem::take(&mut rest).split_at_mut_checked(row.start - at) else { return };
            let Some((own, after)) = from.split_at_mut_checked(row.len()) else { return };
            (rest, at) = (after, row.end);
            if let Some(mosaic) = mosaic {
                outputs.push((mosaic, own));
            }
        }
        let share = outputs.len().div_ceil(threads.max(1)).max(1);
        thread::scope(|scope| {
            let mut parts = outputs.chunks_mut(share);
            let own = parts.next();
            for part in parts {
                let sources = &sources;
                scope.spawn(move || part.iter_mut().for_each(|(mosaic, out)| self.fill(mosaic, sources, out)));
            }
            own.into_iter().flatten().for_each(|(mosaic, out)| self.fill(mosaic, &sources, out));
        });
    }

    fn fill(&self, mosaic: &MosaicRow, sources: &[&[u8]], out: &mut [u8]) {
        match (self.is_bilinear, self.dtype) {
            (false, dtype) => self.take(mosaic, sources, out, to_usize(dtype.bytes())),
            (true, ElementType::Bf16) => self.mean(
                mosaic,
                sources,
                out,
                |bytes: [u8; 2]| bf16::from_le_bytes(bytes).to_f32(),
                |mean| bf16::from_f32(mean).to_le_bytes(),
            ),
            (true, ElementType::Dtype(Dtype::F16)) => self.mean(
                mosaic,
                sources,
                out,
                |bytes: [u8; 2]| f16::from_le_bytes(bytes).to_f32(),
                |mean| f16::from_f32(mean).to_le_bytes(),
            ),
            (true, ElementType::Dtype(Dtype::F32)) => {
                self.mean(mosaic, sources, out, f32::from_le_bytes, f32::to_le_bytes);
            }
            (true, ElementType::Dtype(_)) => {
                self.mean(mosaic, sources, out, |[level]: [u8; 1]| f32::from(level), |mean| [level_of(mean)]);
            }
        }
    }

    /// Returns the strides, in elements, between pixels and between channels.
    fn strides(&self) -> [usize; 2] {
        let [height, width] = self.size.map(|side| side as usize);
        match self.layout {
            PixelLayout::HeightWidthChannels => [self.channels, 1],
            PixelLayout::ChannelsHeightWidth => [1, height * width],
        }
    }

    fn fill_of(&self, channel: usize) -> u64 {
        self.fill.get(channel).or(self.fill.last()).copied().unwrap_or(0)
    }

    fn pixels(&self) -> impl Iterator<Item = [u32; 2]> {
        let [height, width] = self.size;
        (0..height).flat_map(move |y| (0..width).map(move |x| [y, x]))
    }

    fn take(&self, mosaic: &MosaicRow, sources: &[&[u8]], out: &mut [u8], element: usize) {
        let ([pixel, plane], width) = (self.strides(), self.size[1] as usize);
        for (n, at) in self.pixels().enumerate() {
            let source = mosaic.nearest(at, self.size);
            for channel in 0..self.channels {
                let to = (n * pixel + channel * plane) * element;
                let Some(to) = out.get_mut(to..to + element) else { return };
                let fill = self.fill_of(channel).to_le_bytes();
                let from = source.and_then(|(row, [y, x])| {
                    let from = ((y as usize * width + x as usize) * pixel + channel * plane) * element;
                    sources.get(row)?.get(from..from + element)
                });
                to.copy_from_slice(from.or(fill.get(..element)).unwrap_or_default());
            }
        }
    }

    fn mean<const N: usize>(
        &self,
        mosaic: &MosaicRow,
        sources: &[&[u8]],
        out: &mut [u8],
        load: impl Fn([u8; N]) -> f32,
        store: impl Fn(f32) -> [u8; N],
    ) {
        let ([pixel, plane], width) = (self.strides(), self.size[1] as usize);
        let (out, _) = out.as_chunks_mut::<N>();
        for (n, at) in self.pixels().enumerate() {
            let source = mosaic.source(at, self.size);
            for channel in 0..self.channels {
                let Some(to) = out.get_mut(n * pixel + channel * plane) else { return };
                let fill = self.fill_of(channel).to_le_bytes();
                let Some(FourPixels { row, columns: [left, right], lines: [top, bottom], weights: [x, y] }) = source
                else {
                    *to = fill.first_chunk().copied().unwrap_or([0; N]);
                    continue;
                };
                let (from, _) = sources.get(row).copied().unwrap_or_default().as_chunks::<N>();
                let value = |line: u32, column: u32| {
                    let at = (line as usize * width + column as usize) * pixel + channel * plane;
                    from.get(at).map_or(0.0, |bytes| load(*bytes))
                };
                let along = |line: u32| value(line, left) * (1.0 - x) + value(line, right) * x;
                *to = store(along(top) * (1.0 - y) + along(bottom) * y);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two levels")]
fn level_of(mean: f32) -> u8 {
    (mean + 0.5) as u8
}
