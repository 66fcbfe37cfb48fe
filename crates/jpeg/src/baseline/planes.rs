//! Stores the samples of the components. Keeps only the rows that are still needed.
#![deny(clippy::indexing_slicing)]

use super::bands::Band;
use super::idct::{Within, samples};
use super::layout::Layout;
use super::tables::Tables;
use fearless_simd::prelude::Simd;
use fearless_simd::{Level, dispatch};

/// Samples of one component: the columns that the layout shows, and the latest rows. It is a ring buffer: row
/// y is stored at y modulo the number of rows that fit.
#[derive(Default)]
pub(super) struct Plane {
    samples: Vec<u8>,
    stride: usize,
    rows: usize,
}

impl Plane {
    #[inline(always)]
    pub(super) fn row(&self, y: usize) -> Option<&[u8]> {
        let start = y.checked_rem(self.rows)? * self.stride;
        self.samples.get(start..start + self.stride)
    }

    /// Stores a block at row `y`, a multiple of eight, and at column `x` of the stored columns.
    #[inline(always)]
    fn put(&mut self, x: usize, y: usize, block: &[u8; 64]) -> Option<()> {
        let mut at = y.checked_rem(self.rows)? * self.stride + x;
        for row in block.as_chunks::<8>().0 {
            self.samples.get_mut(at..at + 8)?.copy_from_slice(row);
            at += self.stride;
        }
        Some(())
    }
}

#[derive(Default)]
pub(super) struct Planes {
    planes: [Plane; 3],
}

impl Planes {
    pub(super) const fn get(&self) -> &[Plane; 3] {
        &self.planes
    }

    pub(super) fn bytes(&self) -> usize {
        self.planes.iter().map(|plane| plane.samples.capacity()).sum()
    }

    /// Makes room for the samples of a band and of the MCU row above it. The last pixels of that row are interpolated
    /// with the band's first pixels.
    pub(super) fn prepare(&mut self, layout: &Layout) {
        for (component, plane) in self.planes.iter_mut().enumerate().take(layout.components) {
            let (h, v) = layout.factors(component);
            plane.stride = layout.shown_columns.len() * h * 8;
            plane.rows = (layout.band + 1) * v * 8;
            let size = plane.stride * plane.rows;
            if plane.samples.len() < size {
                plane.samples.resize(size, 0);
            }
        }
    }

    /// Converts coefficients to samples. Returns `None` if a value is so large that implementations
    /// of the inverse DCT give different results.
    #[inline(always)]
    pub(super) fn fill(&mut self, layout: &Layout, tables: &Tables, band: &Band<'_>) -> Option<()> {
        let level = Level::new();
        // Use AVX2 even if AVX-512 is available, because the code compiled for AVX-512 is a fifth slower.
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        if let Some(avx2) = level.as_avx2() {
            return avx2.vectorize(
                #[inline(always)]
                || self.fill_in(avx2, layout, tables, band),
            );
        }
        dispatch!(level, simd => self.fill_in(simd, layout, tables, band))
    }

    #[inline(always)]
    fn fill_in<S: Simd>(&mut self, simd: S, layout: &Layout, tables: &Tables, band: &Band<'_>) -> Option<()> {
        let mut within = Within::new(simd);
        let mut out = [0; 64];
        let mcu = layout.blocks;
        for (row, start) in band.rows.clone().zip(band.starts) {
            if row < layout.shown_rows.start {
                continue;
            }
            let shown = start..start + layout.shown_columns.len() * mcu;
            let (blocks, lasts) = (band.blocks.get(shown.clone())?, band.lasts.get(shown)?);
            for (column, (blocks, lasts)) in blocks.chunks_exact(mcu).zip(lasts.chunks_exact(mcu)).enumerate() {
                let mut blocks = blocks.iter().zip(lasts);
                let components = self.planes.iter_mut().zip(&tables.quantisers).enumerate().take(layout.components);
                for (component, (plane, quantiser)) in components {
                    let (h, v) = layout.factors(component);
                    for y in 0..v {
                        for x in 0..h {
                            let (block, &last) = blocks.next()?;
                            samples(simd, block, last, quantiser, &mut within, &mut out);
                            plane.put((column * h + x) * 8, (row * v + y) * 8, &out)?;
                        }
                    }
                }
            }
        }
        within.holds().then_some(())
    }
}
