use super::test_units::{KINDS, unit};
use super::*;
use crate::{Coder, Filter};
use proptest::prelude::*;
use shardpack_format::Result;

fn noise(len: usize, seed: u32, bits: u32) -> Vec<u8> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> (32 - bits)) as u8
        })
        .collect()
}

/// Returns items so smooth that the coder compresses both byte planes.
fn smooth(items: usize) -> Vec<u8> {
    (0..items).flat_map(|i| ((i / 3 + i % 7) as u16).to_le_bytes()).collect()
}

fn encode(coder: Blosc2Coder, filter: Filter, unit: &[u8], item: u8) -> Vec<u8> {
    let level = match coder {
        Blosc2Coder::Lz4 => None,
        Blosc2Coder::Lz4hc => Coder::Blosc2Lz4hc.default_level(),
        Blosc2Coder::Zstd => Some(3),
    };
    let mut out = Vec::new();
    Encoder::new(coder, level, filter).unwrap().chunk(unit, item, &mut out).unwrap();
    out
}

fn decode(chunk: &[u8], item: u8, len: usize) -> Result<Vec<u8>> {
    let chunk = Chunk::parse(chunk, item, len)?;
    let mut out = vec![0xEE; len];
    Decoder::default().decode(&chunk, item, &mut out)?;
    Ok(out)
}

#[test]
fn streams_are_as_the_specification_wants_them() {
    let unit = smooth(200_000);
    let bytes = encode(Blosc2Coder::Zstd, Filter::Shuffle, &unit, 2);
    let chunk = Chunk::parse(&bytes, 2, unit.len()).unwrap();
    let ChunkContent::Blocks { coder, filters, block_bytes, streams } = chunk.content() else { panic!("{chunk:?}") };
    assert_eq!((*coder, *block_bytes), (StreamCoder::Zstd, 131_072));
    assert_eq!(*filters, Filters { shuffle: Shuffle::Bytes, byte_delta: false });
    // Three full blocks of two streams, and one short block of one stream.
    assert_eq!(
        streams.iter().map(|s| s.out_bytes).collect::<Vec<_>>(),
        [65_536, 65_536, 65_536, 65_536, 65_536, 65_536, 6784]
    );
}

#[test]
fn zstd_levels_are_zstds_own() {
    // Without a filter, the stream of a unit of one-byte items is exactly the frame that zstd itself produces at this
    // level.
    let unit: Vec<u8> = noise(60_000, 3, 4).iter().zip(smooth(60_000)).map(|(a, b)| a ^ b).collect();
    for level in ZSTD_LEVELS {
        let mut out = Vec::new();
        Encoder::new(Blosc2Coder::Zstd, Some(level), Filter::None).unwrap().chunk(&unit, 1, &mut out).unwrap();
        let chunk = Chunk::parse(&out, 1, unit.len()).unwrap();
        let ChunkContent::Blocks { streams, .. } = chunk.content() else { panic!() };
        let frame = &out[streams[0].offset..][..streams[0].bytes];
        assert_eq!(frame, zstd::bulk::compress(&unit, level).unwrap(), "level {level}");
    }
    assert!(Encoder::new(Blosc2Coder::Zstd, Some(20), Filter::None).is_err());
}

#[test]
fn short_units_do_not_spoil_the_context_for_long_ones() {
    let (long, short) = (smooth(300_000), smooth(100));
    let mut encoder = Encoder::new(Blosc2Coder::Lz4, None, Filter::Shuffle).unwrap();
    let mut encode = |unit: &[u8]| {
        let mut out = Vec::new();
        encoder.chunk(unit, 2, &mut out).unwrap();
        out
    };
    let first = encode(&long);
    let small = encode(&short);
    assert_eq!(encode(&long), first);
    assert_eq!(encode(&short), small);
}

#[test]
fn zeros_become_a_special_chunk_and_constants_runs() {
    let zeros = encode(Blosc2Coder::Lz4, Filter::Shuffle, &[0; 1 << 20], 2);
    assert_eq!(zeros.len(), HEADER_BYTES);
    assert_eq!(decode(&zeros, 2, 1 << 20).unwrap(), [0; 1 << 20]);
    let ones = encode(Blosc2Coder::Zstd, Filter::Shuffle, &[1; 1 << 20], 2);
    assert_eq!(Chunk::parse(&ones, 2, 1 << 20).unwrap().coded_out_bytes(), 0);
    assert_eq!(decode(&ones, 2, 1 << 20).unwrap(), [1; 1 << 20]);
}

