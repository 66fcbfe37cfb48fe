//! Damaged payloads: rejected by the host, flagged by the device, or decoded as by the host; neighbours do
//! not change.

use super::generate::{Fill, array};
use super::harness::{Item, play};
use crate::cubes::{CubeStager, Fault, Payload};
use proptest::prelude::*;
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, Finish, Region, ValueRule};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits, Transform};
use shardpack_gpu_play::MANNERS;

fn encoded(coder: Coder, filter: Filter, fill: Fill, shape: Vec<u64>, seed: u32) -> Item {
    let settings = ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: (coder == Coder::Blosc2Zstd).then_some(3),
        filter,
        band_difference: true,
        layout: ArrayLayout::BandMajor,
    };
    let cube = array(Dtype::U16, shape, fill, seed);
    Item::of(&ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap())
}

/// Number of damaged payloads: `SHARDPACK_DAMAGED`, or four hundred.
fn cases() -> u32 {
    std::env::var("SHARDPACK_DAMAGED").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases() / 10))]
    #[test]
    fn damage_stays_where_it_is(
        seed: u32,
        is_zstd: bool,
        bitshuffle: bool,
        hurts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 10),
    ) {
        let filter = if bitshuffle { Filter::Bitshuffle } else { Filter::Shuffle };
        let coder = if is_zstd { Coder::Blosc2Zstd } else { Coder::Blosc2Lz4 };
        let sound = encoded(coder, filter, Fill::Counts, vec![7, 11, 40], seed);
        let right = sound.on_the_host().unwrap();
        // Each damaged payload is between two valid ones.
        let mut items = vec![sound.clone()];
        for (at, byte, kind) in &hurts {
            let mut hurt = sound.clone();
            let at = at.index(hurt.payload.len());
            match kind {
                0 => hurt.payload[at] ^= 1 << (byte % 8),
                1 => hurt.payload[at] = *byte,
                _ => hurt.payload[at..].iter_mut().take(4).for_each(|b| *b = b.wrapping_add(*byte)),
            }
            items.push(hurt);
            items.push(sound.clone());
        }
        let mut stager = CubeStager::default();
        for manner in MANNERS {
            // Payloads that the host rejects before decoding are not pushed.
            let accepted: Vec<Item> = items.iter().filter(|item| {
                let mut slot = vec![0; 1 << 16];
                let mut batch = stager.begin(&mut slot).unwrap();
                let payload = Payload::Bytes(&item.payload);
                batch.push(item.codec, &item.descriptor, payload, None, &Finish::NOTHING, 0, &Limits::default()).is_ok()
            }).cloned().collect();
            let found = play(&mut stager, &accepted, manner).unwrap();
            for (item, found) in accepted.iter().zip(found) {
                if item.payload == sound.payload {
                    prop_assert_eq!(found.as_ref(), Ok(&right));
                    continue;
                }
                match (found, item.on_the_host()) {
                    (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected),
                    (Ok(_), Err(error)) => prop_assert!(false, "decoded what the host refuses: {}", error),
                    (Err(Fault::Lz4 { .. }), _) if !is_zstd => {}
                    (Err(Fault::Zstd { .. }), _) if is_zstd => {}
                    (Err(other), _) => prop_assert!(false, "{}", other),
                }
            }
        }
    }
}

#[test]
fn a_fault_names_its_stream() {
    let sound = encoded(Coder::Blosc2Lz4, Filter::Shuffle, Fill::Counts, vec![50, 60, 70], 3);
    let mut hurt = sound.clone();
    // The last stream ends the payload; without its last byte it is no LZ4 block.
    let last = hurt.payload.len() - 1;
    hurt.payload[last - 40..].fill(0xFF);
    assert!(hurt.on_the_host().is_err());
    for manner in MANNERS {
        let found = play(&mut CubeStager::default(), &[sound.clone(), hurt.clone()], manner).unwrap();
        assert_eq!(found[0].as_ref(), Ok(&sound.on_the_host().unwrap()));
        // 210,000 elements: three blocks of two streams, and a short block.
        assert_eq!(found[1], Err(Fault::Lz4 { stream: 6 }));
        assert_eq!(found[1].as_ref().unwrap_err().to_string(), "stream 6: damaged lz4 block");
    }
}

