//! Prepares Mixup, CutMix and mosaics on the device. They change rows in the output of a decoded batch.

use crate::config::KernelSource;
use crate::driver::{Launch, Params};
use crate::pictures::PixelType;
use shardpack_augment::Mixed;
use shardpack_format::to_usize;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::stage::{MosaicTile, RowMix, RowMosaic};
use std::ops::Range;

const THREADS: u32 = 256;
/// Maximum number of blocks per launch. If a row has more elements than the blocks have threads, each thread processes
/// several.
const MOST_BLOCKS: u64 = 4096;
/// Maximum number of blocks along the axis of the rows.
const MOST_ROWS: usize = 65_535;
/// Sizes of a tile and of a mosaic in the table, in bytes.
const TILE_BYTES: u32 = 40;
const MOSAIC_BYTES: u32 = 64;
/// Alignment of the copy of the rows, in bytes.
const COPY_ALIGNMENT: usize = 256;

pub(crate) const SOURCE: KernelSource<3> = KernelSource {
    ptx: include_str!("../ptx/mix.ptx"),
    kernels: &["mix_config", "mix", "mix_copy", "mosaic"],
    config: "mix_config",
    expected: [THREADS, TILE_BYTES, MOSAIC_BYTES],
};

/// Device memory that the kernels of a mix use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MixMemory {
    /// Address of the batch's output, followed by its size in bytes.
    pub(crate) out: u64,
    pub(crate) output_bytes: usize,
    /// Address of the work memory, a multiple of 256.
    pub(crate) work: u64,
}

/// The kernel launches of a mix, and the table that the kernels read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mixing {
    pub(crate) launches: Vec<Launch>,
    /// Bytes to copy to the start of the work memory.
    pub(crate) table: Vec<u8>,
}

pub(crate) trait DeviceMix {
    /// Returns the size of the work memory in bytes.
    fn work_bytes(&self, rows: &[Range<usize>]) -> usize;

    /// Returns the launches and their table, or `None` if the kernels do not support the mix or a row is outside the
    /// output.
    fn mixing(&self, rows: &[Range<usize>], memory: MixMemory) -> Option<Mixing>;
}

fn number(number: usize) -> Option<u32> {
    u32::try_from(number).ok()
}

fn blocks(elements: u64) -> Option<u32> {
    u32::try_from(elements.div_ceil(u64::from(THREADS)).clamp(1, MOST_BLOCKS)).ok()
}

fn starts(rows: &[Range<usize>]) -> Vec<u8> {
    rows.iter().flat_map(|row| (row.start as u64).to_le_bytes()).collect()
}

impl DeviceMix for RowMix {
    fn work_bytes(&self, rows: &[Range<usize>]) -> usize {
        8 * rows.len()
    }

    fn mixing(&self, rows: &[Range<usize>], memory: MixMemory) -> Option<Mixing> {
        let (is_rectangle, [top, left], [high, wide]) = match self.how {
            Mixed::Sum { .. } => (0, [0; 2], [0; 2]),
            Mixed::Rectangle { origin, size, .. } => (1, origin, size),
            Mixed::Mosaic(_) => return None,
        };
        // Rectangles of masks are copied as bytes.
        let bytes_of = to_usize(self.dtype.bytes()).max(1);
        let (dtype, element) = match PixelType::of(self.dtype) {
            Some(dtype) => (dtype, 1),
            None if is_rectangle == 1 => (PixelType::Uint8, bytes_of),
            None => return None,
        };
        let bytes = rows.first()?.len();
        let fits = |row: &Range<usize>| {
            row.len() == bytes && row.end <= memory.output_bytes && row.start.is_multiple_of(dtype.bytes())
        };
        if !rows.iter().all(fits) || !bytes.is_multiple_of(dtype.bytes()) {
            return None;
        }
        let elements = (bytes / dtype.bytes()) as u64;
        let [own, other] = RowMix::shares(self.how.share());
        let (width, channels) = (self.columns.max(1), self.channels.max(1));
        let height = (bytes / bytes_of / channels) / width;
        let mut params = Params::new().address(memory.out).address(memory.work);
        params = params.u32(number(rows.len())?).u32(dtype.code());
        params = params.address(elements).f32(own).f32(other).u32(is_rectangle);
        params = params.u32(u32::from(self.layout == PixelLayout::ChannelsHeightWidth));
        for value in [channels, element, height, width, top, left, high, wide] {
            params = params.u32(number(value)?);
        }
        let launch = Launch { kernel: "mix", grid: [blocks(elements)?, 1, 1], block: [THREADS, 1, 1], params };
        Some(Mixing { launches: vec![launch], table: starts(rows) })
    }
}