#[test]
fn special_chunks_of_nan_and_of_a_value_are_read() {
    let mut chunk = vec![0; 36];
    chunk[..4].copy_from_slice(&[5, 1, 0x85, 4]);
    chunk[4] = 8;
    chunk[8] = 8;
    chunk[12] = 32;
    chunk[22] = 5;
    chunk[31] = 2 << 4;
    assert_eq!(decode(&chunk, 4, 8).unwrap(), [0, 0, 0xC0, 0x7F, 0, 0, 0xC0, 0x7F]);
    chunk[31] = 3 << 4;
    chunk[12] = 36;
    chunk[32..].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(decode(&chunk, 4, 8).unwrap(), [1, 2, 3, 4, 1, 2, 3, 4]);
    // The specification forbids this special value, because it leaves the bytes undefined.
    chunk[31] = 4 << 4;
    assert!(decode(&chunk, 4, 8).is_err());
}

#[test]
fn c06_every_field_of_the_header_is_checked() {
    let unit = smooth(100_000);
    let good = encode(Blosc2Coder::Zstd, Filter::Bytedelta, &unit, 2);
    assert_eq!(decode(&good, 2, unit.len()).unwrap(), unit);
    let bad = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        decode(&bytes, 2, unit.len()).map(|_| ()).unwrap_err().to_string()
    };
    let word = |at: usize, value: u32| move |b: &mut Vec<u8>| b[at..at + 4].copy_from_slice(&value.to_le_bytes());
    assert!(bad(&|b| b[0] = 6).contains("version"));
    assert!(bad(&|b| b[1] = 2).contains("coder version"));
    assert!(bad(&|b| b[2] &= !0x04).contains("flags"));
    assert!(bad(&|b| b[2] |= 0x08).contains("flags"));
    assert!(bad(&|b| b[2] |= 0x10).contains("split mode"));
    assert!(bad(&|b| b[2] |= 0x40 | 0x80).contains("coder"));
    for typesize in [0, 1, 4, 255] {
        assert!(bad(&|b| b[3] = typesize).contains("item size"));
    }
    assert!(bad(&word(4, 0)).contains("decoded size"));
    assert!(bad(&word(4, u32::MAX)).contains("decoded size"));
    for block in [0, 1, 65_536, 1 << 20, u32::MAX] {
        assert!(bad(&word(8, block)).contains("block size"), "{block}");
    }
    assert!(bad(&word(12, 31)).contains("chunk size"));
    assert!(bad(&word(12, good.len() as u32 + 1)).contains("chunk size"));
    assert!(bad(&word(12, good.len() as u32 - 1)).contains("stream"));
    for filter in [3, 4, 5, 32, 34, 36, 128, 255] {
        assert!(bad(&|b| b[16] = filter).contains("filters"), "{filter}");
    }
    // A byte delta with a different stride would leave some bytes of the block unwritten.
    assert!(bad(&|b| b[29] = 7).contains("filters"));
    assert!(bad(&|b| b[29] = 0).contains("filters"));
    assert!(bad(&|b| b[22] = 33).contains("coder"));
    assert!(bad(&|b| b[23] = 1).contains("coder parameter"));
    assert!(bad(&|b| b[30] = 1).contains("reserved"));
    for flags in [0x01, 0x02, 0x04, 0x08, 0x80] {
        assert!(bad(&|b| b[31] |= flags).contains("dictionaries"), "{flags:#x}");
    }
    for special in [4, 5, 6, 7] {
        assert!(bad(&|b| b[31] |= special << 4).contains("special chunk"));
    }
    assert!(bad(&|b| b[2] |= 0x02).contains("stored unit"));
    for start in [0, 31, 32, u32::MAX, i32::MAX as u32] {
        assert!(bad(&word(32, start)).contains("block start"));
    }
    let first_stream = 32 + 4 * unit.len().div_ceil(131_072);
    assert!(bad(&word(first_stream, 65_537)).contains("stream"));
    assert!(bad(&word(first_stream, i32::MAX as u32)).contains("stream"));
    assert!(bad(&word(first_stream, -256_i32 as u32)).contains("run"));
    assert!(bad(&word(first_stream, i32::MIN as u32)).contains("run"));
}

