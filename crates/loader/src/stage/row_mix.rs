//! Mixes the rows of a batch. This implementation is for the host, and defines the result for devices too.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use shardpack_augment::Mixed;
use shardpack_base::vectorised;
use shardpack_format::{Dtype, ElementType, bug};
use shardpack_jpeg::PixelLayout;
use std::ops::Range;

/// How to mix the rows of a field, and the layout of their elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowMix {
    /// How each row is mixed with the previous row.
    pub how: Mixed,
    /// Element type.
    pub dtype: ElementType,
    /// Axis order of a picture.
    pub layout: PixelLayout,
    /// Number of columns of a picture.
    pub columns: usize,
    /// Number of channels: 3 for pictures, and 1 for masks without channels.
    pub channels: usize,
}

impl RowMix {
    /// Returns the weights of a row and of the previous row. An element is `own × share + other × rest`, computed in
    /// float32 with each operation rounded separately, and then rounded to the nearest value of its type. Levels
    /// (uint8) are rounded by adding one half and truncating.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
    pub const fn shares(share: f64) -> [f32; 2] {
        [share as f32, (1.0 - share) as f32]
    }

    /// Mixes the rows of `memory`, which must be in ascending order and have the same length. Each row is
    /// mixed with the previous row as it was before mixing, and the first row with the last.
    pub fn apply(&self, rows: &[Range<usize>], memory: &mut [u8]) {
        let Some(last) = rows.last().and_then(|row| memory.get(row.clone())) else { return };
        // Start with the last row, so that the previous row is still unmixed when a row is mixed with it.
        let last = last.to_vec();
        for (n, row) in rows.iter().enumerate().rev() {
            let both = memory.get_mut(..row.end).and_then(|all| all.split_at_mut_checked(row.start));
            let Some((before, own)) = both else { continue };
            let other = match n.checked_sub(1).and_then(|n| rows.get(n)) {
                Some(other) => before.get(other.clone()).unwrap_or_default(),
                None => &*last,
            };
            self.mix(own, other);
        }
    }

    fn mix(&self, own: &mut [u8], other: &[u8]) {
        let (origin, size) = match self.how {
            Mixed::Sum { share } => return self.sum(share, own, other),
            Mixed::Rectangle { origin, size, .. } => (origin, size),
            Mixed::Mosaic(_) => bug("a mosaic has rows of its own"),
        };
        let element = usize::try_from(self.dtype.bytes()).unwrap_or(1);
        let ([top, left], [rows, columns]) = (origin, size);
        let (pixel, planes) = match self.layout {
            PixelLayout::HeightWidthChannels => (self.channels * element, 1),
            PixelLayout::ChannelsHeightWidth => (element, self.channels.max(1)),
        };
        let (stride, plane) = ((pixel * self.columns).max(1), (own.len() / planes).max(1));
        for (own, other) in own.chunks_exact_mut(plane).zip(other.chunks_exact(plane)) {
            let lines = own.chunks_exact_mut(stride).zip(other.chunks_exact(stride)).skip(top).take(rows);
            for (own, other) in lines {
                let range = pixel * left..pixel * (left + columns);
                if let (Some(own), Some(other)) = (own.get_mut(range.clone()), other.get(range)) {
                    own.copy_from_slice(other);
                }
            }
        }
    }

    /// Adds the weighted elements. Rounds each result once, to the nearest value.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two levels")]
    fn sum(&self, share: f64, own: &mut [u8], other: &[u8]) {
        let [share, rest] = Self::shares(share);
        match self.dtype {
            ElementType::Bf16 => each(own, other, |a, b| {
                let [a, b] = [a, b].map(|x| bf16::from_le_bytes(x).to_f32());
                bf16::from_f32(a * share + b * rest).to_le_bytes()
            }),
            ElementType::Dtype(Dtype::F16) => halves(own, other, |a, b| a * share + b * rest),
            ElementType::Dtype(Dtype::F32) => {
                each(own, other, |a, b| (f32::from_le_bytes(a) * share + f32::from_le_bytes(b) * rest).to_le_bytes())
            }
            ElementType::Dtype(_) => {
                each(own, other, |[a], [b]| [(f32::from(a) * share + f32::from(b) * rest + 0.5) as u8]);
            }
        }
    }
}

fn each<const N: usize>(own: &mut [u8], other: &[u8], mixed: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    vectorised(
        #[inline(always)]
        || {
            let (own, other) = (own.as_chunks_mut().0, other.as_chunks().0);
            own.iter_mut().zip(other).for_each(|(own, other)| *own = mixed(*own, *other));
        },
    );
}

/// Same as `sum`, but converts elements in groups, which processors convert with a single instruction.
fn halves(own: &mut [u8], other: &[u8], mixed: impl Fn(f32, f32) -> f32) {
    const AT_A_TIME: usize = 256;
    let load = |bytes: &[u8], to: &mut [f32]| {
        let mut elements = [f16::ZERO; AT_A_TIME];
        elements.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, x)| *to = f16::from_le_bytes(*x));
        if let Some(elements) = elements.get(..to.len()) {
            elements.convert_to_f32_slice(to);
        }
    };
    let (mut a, mut b, mut out) = ([0.0; AT_A_TIME], [0.0; AT_A_TIME], [f16::ZERO; AT_A_TIME]);
    for (own, other) in own.chunks_mut(2 * AT_A_TIME).zip(other.chunks(2 * AT_A_TIME)) {
        let count = own.len() / 2;
        let (Some(a), Some(b), Some(out)) = (a.get_mut(..count), b.get_mut(..count), out.get_mut(..count)) else {
            return;
        };
        load(own, a);
        load(other, b);
        a.iter_mut().zip(&*b).for_each(|(a, &b)| *a = mixed(*a, b));
        out.convert_from_f32_slice(a);
        own.as_chunks_mut().0.iter_mut().zip(&*out).for_each(|(to, x)| *to = x.to_le_bytes());
    }
}
