//! Permutes axes and swaps bytes, in tiles that fit into the cache.
//!
//! The caller of [`GatherPlan::new`] must have checked that every loop stays within the available memory.
#![allow(clippy::indexing_slicing, reason = "offsets follow from a shape whose product was compared with both lengths")]

/// A tile of 8-byte elements takes 8 KiB in the source and in the output, so both fit into a 32 KiB
/// L1 cache.
const TILE: usize = 32;

const ROWS: usize = 16;

/// A traversal of the stored elements. The output element `[i, j, k]` is the stored element `start ± i·s₀ +
/// j·s₁ + k·s₂`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GatherPlan {
    dims: [usize; 3],
    start: usize,
    strides: [usize; 3],
    /// True if the first axis is traversed backwards.
    flip: bool,
}

impl GatherPlan {
    /// Creates a plan. `dims` and `strides` describe the output's three axes, outermost first. Returns
    /// `None` if the elements are already in order.
    pub(super) fn new(dims: [usize; 3], start: usize, strides: [usize; 3], flip: bool) -> Option<Self> {
        let [h, w, c] = dims;
        // The stride of an axis of length one is irrelevant.
        let in_order = (w * c, c, 1);
        let same = (h == 1 || strides[0] == in_order.0)
            && (w == 1 || strides[1] == in_order.1)
            && (c == 1 || strides[2] == in_order.2);
        if same && (!flip || h == 1) {
            return None;
        }
        // With a single band, the other two axes are transposed in tiles. The inner axis of a tile
        // must be longer than one.
        if c == 1 && !flip {
            return Some(Self { dims: [1, h, w], start, strides: [0, strides[0], strides[1]], flip });
        }
        Some(Self { dims, start, strides, flip })
    }

    fn row_start(&self, i: usize) -> usize {
        if self.flip { self.start - i * self.strides[0] } else { self.start + i * self.strides[0] }
    }
}

/// Collects the elements of `stored` in the order of `plan`. Each element has `size` bytes, which
/// are reversed if `swap` is true.
pub(super) fn gather(stored: &[u8], plan: &GatherPlan, size: u64, swap: bool) -> Vec<u8> {
    let mut out = vec![0; stored.len()];
    match (size, swap) {
        (1, _) => walk::<1, false>(stored, plan, &mut out),
        (2, false) => walk::<2, false>(stored, plan, &mut out),
        (2, true) => walk::<2, true>(stored, plan, &mut out),
        (4, false) => walk::<4, false>(stored, plan, &mut out),
        (4, true) => walk::<4, true>(stored, plan, &mut out),
        (_, false) => walk::<8, false>(stored, plan, &mut out),
        (_, true) => walk::<8, true>(stored, plan, &mut out),
    }
    out
}

