//! Converts elements between shape order and payload order: reorders the axes, and applies or undoes the difference
//! along the last axis (spec §4.4).
//!
//! The code works on pieces of whole pixels (runs along the last axis) that fit in the L1 cache, so that the steps
//! share a single pass over memory.

use crate::block::StoredBlock;
use crate::sums::{self, sum8, sum16};
use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x16, u16x8};
use shardpack_base::parts::{check_length, part, part_mut, rest, split_mut};
use shardpack_base::vectorised;
use shardpack_format::{Layout, Result, bug};

/// Maximum number of elements in a piece. A piece and its source fit in the L1 cache together.
pub(crate) const PIECE_ELEMENTS: usize = 6144;

/// Approximate size of a tile in bytes. A tile stays in the L2 cache, and each of its bands is long enough for
/// hardware prefetching.
pub(crate) const TILE_BYTES: usize = 512 << 10;

/// Order of an array's stored elements in its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrangement {
    pub(crate) layout: Layout,
    /// True if elements are stored as differences along the last axis. These elements have one or two bytes.
    pub(crate) difference: bool,
    /// Size of an element in bytes.
    pub(crate) width: usize,
    /// Length of the last axis, never 0.
    pub(crate) bands: usize,
    /// Product of the lengths of the other axes.
    pub(crate) pixels: usize,
}

impl Arrangement {
    /// True if the payload is in shape order, without differences.
    pub(crate) fn is_identity(&self) -> bool {
        self.layout == Layout::AsShape && !self.difference
    }

    /// Returns the number of pixels in a piece: a multiple of 32 if possible, so that band-major
    /// runs fill whole cache lines.
    pub(crate) fn piece_pixels(&self) -> usize {
        match PIECE_ELEMENTS / self.bands {
            0 => 1,
            n if n >= 32 => n / 32 * 32,
            n => n,
        }
    }

    /// Arranges all `elements`, which are in shape order, as a payload. Overwrites the old content of `payload`.
    pub(crate) fn place_all(&self, elements: &[u8], payload: &mut Vec<u8>) -> Result<()> {
        payload.resize(elements.len(), 0);
        let piece_bytes = self.piece_pixels() * self.bands * self.width;
        let mut scratch = vec![0; piece_bytes.min(elements.len())];
        for (i, piece) in elements.chunks(piece_bytes).enumerate() {
            let scratch = part_mut(&mut scratch, 0..piece.len(), "scratch buffer for a piece")?;
            self.place(piece, scratch, i * self.piece_pixels(), payload)?;
        }
        Ok(())
    }

    /// Writes `piece` to its place in `payload`. The elements of `piece` are in shape order and start with pixel
    /// `first`. `scratch` must be as long as `piece`. It is used if the payload is band-major with differences.
    pub(crate) fn place(&self, piece: &[u8], scratch: &mut [u8], first: usize, payload: &mut [u8]) -> Result<()> {
        let start = first * self.bands * self.width;
        match (self.layout, self.difference) {
            (Layout::AsShape, false) => {
                part_mut(payload, start..start + piece.len(), "output range for a piece")?.copy_from_slice(piece);
            }
            (Layout::AsShape, true) => {
                self.difference(piece, part_mut(payload, start..start + piece.len(), "output range for a piece")?);
            }
            (Layout::BandMajor, false) => self.scatter(piece, first, payload)?,
            (Layout::BandMajor, true) => {
                check_length("scratch buffer for a piece", piece.len(), scratch.len())?;
                self.difference(piece, scratch);
                self.scatter(scratch, first, payload)?;
            }
        }
        Ok(())
    }

    /// Fills `piece` from `payload`. This is the inverse of [`Arrangement::place`].
    pub(crate) fn fetch(&self, payload: &[u8], first: usize, piece: &mut [u8]) -> Result<()> {
        if self.layout == Layout::BandMajor {
            self.gather(payload, first, piece)?;
        } else {
            let start = first * self.bands * self.width;
            piece.copy_from_slice(part(payload, start..start + piece.len(), "elements in a piece")?);
        }
        if self.difference {
            self.sum(piece, &[]);
        }
        Ok(())
    }