#[test]
fn c01_content_size_of_a_stream_must_be_that_of_the_stream() {
    let unit = smooth(100_000);
    let good = encode(Blosc2Coder::Zstd, Filter::Shuffle, &unit, 2);
    let chunk = Chunk::parse(&good, 2, unit.len()).unwrap();
    let ChunkContent::Blocks { streams, .. } = chunk.content() else { panic!() };
    let stream = streams.iter().find(|s| s.kind == StreamKind::Coded).unwrap();
    // The frame starts with a magic number and a descriptor that declares a 2-byte content size (stored as size − 256).
    assert_eq!(good[stream.offset + 4] >> 6, 1);
    for size in [0_u16, 1, 65_279, 65_281] {
        let mut bytes = good.clone();
        bytes[stream.offset + 5..stream.offset + 7].copy_from_slice(&size.to_le_bytes());
        assert!(decode(&bytes, 2, unit.len()).unwrap_err().to_string().contains("zstd frame"));
    }
}

#[test]
fn c07_c09_damaged_lz4_is_an_error_or_other_bytes_never_old_ones() {
    let unit = smooth(70_000);
    let good = encode(Blosc2Coder::Lz4, Filter::None, &unit, 2);
    let mut refused = 0;
    for at in (0..good.len()).step_by(23) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x5A;
        refused += u32::from(decode(&bytes, 2, unit.len()).is_err());
    }
    assert!(refused > 10, "{refused}");
    for cut in (0..good.len()).step_by(23) {
        assert!(decode(&good[..cut], 2, unit.len()).is_err(), "{cut}");
    }
    // If a stream lacks one byte, LZ4 decodes less than the block size.
    let mut bytes = good.clone();
    let first = 32 + 4 * unit.len().div_ceil(131_072);
    let size = u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap());
    bytes.remove(first + 4 + size as usize - 1);
    bytes[first..first + 4].copy_from_slice(&(size - 1).to_le_bytes());
    assert!(decode(&bytes, 2, unit.len()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn units_come_back(
        coder in prop_oneof![Just(Blosc2Coder::Lz4), Just(Blosc2Coder::Lz4hc), Just(Blosc2Coder::Zstd)],
        filter in prop_oneof![Just(Filter::None), Just(Filter::Shuffle), Just(Filter::Bitshuffle), Just(Filter::Bytedelta)],
        item in 1..=8_u8,
        items in prop_oneof![1..40_usize, 1..3_000_usize, 65_500..65_600_usize, 1..200_000_usize],
        kind in KINDS, seed: u64,
    ) {
        let unit = unit(kind, item.into(), items, seed);
        let chunk = encode(coder, filter, &unit, item);
        prop_assert_eq!(&decode(&chunk, item, unit.len()).unwrap(), &unit);
        let parsed = Chunk::parse(&chunk, item, unit.len()).unwrap();
        if let ChunkContent::Blocks { block_bytes, .. } = parsed.content() {
            let (mut decoder, mut block) = (Decoder::default(), vec![0xEE; unit.len()]);
            let numbers: Vec<usize> = (0..unit.len().div_ceil(*block_bytes)).rev().collect();
            for number in numbers {
                let start = number * block_bytes;
                let end = unit.len().min(start + block_bytes);
                decoder.decode_block(&parsed, item, number, &mut block[start..end]).unwrap();
                if let Some(planes) = decoder.planes(&parsed, item, number).unwrap() {
                    let mut joined = vec![0xEE; end - start];
                    planes.join(0, &mut joined).unwrap();
                    prop_assert_eq!(&joined, &unit[start..end]);
                }
            }
            prop_assert_eq!(&block, &unit);
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm(
        coder in prop_oneof![Just(Blosc2Coder::Lz4), Just(Blosc2Coder::Zstd)],
        filter in prop_oneof![Just(Filter::None), Just(Filter::Shuffle), Just(Filter::Bitshuffle), Just(Filter::Bytedelta)],
        changes in prop::collection::vec((0..4000_usize, any::<u8>()), 1..8),
    ) {
        let unit = smooth(70_000);
        let mut chunk = encode(coder, filter, &unit, 2);
        for (at, value) in changes {
            let at = at % chunk.len();
            chunk[at] = value;
        }
        if let Ok(out) = decode(&chunk, 2, unit.len()) {
            prop_assert_eq!(out.len(), unit.len());
        }
    }
}