pub(super) fn swap_in_place(bytes: &mut [u8], size: u64) {
    fn swap<const N: usize>(bytes: &mut [u8]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|element| element.reverse());
    }
    match size {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

fn walk<const N: usize, const SWAP: bool>(stored: &[u8], plan: &GatherPlan, out: &mut [u8]) {
    let (from, _) = stored.as_chunks::<N>();
    let (to, _) = out.as_chunks_mut::<N>();
    if plan.strides[2] == 1 {
        runs::<N, SWAP>(from, plan, to);
    } else if plan.strides[0] == 1 && plan.dims[0] > 1 {
        // In Fortran order, the rows are contiguous, and the columns are the outer loop.
        let [h, w, c] = plan.dims;
        for j in 0..w {
            let tiles =
                Tiles { from: plan.start + j * plan.strides[1], to: j * c, rows: h, row_from: 1, row_to: w * c };
            transpose::<N, SWAP>(from, to, &tiles, c, plan.strides[2]);
        }
    } else {
        let [h, w, c] = plan.dims;
        for i in 0..h {
            let tiles = Tiles { from: plan.row_start(i), to: i * w * c, rows: w, row_from: plan.strides[1], row_to: c };
            transpose::<N, SWAP>(from, to, &tiles, c, plan.strides[2]);
        }
    }
}

/// Gathers a few rows at a time, so that only a few KiB of the source and of the output are used at once.
fn runs<const N: usize, const SWAP: bool>(from: &[[u8; N]], plan: &GatherPlan, to: &mut [[u8; N]]) {
    let [_, w, c] = plan.dims;
    for (block, rows) in to.chunks_mut(ROWS * w * c).enumerate() {
        for j in 0..w {
            for (row, out) in rows.chunks_exact_mut(w * c).enumerate() {
                let at = plan.row_start(block * ROWS + row) + j * plan.strides[1];
                let run = &mut out[j * c..(j + 1) * c];
                run.copy_from_slice(&from[at..at + c]);
                if SWAP {
                    run.iter_mut().for_each(|element| element.reverse());
                }
            }
        }
    }
}

struct Tiles {
    from: usize,
    to: usize,
    rows: usize,
    row_from: usize,
    row_to: usize,
}

fn transpose<const N: usize, const SWAP: bool>(
    from: &[[u8; N]],
    to: &mut [[u8; N]],
    at: &Tiles,
    inner: usize,
    inner_from: usize,
) {
    for row0 in (0..at.rows).step_by(TILE) {
        let rows = TILE.min(at.rows - row0);
        for k0 in (0..inner).step_by(TILE) {
            for k in k0..inner.min(k0 + TILE) {
                let first = at.from + row0 * at.row_from + k * inner_from;
                let source = &from[first..=first + (rows - 1) * at.row_from];
                let target = &mut to[at.to + row0 * at.row_to + k..];
                let pairs = source.iter().step_by(at.row_from).zip(target.iter_mut().step_by(at.row_to));
                for (element, place) in pairs {
                    *place = *element;
                    if SWAP {
                        place.reverse();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(stored: &[u8], plan: &GatherPlan, size: usize, swap: bool) -> Vec<u8> {
        let [h, w, c] = plan.dims;
        let mut out = Vec::new();
        for i in 0..h {
            for j in 0..w {
                for k in 0..c {
                    let at = plan.row_start(i) + j * plan.strides[1] + k * plan.strides[2];
                    let mut element = stored[at * size..(at + 1) * size].to_vec();
                    if swap {
                        element.reverse();
                    }
                    out.extend(element);
                }
            }
        }
        out
    }

    #[test]
    fn tiles_agree_with_the_naive_walk() {
        for [h, w, c] in [[1, 1, 1], [1, 5, 3], [4, 1, 3], [4, 5, 1], [33, 31, 1], [2, 3, 4], [33, 65, 34], [5, 40, 70]]
        {
            let orders: [(usize, [usize; 3], bool); 6] = [
                (0, [w * c, c, 1], false),
                (0, [c * w, 1, w], false),
                (0, [w, 1, h * w], false),
                (0, [1, h, h * w], false),
                (0, [c, h * c, 1], false),
                ((h - 1) * c, [c, h * c, 1], true),
            ];
            for (start, strides, flip) in orders {
                let full = GatherPlan { dims: [h, w, c], start, strides, flip };
                for size in [1usize, 2, 4, 8] {
                    let stored: Vec<u8> = (0..h * w * c * size).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect();
                    for swap in [false, true] {
                        let expected = naive(&stored, &full, size, swap && size > 1);
                        let mut found = stored.clone();
                        match GatherPlan::new([h, w, c], start, strides, flip) {
                            Some(plan) => found = gather(&stored, &plan, size as u64, swap),
                            None if swap => swap_in_place(&mut found, size as u64),
                            None => {}
                        }
                        assert_eq!(found, expected, "{h}x{w}x{c} {strides:?} size {size} swap {swap}");
                    }
                }
            }
        }
    }
}