impl DeviceMix for RowMosaic {
    fn work_bytes(&self, rows: &[Range<usize>]) -> usize {
        table_bytes(rows.len()) + copied(rows).map_or(0, |range| range.len())
    }

    fn mixing(&self, rows: &[Range<usize>], memory: MixMemory) -> Option<Mixing> {
        let (element, bytes) = (to_usize(self.dtype.bytes()), self.row_bytes());
        let dtype = match (self.is_bilinear, PixelType::of(self.dtype)) {
            (true, dtype) => dtype?,
            (false, _) => PixelType::Uint8,
        };
        let fits = |row: &Range<usize>| {
            row.len() == bytes && row.end <= memory.output_bytes && row.start.is_multiple_of(dtype.bytes())
        };
        let has_rows = |tiles: &[MosaicTile; 4]| tiles.iter().all(|tile| tile.row < rows.len());
        let mut mosaics = self.rows.iter().flatten();
        if !rows.iter().all(fits) || self.rows.len() != rows.len() || !mosaics.all(|mosaic| has_rows(&mosaic.tiles)) {
            return None;
        }
        let copied = copied(rows)?;
        let before = memory.work + table_bytes(rows.len()) as u64;
        let copy_params =
            Params::new().address(before).address(memory.out + copied.start as u64).address(copied.len() as u64);
        let copy_grid = [blocks(copied.len() as u64 / 8)?, 1, 1];
        let copy = Launch { kernel: "mix_copy", grid: copy_grid, block: [THREADS, 1, 1], params: copy_params };
        let [height, width] = self.size;
        let mosaics_at = memory.work + 8 * rows.len() as u64;
        let tiles_at = mosaics_at + u64::from(MOSAIC_BYTES) * rows.len() as u64;
        let mut params = Params::new().address(memory.out).address(before).address(memory.work).address(mosaics_at);
        params = params.address(tiles_at).address(copied.start as u64);
        params = self.fill.iter().fold(params, |params, bits| params.address(*bits));
        params = params.u32(number(rows.len())?).u32(dtype.code()).u32(number(element)?);
        params = params.u32(u32::from(self.is_bilinear));
        params = params.u32(u32::from(self.layout == PixelLayout::ChannelsHeightWidth));
        params = params.u32(number(self.channels)?).u32(height).u32(width);
        let grid = [blocks(u64::from(height) * u64::from(width))?, number(rows.len().min(MOST_ROWS))?, 1];
        let mosaic = Launch { kernel: "mosaic", grid, block: [THREADS, 1, 1], params };
        Some(Mixing { launches: vec![copy, mosaic], table: mosaic_table(self, rows) })
    }
}

/// Returns the size in bytes of a mosaic's table, padded so that the copy of the rows can follow.
fn table_bytes(rows: usize) -> usize {
    (rows * (8 + MOSAIC_BYTES + 4 * TILE_BYTES) as usize).next_multiple_of(COPY_ALIGNMENT)
}

/// Returns the part of the output that contains the rows. Its start is a multiple of 8.
fn copied(rows: &[Range<usize>]) -> Option<Range<usize>> {
    Some(rows.first()?.start / 8 * 8..rows.last()?.end)
}

