//! Compares chunks byte for byte with the chunks that c-blosc2 2.21.3 writes.
//!
//! `golden.txt` contains one digest per setting and item size. Each digest covers the chunks that c-blosc2 made from
//! the units of [`all`].

use super::test_units::{KINDS, unit};
use super::{Blosc2Coder, Encoder, STREAM_BYTES, ZSTD_LEVELS};
use crate::filter::Filter;
use sha2::{Digest, Sha256};

pub(crate) fn coders() -> Vec<(&'static str, Blosc2Coder, Option<i32>)> {
    let lz4hc = (1..=9).map(|level| ("lz4hc", Blosc2Coder::Lz4hc, Some(level)));
    let zstd = ZSTD_LEVELS.into_iter().map(|level| ("zstd", Blosc2Coder::Zstd, Some(level)));
    std::iter::once(("lz4", Blosc2Coder::Lz4, None)).chain(lz4hc).chain(zstd).collect()
}

pub(crate) const FILTERS: [(&str, Filter); 4] = [
    ("none", Filter::None),
    ("shuffle", Filter::Shuffle),
    ("bitshuffle", Filter::Bitshuffle),
    ("bytedelta", Filter::Bytedelta),
];

/// Returns the units that a digest covers: all kinds of units and, if `long`, also units with several blocks.
pub(crate) fn all(item: usize, long: bool) -> impl Iterator<Item = Vec<u8>> {
    let short = [1, 4, 7, 16, 100, 1003]
        .into_iter()
        .flat_map(move |items| KINDS.map(move |kind| unit(kind, item, items, items as u64)));
    let middle = [(5, 9_000), (9, 8_192)];
    let long =
        [(15, STREAM_BYTES), (11, STREAM_BYTES + 1), (15, STREAM_BYTES + 4_321)].into_iter().filter(move |_| long);
    short.chain(middle.into_iter().chain(long).map(move |(kind, items)| unit(kind, item, items, 7)))
}

/// Returns the line of `golden.txt` for one setting. `encode` encodes a unit as a chunk.
pub(crate) fn line(
    (name, level, filter, item): (&str, Option<i32>, &str, usize),
    mut encode: impl FnMut(&[u8]) -> Vec<u8>,
) -> String {
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    // Long units are slow to encode, so only some settings include them.
    for unit in all(item, item == 2 || level.is_none()) {
        let chunk = encode(&unit);
        bytes += chunk.len();
        digest.update(&chunk);
    }
    let digest: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let level = level.map_or("-".to_owned(), |level| level.to_string());
    format!("{name} {level} {filter} {item} {bytes} {digest}")
}

#[test]
fn chunks_are_those_of_c_blosc2() {
    let mut golden = include_str!("golden.txt").lines();
    for (name, coder, level) in coders() {
        for (filter_name, filter) in FILTERS {
            let mut encoder = Encoder::new(coder, level, filter).unwrap();
            for item in 1..=8_u8 {
                let made = line((name, level, filter_name, item.into()), |unit| {
                    let mut chunk = Vec::new();
                    encoder.chunk(unit, item, &mut chunk).unwrap();
                    chunk
                });
                assert_eq!(Some(made.as_str()), golden.next());
            }
        }
    }
    assert_eq!(golden.next(), None);
}
