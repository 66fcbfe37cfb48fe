//! Tests damaged payloads. The host must reject them, or the device must flag them or decode them as the host does.
//! Their neighbours in the batch must not change.

use super::cases;
use super::generate::{Fill, array};
use super::harness::{Item, play};
use crate::cubes::{Fault, PreparedArray};
use crate::driver::Heap;
use crate::stage::Staging;
use crate::stage::tests::played::play_kernels;
use proptest::prelude::*;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, Finish, Region, Resampling, ValueRule, Warp, ZstdDecoder,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits, Transform};
use shardpack_gpu_play::MANNERS;
use shardpack_loader::stage::{ArrayPart, ArrayValue, Prepared, Spot};

fn encoded(coder: Coder, filter: Filter, fill: Fill, shape: Vec<u64>, seed: u32) -> Item {
    let settings = ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: matches!(coder, Coder::Blosc2Zstd | Coder::Zstd).then_some(3),
        filter: if coder.has_filters() { filter } else { Filter::None },
        band_difference: true,
        layout: ArrayLayout::BandMajor,
    };
    let cube = array(Dtype::U16, shape, fill, seed);
    Item::of(&ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(12)))]
    #[test]
    fn damage_stays_where_it_is(
        seed: u32,
        coder in prop::sample::select(&[Coder::Blosc2Lz4, Coder::Blosc2Zstd, Coder::Zstd][..]),
        bitshuffle: bool,
        hurts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 10),
    ) {
        let filter = if bitshuffle { Filter::Bitshuffle } else { Filter::Shuffle };
        let is_zstd = coder != Coder::Blosc2Lz4;
        let sound = encoded(coder, filter, Fill::Counts, vec![7, 11, 40], seed);
        let right = sound.on_the_host().unwrap();
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
        for manner in MANNERS {
            for (item, found) in items.iter().zip(play(&items, manner)) {
                if item.payload == sound.payload {
                    prop_assert_eq!(found, Some(Ok(right.clone())));
                    continue;
                }
                match (found, item.on_the_host()) {
                    (None, expected) => prop_assert!(expected.is_err(), "refused a payload that the host decodes"),
                    (Some(Ok(found)), Ok(expected)) => prop_assert_eq!(found, expected),
                    (Some(Ok(_)), Err(error)) => prop_assert!(false, "decoded a payload that the host refuses: {}", error),
                    (Some(Err(Fault::Lz4 { .. })), _) if !is_zstd => {}
                    (Some(Err(Fault::Zstd { .. })), _) if is_zstd => {}
                    (Some(Err(other)), _) => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}

#[test]
fn a_fault_names_its_stream() {
    let sound = encoded(Coder::Blosc2Lz4, Filter::Shuffle, Fill::Counts, vec![30, 40, 60], 3);
    let mut hurt = sound.clone();
    // The payload ends with the last stream, which is not a valid LZ4 block without its last byte.
    let last = hurt.payload.len() - 1;
    hurt.payload[last - 40..].fill(0xFF);
    assert!(hurt.on_the_host().is_err());
    for manner in MANNERS {
        let found = play(&[sound.clone(), hurt.clone()], manner);
        assert_eq!(found[0], Some(Ok(sound.on_the_host().unwrap())));
        // 72,000 elements fill a block of two streams and a short block.
        assert_eq!(found[1], Some(Err(Fault::Lz4 { stream: 2 })));
    }
}

#[test]
fn booleans_and_fixed_point_are_checked() {
    let mut flags = Item {
        codec: Codec::Raw,
        descriptor: ArrayDescriptor::plain(Dtype::Bool, vec![4, 5, 6]),
        payload: vec![1; 120],
        region: None,
        voxels: None,
        finish: Finish::NOTHING,
        staged: false,
    };
    let transform = Transform::Fixed { bits: 9, scale: vec![0.5; 6], offset: vec![1.0; 6] };
    let fixed = ArrayDescriptor { stored: Dtype::U16, transform, ..ArrayDescriptor::plain(Dtype::F32, vec![4, 5, 6]) };
    let mut counts = Item { descriptor: fixed, payload: vec![1; 240], ..flags.clone() };
    // Move the arrays far enough that no damaged element is shown.
    let away = |item: &Item, shape: &[u64]| {
        let sampling = match item.descriptor.decoded {
            Dtype::Bool => Resampling::Nearest { outside: 1.0 },
            _ => Resampling::Bilinear { outside: 1.5 },
        };
        let warp = Some(Warp { map: [1.0, 0.0, 900.0, 0.0, 1.0, 0.0], sampling });
        let descriptor = ArrayDescriptor { shape: shape.to_vec(), ..item.descriptor.clone() };
        Item { descriptor, finish: Finish { warp, ..Finish::NOTHING }, ..item.clone() }
    };
    let shapes: [&[u64]; 2] = [&[4, 5, 6], &[20, 6]];
    let all_away = |flags: &Item, counts: &Item| shapes.map(|shape| [away(flags, shape), away(counts, shape)]).concat();
    let fine = [vec![flags.clone(), counts.clone()], all_away(&flags, &counts)].concat();
    flags.payload[77] = 2;
    counts.payload[201] = 2;
    // A region that does not touch the damage must be valid, both on the host and on the device.
    let beside = |item: &Item| Item { region: Some(Region::new(0, 0, 2, 5)), ..item.clone() };
    let items = [beside(&flags), flags.clone(), beside(&counts), counts.clone()];
    let moved = all_away(&flags, &counts);
    for manner in MANNERS {
        for (item, found) in fine.iter().zip(play(&fine, manner)) {
            assert_eq!(found, Some(Ok(item.on_the_host().unwrap())));
        }
        let found = play(&items, manner);
        assert_eq!(found[0], Some(Ok(items[0].on_the_host().unwrap())));
        assert_eq!(found[1], Some(Err(Fault::Boolean)));
        assert_eq!(found[2], Some(Ok(items[2].on_the_host().unwrap())));
        assert_eq!(found[3], Some(Err(Fault::FixedPoint)));
        let found = play(&moved, manner);
        let faults = [Fault::Boolean, Fault::FixedPoint].map(|fault| Some(Err(fault)));
        assert_eq!(found, [faults.clone(), faults].concat());
    }
    assert!(flags.on_the_host().is_err() && counts.on_the_host().is_err());
    assert!(moved.iter().all(|item| item.on_the_host().is_err()));
}

#[test]
fn refused_arrays_leave_the_batch_unchanged() {
    let sound = encoded(Coder::Blosc2Lz4, Filter::Shuffle, Fill::Counts, vec![7, 11, 40], 1);
    let (limits, outside) = (Limits::default(), Region::new(0, 0, 8, 8));
    let prepare = |bytes, part| {
        let (codec, descriptor, limits) = (sound.codec, &sound.descriptor, &limits);
        PreparedArray::of(ArrayValue { codec, descriptor, bytes, part, limits }, &Finish::NOTHING)
    };
    let error = |bytes, part| prepare(bytes, part).err().unwrap().to_string();
    assert!(error(&sound.payload[1..], None).contains("blosc2"));
    assert!(error(&sound.payload, Some(ArrayPart::Region(&outside))).contains("the region has "));
    let odd_place = prepare(&sound.payload, None).unwrap().entry(None, 1).err().unwrap();
    assert!(odd_place.to_string().contains("a multiple of 2"), "{odd_place}");

    let bytes = 7 * 11 * 40 * 2;
    let fill = Staging::new(Heap::new(Staging::<Heap>::memory_bytes(1, sound.payload.len() + 1024, 0)), 0).unwrap();
    fill.begin(2 * bytes);
    let zstd = &mut ZstdDecoder::default();
    let mut push = |item: &Item, row, from: usize| {
        let spot = Spot { row, field: 0, bytes: from..from + bytes };
        match fill.prepare(&spot, &item.value(&item.payload, &limits), zstd) {
            Prepared::Taken(_) => "taken".into(),
            Prepared::Refused(reason) => reason,
        }
    };
    let cut = Item { payload: sound.payload[1..].to_vec(), ..sound.clone() };
    let beyond = Item { region: Some(outside.clone()), ..sound.clone() };
    assert!(push(&cut, 0, 0).starts_with("array is damaged"));
    assert_ne!(push(&beyond, 0, 0), "taken");
    assert_eq!(push(&sound, 0, 0), "taken");
    assert_eq!(push(&sound, 1, bytes), "no room left in the staging memory");
    let (batch, mut upload) = fill.assemble(&[]).unwrap();
    let staging = upload.memory().unwrap().bytes_mut().to_vec();
    let (out, [_, words]) = play_kernels(&batch, (&[], &staging), bytes, MANNERS[0]);
    assert_eq!((out, words), (sound.on_the_host().unwrap(), vec![0; 4]));
}