#[test]
fn booleans_and_fixed_point_are_checked() {
    let mut flags = Item {
        codec: Codec::Raw,
        descriptor: ArrayDescriptor::plain(Dtype::Bool, vec![4, 5, 6]),
        payload: vec![1; 120],
        region: None,
        finish: Finish::NOTHING,
        staged: false,
    };
    let transform = Transform::Fixed { bits: 9, scale: vec![0.5; 6], offset: vec![1.0; 6] };
    let fixed = ArrayDescriptor { stored: Dtype::U16, transform, ..ArrayDescriptor::plain(Dtype::F32, vec![4, 5, 6]) };
    let mut counts = Item { descriptor: fixed, payload: vec![1; 240], ..flags.clone() };
    let fine = [flags.clone(), counts.clone()];
    flags.payload[77] = 2;
    counts.payload[201] = 2;
    // A region outside the damage is valid, for the host as for the device.
    let beside = |item: &Item| Item { region: Some(Region::new(0, 0, 2, 5)), ..item.clone() };
    let items = [beside(&flags), flags.clone(), beside(&counts), counts.clone()];
    for manner in MANNERS {
        for (item, found) in fine.iter().zip(play(&mut CubeStager::default(), &fine, manner).unwrap()) {
            assert_eq!(found, Ok(item.on_the_host().unwrap()));
        }
        let found = play(&mut CubeStager::default(), &items, manner).unwrap();
        assert_eq!(found[0], Ok(items[0].on_the_host().unwrap()));
        assert_eq!(found[1], Err(Fault::Boolean));
        assert_eq!(found[2], Ok(items[2].on_the_host().unwrap()));
        assert_eq!(found[3], Err(Fault::FixedPoint));
    }
    assert!(flags.on_the_host().is_err() && counts.on_the_host().is_err());
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_the_batch_as_it_was() {
    let sound = encoded(Coder::Blosc2Lz4, Filter::Shuffle, Fill::Counts, vec![7, 11, 40], 1);
    let limits = Limits::default();
    let mut stager = CubeStager::default();
    let mut slot = vec![0; sound.payload.len() + 2048];
    let mut batch = stager.begin(&mut slot).unwrap();
    let payload = Payload::Bytes(&sound.payload);
    let push = |batch: &mut crate::cubes::CubeBatch<'_>, payload, region: Option<&Region>, to, out| {
        batch.push(sound.codec, &sound.descriptor, payload, region, to, out, &limits).map_err(|e| e.to_string())
    };
    assert!(push(&mut batch, payload, None, &Finish::NOTHING, 1).unwrap_err().contains("a multiple of 2"));
    assert!(
        push(&mut batch, Payload::Staged(1 << 20), None, &Finish::NOTHING, 0).unwrap_err().contains("staged payload")
    );
    assert!(
        push(&mut batch, Payload::Bytes(&sound.payload[1..]), None, &Finish::NOTHING, 0)
            .unwrap_err()
            .contains("blosc2")
    );
    let outside = Region::new(0, 0, 8, 8);
    assert!(push(&mut batch, payload, Some(&outside), &Finish::NOTHING, 0).unwrap_err().contains("rows of a region"));
    assert_eq!(push(&mut batch, payload, None, &Finish::NOTHING, 0).unwrap().bytes, 7 * 11 * 40 * 2);
    let error = push(&mut batch, payload, None, &Finish::NOTHING, 0).unwrap_err();
    assert!(error.contains("room for compressed bytes"), "{error}");
    let work = batch.finish().unwrap();
    assert_eq!((work.cubes(), work.out_bytes()), (1, 7 * 11 * 40 * 2));
}