/// Returns a table with the offset of each row, followed by the mosaic of each row, followed by the tiles of all
/// mosaics.
fn mosaic_table(mosaic: &RowMosaic, rows: &[Range<usize>]) -> Vec<u8> {
    let mut table = starts(rows);
    for row in &mosaic.rows {
        let (inverse, centre) = row.map_or(([0.0; 6], [0; 2]), |row| (row.inverse, row.centre));
        table.extend(inverse.iter().flat_map(|number| number.to_le_bytes()));
        let words = [centre[0], centre[1], u32::from(row.is_some()), 0];
        table.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    for row in &mosaic.rows {
        for tile in row.map_or([MosaicTile::default(); 4], |row| row.tiles) {
            table.extend((tile.row as u64).to_le_bytes());
            table.extend(tile.offset.iter().flat_map(|side| side.to_le_bytes()));
            table.extend(tile.content.iter().flat_map(|side| side.to_le_bytes()));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_augment::Mix;
    use shardpack_base::DrawKey;
    use shardpack_format::ElementType;
    use shardpack_gpu_play::{MANNERS, Manner};
    use shardpack_loader::stage::MosaicRow;

    #[test]
    fn kernel_and_host_mean_the_same() {
        SOURCE.assert_same();
    }

    fn mixed() -> impl Strategy<Value = Mixed> {
        let sum = (0.0..=1.0).prop_map(|share| Mixed::Sum { share });
        let rectangle = (0..5_usize, 0..6_usize, 0..5_usize, 0..6_usize).prop_map(|(y, x, high, wide)| {
            Mixed::Rectangle { origin: [y, x], size: [high.min(5 - y), wide.min(6 - x)], share: 0.3 }
        });
        prop_oneof![sum, rectangle]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]

        #[test]
        fn rows_are_the_hosts_to_the_bit(
            how in mixed(),
            levels in prop::collection::vec(any::<u8>(), 7 * 90),
            order in prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4, 5, 6], 1..=7),
            (dtype, is_chw) in (0..4_usize, any::<bool>()),
        ) {
            let dtype = [ElementType::Dtype(shardpack_format::Dtype::U8), ElementType::Dtype(shardpack_format::Dtype::F16),
                ElementType::Bf16, ElementType::Dtype(shardpack_format::Dtype::F32)][dtype];
            let layout = if is_chw { PixelLayout::ChannelsHeightWidth } else { PixelLayout::HeightWidthChannels };
            let mix = RowMix { how, dtype, layout, columns: 6, channels: 3 };
            // The values include zeros of both signs.
            let value = |&level: &u8| if level % 8 == 0 { -0.0 } else { (f32::from(level) - 100.0) / 77.0 };
            let memory: Vec<u8> = levels.iter().flat_map(|level| match dtype {
                ElementType::Bf16 => half::bf16::from_f32(value(level)).to_le_bytes().to_vec(),
                ElementType::Dtype(shardpack_format::Dtype::F16) => half::f16::from_f32(value(level)).to_le_bytes().to_vec(),
                ElementType::Dtype(shardpack_format::Dtype::F32) => value(level).to_le_bytes().to_vec(),
                _ => vec![*level],
            }).collect();
            let bytes = 90 * dtype.bytes() as usize;
            let rows: Vec<_> = order.iter().map(|n| n * bytes..(n + 1) * bytes).collect();
            let mut expected = memory.clone();
            mix.apply(&rows, &mut expected);
            for manner in MANNERS {
                prop_assert!(played(&mix, &rows, &memory, manner) == expected);
            }
        }

        #[test]
        fn rectangles_of_masks_are_the_hosts(
            (y, x, high, wide) in (0..5_usize, 0..6_usize, 0..5_usize, 0..6_usize),
            levels in prop::collection::vec(any::<u8>(), 3 * 5 * 6 * 2 * 8),
            (dtype, is_chw, channels) in (0..4_usize, any::<bool>(), 1..=2_usize),
        ) {
            use shardpack_format::Dtype::{Bool, F64, I64, U16};
            let dtype = ElementType::Dtype([Bool, U16, I64, F64][dtype]);
            let layout = if is_chw { PixelLayout::ChannelsHeightWidth } else { PixelLayout::HeightWidthChannels };
            let how = Mixed::Rectangle { origin: [y, x], size: [high.min(5 - y), wide.min(6 - x)], share: 0.3 };
            let mix = RowMix { how, dtype, layout, columns: 6, channels };
            let bytes = 30 * channels * dtype.bytes() as usize;
            let rows: Vec<_> = (0..3).map(|n| n * bytes..(n + 1) * bytes).collect();
            let memory = &levels[..3 * bytes];
            let mut expected = memory.to_vec();
            mix.apply(&rows, &mut expected);
            for manner in MANNERS {
                prop_assert!(played(&mix, &rows, memory, manner) == expected);
            }
        }

        #[test]
        fn mosaics_are_the_hosts_to_the_bit(
            levels in prop::collection::vec(any::<u8>(), 5 * 63 * 3),
            seed in any::<u64>(),
            (kind, is_chw, channels) in (0..7_usize, any::<bool>(), 1..=4_usize),
            text in prop::sample::select(vec![
                "mosaic", "mosaic(scale=1..1,translate=0)", "mosaic(degrees=180,shear=30,shear_y=9,scale=0.1..3,p=0.7)",
            ]),
            border in 0..3_u32,
        ) {
            use shardpack_format::Dtype::{F16, F32, I64, U16, U8};
            let kinds = [(U8, true), (F16, true), (F32, true), (F32, true), (U8, false), (U16, false), (I64, false)];
            let (dtype, is_bilinear) = kinds[kind];
            let dtype = if kind == 3 { ElementType::Bf16 } else { dtype.into() };
            let layout = if is_chw { PixelLayout::ChannelsHeightWidth } else { PixelLayout::HeightWidthChannels };
            let Mix::Mosaic(mosaic) = text.parse().unwrap() else { panic!("a mosaic") };
            let size @ [height, width] = [7, 9];
            let content = [border, border, width - border, height - 1];
            let row = |sample: usize| {
                let draws = DrawKey { seed, epoch: 0, sample: sample as u64 }.draws();
                let plan = mosaic.resolve(&draws, height, width)?;
                let tiles = [0, 1, 2, 3].map(|n| {
                    MosaicTile { row: (sample + 5 - n) % 5, offset: plan.offset(n, content), content }
                });
                Some(MosaicRow { inverse: plan.inverse(), centre: plan.centre(), tiles })
            };
            let fill = [0x1122_3344_5566_7788, 0x3C00, 9];
            let rows = (0..5).map(row).collect();
            let mosaic = RowMosaic { dtype, layout, size, channels, fill, is_bilinear, rows };
            let value = |level: u8| (f32::from(level) - 100.0) / 77.0;
            let of = |n: usize| levels[n % levels.len()];
            let memory: Vec<u8> = (0..5 * 63 * channels).flat_map(|n| match (is_bilinear, dtype) {
                (true, ElementType::Bf16) => half::bf16::from_f32(value(of(n))).to_le_bytes().to_vec(),
                (true, ElementType::Dtype(F16)) => half::f16::from_f32(value(of(n))).to_le_bytes().to_vec(),
                (true, ElementType::Dtype(F32)) => value(of(n)).to_le_bytes().to_vec(),
                (_, dtype) => (0..dtype.bytes() as usize).map(|byte| of(n + byte)).collect(),
            }).collect();
            let bytes = mosaic.row_bytes();
            let rows: Vec<_> = (0..5).map(|n| n * bytes..(n + 1) * bytes).collect();
            let mut expected = memory.clone();
            mosaic.apply(&rows, &mut expected, 2);
            for manner in MANNERS {
                prop_assert!(played(&mosaic, &rows, &memory, manner) == expected);
            }
        }
    }

    fn played(mix: &dyn DeviceMix, rows: &[Range<usize>], memory: &[u8], manner: Manner) -> Vec<u8> {
        let mut device = shardpack_gpu_play::Device::new(manner);
        let (out, work) = (device.upload(memory), device.alloc(mix.work_bytes(rows)));
        let at = MixMemory { out: device.address(out), output_bytes: memory.len(), work: device.address(work) };
        let Mixing { launches, table } = mix.mixing(rows, at).unwrap();
        device.bytes_mut(work).unwrap()[..table.len()].copy_from_slice(&table);
        for launch in launches {
            device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
        }
        device.bytes(out).to_vec()
    }

    #[test]
    fn rows_outside_of_the_output_are_not_for_the_kernel() {
        let dtype = ElementType::Dtype(shardpack_format::Dtype::F16);
        let layout = PixelLayout::default();
        let mix = RowMix { how: Mixed::Sum { share: 0.5 }, dtype, layout, columns: 2, channels: 3 };
        let mosaic = |rows: &[Range<usize>]| {
            let rows = vec![None; rows.len()];
            RowMosaic { dtype, layout, size: [1, 2], channels: 3, fill: [0; 3], is_bilinear: true, rows }
        };
        let memory = MixMemory { out: 0, output_bytes: 36, work: 0 };
        let of = |rows: &[Range<usize>]| {
            let both = [mix.mixing(rows, memory).is_some(), mosaic(rows).mixing(rows, memory).is_some()];
            assert_eq!(both[0], both[1]);
            both[0]
        };
        assert!(of(&[0..12, 12..24, 24..36]));
        for rows in [&[0..12, 26..38][..], &[0..12, 12..22], &[1..13, 13..25], &[]] {
            assert!(!of(rows), "{rows:?}");
        }
        let tile = MosaicTile { row: 2, ..MosaicTile::default() };
        let beyond = MosaicRow { inverse: [0.0; 6], centre: [0; 2], tiles: [tile; 4] };
        let rows = [0..12, 12..24];
        let mosaic = RowMosaic { rows: vec![Some(beyond), None], ..mosaic(&rows) };
        assert_eq!(mosaic.mixing(&rows, memory), None);
    }
}
