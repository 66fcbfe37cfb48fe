//! Undoes the shuffle and the band differences of two-byte elements in a single step.
//!
//! The code works on four pixels at a time. Sixteen bands of each pixel occupy a 128-bit block, so that only the final
//! interleaving crosses blocks. Until then, even and odd bands are in separate vectors. With sums of pairs, sixteen
//! bands need only one scan of eight lanes.
//!
//! A cube of 61 MB takes 4.2 ms on one core. For comparison, `memcpy` takes 3.4 ms, separate steps for copying the
//! planes, the shuffle and the sums take 13 ms, and stores that bypass the caches take 7 ms.

use super::unzigzag;
use fearless_simd::prelude::{Bytes, Simd, SimdBase, SimdCombine, SimdSplit};
use fearless_simd::{Level, dispatch, u8x16, u8x64, u16x32};
use shardpack_base::parts::{check_length, part};
use shardpack_format::{Result, bug};

const PIXELS: usize = 4;
const BANDS: usize = 16;

/// True if [`sum`] can handle `pixels` pixels with `bands` bands each.
pub(crate) const fn fits(pixels: usize, bands: usize) -> bool {
    // Pairs of bytes are loaded directly as 16-bit numbers, which requires a little-endian machine.
    cfg!(target_endian = "little") && pixels >= PIXELS && bands >= BANDS
}

/// Fills `out` with the running sums of whole pixels. [`fits`] must be true for them. `low` and `high` are the low and
/// the high bytes of the elements.
pub(crate) fn sum(low: &[u8], high: &[u8], bands: usize, out: &mut [u8]) -> Result<()> {
    check_length("number of high bytes", low.len(), high.len())?;
    check_length("size of the two-byte elements", out.len(), 2 * low.len())?;
    check_length("number of elements in whole pixels", low.len() / bands.max(1) * bands, low.len())?;
    part(low, 0..PIXELS * bands, "pixels that are summed at a time")?;
    let done = dispatch!(Level::new(), simd => sum_in(simd, low, high, bands, out));
    done.map_or_else(|| bug("running sums reach beyond their pixels"), Ok)
}

/// Returns `None` if pixels are out of bounds.
#[inline(always)]
fn sum_in<S: Simd>(simd: S, low: &[u8], high: &[u8], bands: usize, out: &mut [u8]) -> Option<()> {
    let four = PIXELS * bands;
    let last = out.len() / 2;
    let step = Step::new(simd, bands)?;
    let mut at = 0;
    while at < last {
        // The last group of four may include pixels that are already done. These pixels are
        // computed again, with the same result.
        at = at.min(last.checked_sub(four)?);
        step.pixels(low.get(at..at + four)?, high.get(at..at + four)?, out.get_mut(2 * at..2 * (at + four))?)?;
        at += four;
    }
    Some(())
}

#[derive(Clone, Copy)]
struct Step<S: Simd> {
    simd: S,
    bands: usize,
    zero: u16x32<S>,
    low_bytes: u16x32<S>,
    /// Indices that copy the last lane of each 128-bit block to all lanes of the block.
    last: u8x64<S>,
    /// Used if the last group of bands overlaps the previous one. The indices copy the last band of the overlap to all
    /// lanes. The flag is true if this band has an odd index within the last group.
    known: (u8x64<S>, bool),
}

impl<S: Simd> Step<S> {
    #[inline(always)]
    fn new(simd: S, bands: usize) -> Option<Self> {
        // The last group starts `BANDS` bands before the end. The sums of its bands 0 to `known` are already known
        // from the previous group.
        let known = BANDS - 1 - bands % BANDS;
        Some(Self {
            simd,
            bands,
            zero: u16x32::splat(simd, 0),
            low_bytes: u16x32::splat(simd, 0xFF),
            last: spread(simd, 7)?,
            known: (spread(simd, known / 2)?, !known.is_multiple_of(2)),
        })
    }