    /// Returns the number of pixels in a tile: as many as fit, rounded so that each band fills whole cache lines.
    pub(crate) fn tile_pixels(&self) -> usize {
        (TILE_BYTES / (self.bands * self.width) / 32 * 32).max(32)
    }

    /// Fills the band-major `tile` with the pixels from `first` on. The source is a band-major payload, split into
    /// `blocks` of `block` elements each. Also undoes the band difference between neighbouring rows of the tile.
    ///
    /// Reading pieces directly from the payload took 1.4 times as long, because touching one cache line in each of a
    /// hundred planes defeats hardware prefetching.
    pub(crate) fn tile(&self, blocks: &[StoredBlock<'_>], block: usize, first: usize, tile: &mut [u8]) -> Result<()> {
        let run = tile.len() / self.bands;
        let mut before: &mut [u8] = &mut [];
        for (band, row) in tile.chunks_exact_mut(run).enumerate() {
            let (mut at, mut rest) = (band * self.pixels + first, &mut *row);
            while !rest.is_empty() {
                let Some(from) = blocks.get(at / block) else { bug("a tile has fewer blocks than its pixels need") };
                let count = (rest.len() / self.width).min(block - at % block);
                let (here, tail) = split_mut(rest, count * self.width, "tile row")?;
                from.read(at % block, self.width, here)?;
                (at, rest) = (at + count, tail);
            }
            match (self.difference, self.width) {
                (false, _) => {}
                (true, 1) => vectorised(
                    #[inline(always)]
                    || add8(before, row),
                ),
                (true, _) => vectorised(
                    #[inline(always)]
                    || add16(before, row),
                ),
            }
            before = row;
        }
        Ok(())
    }

    /// Fills `out` with elements of `block`, starting with element `first`, and undoes the band difference. The block
    /// is in shape order. Element `first` belongs to band `band`, and `before` ends with the element that precedes it.
    pub(crate) fn read(
        &self,
        block: &StoredBlock<'_>,
        first: usize,
        band: usize,
        before: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        if !self.difference {
            return block.read(first, self.width, out);
        }
        let count = out.len() / self.width;
        let begun = if band == 0 { 0 } else { (self.bands - band).min(count) };
        let (head, rest) = split_mut(out, begun * self.width, "elements in a pixel")?;
        block.read(first, self.width, head)?;
        self.sum(head, before);
        let pixels = (count - begun) / self.bands;
        let first = first + begun;
        let (whole, tail) = split_mut(rest, pixels * self.bands * self.width, "elements in whole pixels")?;
        match block.pair(first, pixels * self.bands) {
            Some([low, high]) if sums::planes::fits(pixels, self.bands) => {
                sums::planes::sum(low, high, self.bands, whole)?;
            }
            _ => {
                let step = self.piece_pixels() * self.bands;
                for (i, piece) in whole.chunks_mut(step * self.width).enumerate() {
                    block.read(first + i * step, self.width, piece)?;
                    self.sum(piece, &[]);
                }
            }
        }
        block.read(first + pixels * self.bands, self.width, tail)?;
        self.sum(tail, &[]);
        Ok(())
    }

    /// Undoes the band difference. If the elements start in the middle of a pixel, `before` ends
    /// with the preceding element.
    fn sum(&self, elements: &mut [u8], before: &[u8]) {
        let bands = if before.is_empty() { self.bands } else { elements.len().max(1) };
        match (self.width, before) {
            (1, before) => sum8(elements, bands, before.last().copied().unwrap_or(0)),
            (_, &[.., low, high]) => sum16(elements, bands, u16::from_le_bytes([low, high])),
            _ => sum16(elements, bands, 0),
        }
    }

    /// Computes the band difference. The first band of a pixel is stored unchanged.
    fn difference(&self, piece: &[u8], out: &mut [u8]) {
        vectorised(
            #[inline(always)]
            || self.difference_in(piece, out),
        );
    }

    #[inline(always)]
    fn difference_in(&self, piece: &[u8], out: &mut [u8]) {
        if self.width == 1 {
            // First compute the differences of the whole piece in one long loop that ignores pixel borders. Then
            // correct the first band of every pixel.
            for ((x, before), out) in piece.iter().skip(1).zip(piece).zip(out.iter_mut().skip(1)) {
                *out = zigzag8(x.wrapping_sub(*before));
            }
            for (x, out) in piece.iter().zip(out).step_by(self.bands) {
                *out = zigzag8(*x);
            }
        } else {
            let (piece, out) = (piece.as_chunks::<2>().0, out.as_chunks_mut::<2>().0);
            for ((x, before), out) in piece.iter().skip(1).zip(piece).zip(out.iter_mut().skip(1)) {
                *out = zigzag16(u16::from_le_bytes(*x).wrapping_sub(u16::from_le_bytes(*before))).to_le_bytes();
            }
            for (x, out) in piece.iter().zip(out).step_by(self.bands) {
                *out = zigzag16(u16::from_le_bytes(*x)).to_le_bytes();
            }
        }
    }

    /// Checks the lengths. Without this check, the loops over bands and pixels would silently skip missing pixels.
    fn check(&self, piece: &[u8], first: usize, payload: &[u8]) -> Result<()> {
        let pixel = self.bands * self.width;
        check_length("payload size in bytes", self.pixels * pixel, payload.len())?;
        let count = piece.len() / pixel.max(1);
        check_length("size of a piece in bytes", count * pixel, piece.len())?;
        part(payload, first * pixel..(first + count) * pixel, "pixels in a piece").map(|_| ())
    }

    fn scatter(&self, piece: &[u8], first: usize, payload: &mut [u8]) -> Result<()> {
        self.check(piece, first, payload)?;
        match self.width {
            1 => self.scatter_by::<1>(piece, first, payload),
            2 => self.scatter_by::<2>(piece, first, payload),
            4 => self.scatter_by::<4>(piece, first, payload),
            _ => self.scatter_by::<8>(piece, first, payload),
        }
    }

    fn scatter_by<const N: usize>(&self, piece: &[u8], first: usize, payload: &mut [u8]) -> Result<()> {
        let piece = piece.as_chunks::<N>().0;
        let count = piece.len() / self.bands;
        let planes = payload.as_chunks_mut::<N>().0.chunks_exact_mut(self.pixels);
        for (band, plane) in planes.enumerate() {
            let run = part_mut(plane, first..first + count, "band row")?;
            for (to, from) in run.iter_mut().zip(rest(piece, band, "bands in a piece")?.iter().step_by(self.bands)) {
                *to = *from;
            }
        }
        Ok(())
    }

    fn gather(&self, payload: &[u8], first: usize, piece: &mut [u8]) -> Result<()> {
        self.check(piece, first, payload)?;
        match self.width {
            1 => self.gather_by::<1>(payload, first, piece),
            2 => self.gather_pairs(payload, first, piece),
            4 => self.gather_by::<4>(payload, first, piece),
            _ => self.gather_by::<8>(payload, first, piece),
        }
    }

    /// Transposes the elements in squares of 8 × 8. The last squares of a row or column may overlap earlier ones.
    fn gather_pairs(&self, payload: &[u8], first: usize, piece: &mut [u8]) -> Result<()> {
        if piece.len() / 2 < 8 * self.bands || self.bands < 8 {
            return self.gather_by::<2>(payload, first, piece);
        }
        let done = dispatch!(Level::new(), simd => turn_squares(simd, self, payload, first, piece));
        done.map_or_else(|| bug("squares of pixels and bands extend beyond their piece"), Ok)
    }

    fn gather_by<const N: usize>(&self, payload: &[u8], first: usize, piece: &mut [u8]) -> Result<()> {
        let piece = piece.as_chunks_mut::<N>().0;
        let count = piece.len() / self.bands;
        for (band, plane) in payload.as_chunks::<N>().0.chunks_exact(self.pixels).enumerate() {
            let run = part(plane, first..first + count, "band row")?;
            let (_, places) = split_mut(piece, band, "bands in a piece")?;
            for (to, from) in places.iter_mut().step_by(self.bands).zip(run) {
                *to = *from;
            }
        }
        Ok(())
    }
}

/// Maps small differences of either sign to small numbers: 0, −1, 1, −2 … become 0, 1, 2, 3 ….
fn zigzag8(d: u8) -> u8 {
    (d << 1) ^ (d.cast_signed() >> 7).cast_unsigned()
}

fn zigzag16(d: u16) -> u16 {
    (d << 1) ^ (d.cast_signed() >> 15).cast_unsigned()
}

/// Transposes the elements in squares of 8 × 8. There must be at least 8 pixels with at least 8
/// bands. Returns `None` if a square is out of bounds.
#[inline(always)]
fn turn_squares<S: Simd>(simd: S, arrangement: &Arrangement, from: &[u8], first: usize, to: &mut [u8]) -> Option<()> {
    let bands = arrangement.bands;
    let pixels = to.len() / (2 * bands);
    for pixel in (0..pixels).step_by(8).map(|pixel| pixel.min(pixels - 8)) {
        let rows = to.get_mut(2 * pixel * bands..2 * (pixel + 8) * bands)?;
        for band in (0..bands).step_by(8).map(|band| band.min(bands - 8)) {
            let mut square = [u16x8::splat(simd, 0); 8];
            for (i, lanes) in square.iter_mut().enumerate() {
                let start = 2 * ((band + i) * arrangement.pixels + first + pixel);
                let plane = from.get(start..)?.first_chunk()?;
                // Copy all bytes of the row at once. With a `map` over the elements, the compiler would emit one move
                // per element.
                *lanes = u8x16::load_array_ref(simd, plane).bitcast();
            }
            // Each step interleaves the first half of the rows with the second half. After three steps, rows have
            // become columns.
            for _ in 0..3 {
                let [a, b, c, d, e, f, g, h] = square;
                square = [
                    a.zip_low(e),
                    a.zip_high(e),
                    b.zip_low(f),
                    b.zip_high(f),
                    c.zip_low(g),
                    c.zip_high(g),
                    d.zip_low(h),
                    d.zip_high(h),
                ];
            }
            for (row, lanes) in rows.chunks_exact_mut(2 * bands).zip(square) {
                let place = row.get_mut(2 * band..)?.first_chunk_mut()?;
                let lanes: u8x16<S> = lanes.bitcast();
                lanes.store_array(place);
            }
        }
    }
    Some(())
}

/// Adds the previous band, `before`, to the differences in `row`. `before` is empty for the first band.
#[inline(always)]
fn add8(before: &[u8], row: &mut [u8]) {
    for z in row.iter_mut() {
        *z = (*z >> 1) ^ (*z & 1).wrapping_neg();
    }
    for (to, before) in row.iter_mut().zip(before) {
        *to = to.wrapping_add(*before);
    }
}

#[inline(always)]
fn add16(before: &[u8], row: &mut [u8]) {
    let row = row.as_chunks_mut::<2>().0;
    for to in row.iter_mut() {
        let z = u16::from_le_bytes(*to);
        *to = ((z >> 1) ^ (z & 1).wrapping_neg()).to_le_bytes();
    }
    for (to, before) in row.iter_mut().zip(before.as_chunks().0) {
        *to = u16::from_le_bytes(*to).wrapping_add(u16::from_le_bytes(*before)).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_format::Error;

    fn slow(a: &Arrangement, elements: &[u8]) -> Vec<u8> {
        let mut out = vec![0; elements.len()];
        let element = |i: usize| {
            let mut wide = [0; 8];
            wide[..a.width].copy_from_slice(&elements[i * a.width..][..a.width]);
            u64::from_le_bytes(wide)
        };
        for pixel in 0..a.pixels {
            for band in 0..a.bands {
                let mut x = element(pixel * a.bands + band);
                if a.difference {
                    let before = if band == 0 { 0 } else { element(pixel * a.bands + band - 1) };
                    let bits = 8 * a.width as u32;
                    let d = (x.wrapping_sub(before) << (64 - bits)) as i64 >> (64 - bits);
                    x = if d < 0 { (-2 * d - 1) as u64 } else { (2 * d) as u64 };
                }
                let place = if a.layout == Layout::AsShape { pixel * a.bands + band } else { band * a.pixels + pixel };
                out[place * a.width..][..a.width].copy_from_slice(&x.to_le_bytes()[..a.width]);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn pieces_agree_with_the_slow_twin_and_come_back(
            (width, difference) in prop_oneof![(Just(1), any::<bool>()), (Just(2), any::<bool>()), (prop_oneof![Just(4), Just(8)], Just(false))],
            band_major: bool, bands in 1..40_usize, pixels in 1..300_usize, seed: u32, piece_pixels in 1..70_usize,
        ) {
            let layout = if band_major { Layout::BandMajor } else { Layout::AsShape };
            let a = Arrangement { layout, difference, width, bands, pixels };
            let mut state = seed;
            let elements: Vec<u8> = (0..bands * pixels * width)
                .map(|_| { state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); (state >> 24) as u8 })
                .collect();
            let mut payload = vec![0; elements.len()];
            let mut back = vec![0; elements.len()];
            let piece_bytes = piece_pixels * bands * width;
            for (i, piece) in elements.chunks(piece_bytes).enumerate() {
                a.place(piece, &mut vec![0; piece.len()], i * piece_pixels, &mut payload).unwrap();
            }
            prop_assert_eq!(&payload, &slow(&a, &elements));
            for (i, piece) in back.chunks_mut(piece_bytes).enumerate() {
                a.fetch(&payload, i * piece_pixels, piece).unwrap();
            }
            prop_assert_eq!(&back, &elements);
            if band_major {
                back.fill(0);
                for first in (0..pixels).step_by(piece_pixels) {
                    let count = piece_pixels.min(pixels - first);
                    let mut tile = vec![0; count * bands * width];
                    a.tile(&[StoredBlock::Bytes(&payload)], bands * pixels, first, &mut tile).unwrap();
                    let tiled = Arrangement { difference: false, pixels: count, ..a };
                    tiled.fetch(&tile, 0, &mut back[first * bands * width..(first + count) * bands * width]).unwrap();
                }
                prop_assert_eq!(back, elements);
            }
        }
    }

    #[test]
    fn pieces_beyond_the_payload_are_errors() {
        let is_internal = |result: Result<()>| matches!(result, Err(Error::Internal { .. }));
        for layout in [Layout::AsShape, Layout::BandMajor] {
            for (width, difference) in [(1, true), (2, true), (4, false), (8, false)] {
                let a = Arrangement { layout, difference, width, bands: 9, pixels: 20 };
                let bytes = |pixels: usize| vec![0; pixels * 9 * width];
                for (first, pixels, payload) in [(12, 9, 20), (0, 12, 11), (0, 12, 0)] {
                    let (mut piece, mut payload) = (bytes(pixels), bytes(payload));
                    let placed = a.place(&piece, &mut bytes(pixels), first, &mut payload);
                    assert!(is_internal(placed), "{layout:?} {width} {first}");
                    assert!(is_internal(a.fetch(&payload, first, &mut piece)), "{layout:?} {width} {first}");
                }
            }
        }
    }
}
