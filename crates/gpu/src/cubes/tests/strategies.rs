//! Proptest strategies for random arrays and settings.

use super::generate::{Fill, array};
use proptest::prelude::*;
use shardpack_array::{Array, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::Dtype;

fn coders() -> impl Strategy<Value = (Coder, Option<i32>)> {
    prop_oneof![
        4 => Just((Coder::Blosc2Lz4, None)),
        1 => Just((Coder::Blosc2Lz4hc, Some(9))),
        1 => Just((Coder::Blosc2Zstd, Some(1))),
        1 => Just((Coder::Blosc2Zstd, Some(9))),
        1 => Just((Coder::Zstd, Some(1))),
        1 => Just((Coder::Raw, None)),
    ]
}

pub(super) fn settings() -> impl Strategy<Value = ArraySettings> {
    let filter =
        prop_oneof![Just(Filter::None), Just(Filter::Shuffle), Just(Filter::Bitshuffle), Just(Filter::Bytedelta)];
    let values = prop_oneof![
        Just(ValueRule::Keep),
        Just(ValueRule::IntegerOrKeep),
        Just(ValueRule::IntegerOrF16),
        Just(ValueRule::Fixed { max_error: 0.01 }),
        Just(ValueRule::Fixed { max_error: 0.2 }),
    ];
    let layout = prop_oneof![Just(ArrayLayout::AsShape), Just(ArrayLayout::BandMajor)];
    (coders(), filter, values, layout, any::<bool>()).prop_map(
        |((coder, level), filter, values, layout, band_difference)| {
            let filter = if coder.has_filters() { filter } else { Filter::None };
            ArraySettings { values, coder, level, filter, band_difference, layout }
        },
    )
}

fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        3 => prop::collection::vec(0..9_u64, 0..5),
        4 => (1..40_u64, 1..40_u64, 1..80_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        1 => (1..300_u64, 1..300_u64).prop_map(|(h, w)| vec![h, w]),
        1 => (30..60_u64, 40..70_u64, 30..70_u64).prop_map(|(h, w, c)| vec![h, w, c]),
    ]
}

fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![
        2 => (0..9_u32).prop_map(Fill::Bits),
        4 => Just(Fill::Smooth),
        1 => any::<u8>().prop_map(Fill::Constant),
        2 => Just(Fill::Counts),
    ]
}

pub(super) fn arrays() -> impl Strategy<Value = Array> {
    (prop::sample::select(Dtype::ALL), shapes(), fills(), any::<u32>())
        .prop_map(|(dtype, shape, fill, seed)| array(dtype, shape, fill, seed))
}
