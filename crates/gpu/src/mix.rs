//! Prepares Mixup and CutMix on the device, which mix rows in the output of a decoded batch.

use crate::config::KernelSource;
use crate::driver::{Launch, Params};
use crate::pictures::Dtype;
use shardpack_augment::Mixed;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::stage::RowMix;
use std::ops::Range;

const THREADS: u32 = 256;
/// Maximum number of blocks per launch. If a row has more elements than the blocks have threads, each thread processes
/// several.
const MOST_BLOCKS: u64 = 4096;

pub(crate) const SOURCE: KernelSource<1> = KernelSource {
    ptx: include_str!("../ptx/mix.ptx"),
    kernels: &["mix_config", "mix"],
    config: "mix_config",
    expected: [THREADS],
};

/// A launch, and the table that it reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mixing {
    pub(crate) launch: Launch,
    /// Offset of the first byte of each row. The caller uploads the table to the table address of the launch.
    pub(crate) table: Vec<u8>,
}

impl Mixing {
    /// Mixes rows of an output of `output_bytes` at `out`, with the table at `table`, a multiple of 8.
    /// Returns `None` if the kernel does not support the mix, or a row is outside the output.
    pub(crate) fn new(rows: &[Range<usize>], mix: &RowMix, out: u64, output_bytes: usize, table: u64) -> Option<Self> {
        let dtype = Dtype::of(mix.dtype)?;
        let bytes = rows.first()?.len();
        let fits = |row: &Range<usize>| {
            row.len() == bytes && row.end <= output_bytes && row.start.is_multiple_of(dtype.bytes())
        };
        if !rows.iter().all(fits) || !bytes.is_multiple_of(dtype.bytes()) {
            return None;
        }
        let elements = (bytes / dtype.bytes()) as u64;
        let [own, other] = RowMix::shares(mix.how.share());
        let number = |number: usize| u32::try_from(number).ok();
        let (is_rectangle, [top, left], [high, wide]) = match mix.how {
            Mixed::Sum { .. } => (0, [0; 2], [0; 2]),
            Mixed::Rectangle { origin, size, .. } => (1, origin, size),
        };
        let width = mix.columns.max(1);
        let height = (bytes / dtype.bytes() / 3) / width;
        let kind = match dtype {
            Dtype::Uint8 => 0,
            Dtype::Float16 => 1,
            Dtype::Bfloat16 => 2,
            Dtype::Float32 => 3,
        };
        let mut params = Params::new().address(out).address(table).u32(number(rows.len())?).u32(kind);
        params = params.address(elements).f32(own).f32(other).u32(is_rectangle);
        params = params.u32(u32::from(mix.layout == PixelLayout::ChannelsHeightWidth));
        for value in [height, width, top, left, high, wide] {
            params = params.u32(number(value)?);
        }
        let blocks = elements.div_ceil(u64::from(THREADS)).min(MOST_BLOCKS);
        let grid = [u32::try_from(blocks).ok()?, 1, 1];
        let launch = Launch { kernel: "mix", grid, block: [THREADS, 1, 1], shared_bytes: 0, params };
        let table = rows.iter().flat_map(|row| (row.start as u64).to_le_bytes()).collect();
        Some(Self { launch, table })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_format::ElementType;
    use shardpack_gpu_play::MANNERS;

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
            let mix = RowMix { how, dtype, layout, columns: 6 };
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
                let mut device = shardpack_gpu_play::Device::new(manner);
                let out = device.upload(&memory);
                let table = device.alloc(8 * rows.len());
                let at = (device.address(out), memory.len());
                let mixing = Mixing::new(&rows, &mix, at.0, at.1, device.address(table)).unwrap();
                device.bytes_mut(table).unwrap().copy_from_slice(&mixing.table);
                let launch = mixing.launch;
                device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
                prop_assert!(device.bytes(out) == expected);
            }
        }
    }

    #[test]
    fn rows_outside_of_the_output_are_not_for_the_kernel() {
        let dtype = ElementType::Dtype(shardpack_format::Dtype::F16);
        let mix = RowMix { how: Mixed::Sum { share: 0.5 }, dtype, layout: PixelLayout::default(), columns: 2 };
        let of = |rows: &[Range<usize>]| Mixing::new(rows, &mix, 0, 36, 0).is_some();
        assert!(of(&[0..12, 12..24, 24..36]));
        for rows in [&[0..12, 26..38][..], &[0..12, 12..22], &[1..13, 13..25], &[]] {
            assert!(!of(rows), "{rows:?}");
        }
    }
}