    #[inline(always)]
    fn pixels(&self, low: &[u8], high: &[u8], out: &mut [u8]) -> Option<()> {
        let (low, high) = (quarters(low, self.bands)?, quarters(high, self.bands)?);
        let (front, back) = out.split_at_mut_checked(4 * self.bands)?;
        let (first, second) = front.split_at_mut_checked(2 * self.bands)?;
        let (third, fourth) = back.split_at_mut_checked(2 * self.bands)?;
        let mut out = [first, second, third, fourth];
        let mut carry = self.zero;
        for band in (0..self.bands - self.bands % BANDS).step_by(BANDS) {
            let (even, odd) = self.differences(low, high, band)?;
            let sums = self.scan(even, odd) + carry;
            carry = sums.swizzle_dyn_within_blocks(self.last);
            self.store(sums - odd, sums, &mut out, band)?;
        }
        if !self.bands.is_multiple_of(BANDS) {
            // This group overlaps the previous group. The sums of the two differ by a constant, which follows from a
            // band that both contain.
            let band = self.bands.checked_sub(BANDS)?;
            let (even, odd) = self.differences(low, high, band)?;
            let sums = self.scan(even, odd);
            let (spread, is_odd) = self.known;
            let known = if is_odd { sums } else { sums - odd };
            let sums = sums + (carry - known.swizzle_dyn_within_blocks(spread));
            self.store(sums - odd, sums, &mut out, band)?;
        }
        Some(())
    }

    #[inline(always)]
    fn differences(&self, low: [&[u8]; PIXELS], high: [&[u8]; PIXELS], band: usize) -> Option<(u16x32<S>, u16x32<S>)> {
        let (low, high) = (gather(self.simd, low, band)?, gather(self.simd, high, band)?);
        let even = (low & self.low_bytes) | (high << 8);
        let odd = (low >> 8) | (high & !self.low_bytes);
        Some((unzigzag(self.simd, even), unzigzag(self.simd, odd)))
    }

    /// Returns the running sums up to each odd band. In each block, the sums start at 0.
    #[inline(always)]
    fn scan(&self, even: u16x32<S>, odd: u16x32<S>) -> u16x32<S> {
        let mut sums = even + odd;
        sums += self.zero.slide_within_blocks::<7>(sums);
        sums += self.zero.slide_within_blocks::<6>(sums);
        sums + self.zero.slide_within_blocks::<4>(sums)
    }

    #[inline(always)]
    fn store(&self, even: u16x32<S>, odd: u16x32<S>, out: &mut [&mut [u8]; PIXELS], band: usize) -> Option<()> {
        let (front, back) = even.interleave(odd);
        let front: u8x64<S> = front.bitcast();
        let back: u8x64<S> = back.bitcast();
        let ((first, second), (third, fourth)) = (front.split(), back.split());
        for (out, sums) in out.iter_mut().zip([first, second, third, fourth]) {
            sums.store_array(out.get_mut(2 * band..)?.first_chunk_mut()?);
        }
        Some(())
    }
}

/// Returns indices that copy one of the eight lanes of each block to all lanes of that block.
#[inline(always)]
fn spread<S: Simd>(simd: S, lane: usize) -> Option<u8x64<S>> {
    let lane = u8::try_from(2 * lane).ok().filter(|lane| *lane < 16)?;
    let mut indices = [lane; 16];
    indices.iter_mut().skip(1).step_by(2).for_each(|index| *index = lane + 1);
    Some(u8x64::block_splat(u8x16::load_array(simd, indices)))
}

#[inline(always)]
fn quarters(plane: &[u8], length: usize) -> Option<[&[u8]; PIXELS]> {
    let (front, back) = plane.split_at_checked(2 * length)?;
    let (first, second) = front.split_at_checked(length)?;
    let (third, fourth) = back.split_at_checked(length)?;
    Some([first, second, third, fourth])
}

#[inline(always)]
fn gather<S: Simd>(simd: S, [a, b, c, d]: [&[u8]; PIXELS], band: usize) -> Option<u16x32<S>> {
    let (front, back) = (load(simd, a, band)?.combine(load(simd, b, band)?), load(simd, c, band)?);
    Some(front.combine(back.combine(load(simd, d, band)?)).bitcast())
}

#[inline(always)]
fn load<S: Simd>(simd: S, bytes: &[u8], at: usize) -> Option<u8x16<S>> {
    Some(u8x16::load_array_ref(simd, bytes.get(at..)?.first_chunk()?))
}
