//! Compares batches of the real loader with an emulated stage to batches that the host decodes. Threads prepare the
//! rows, and kernels emulated on the CPU decode them.

mod clips;
mod columns;
mod crops;
pub(crate) mod datasets;
mod host_rows;
mod hostile;
pub(crate) mod hurt;
mod indexed;
mod masks;
pub(crate) mod played;
mod resident;
mod scenes;
mod sharing;
mod sizes;
mod volumes;

use crate::cubes::tests::generate;
use crate::pictures::tests::jpegs;
#[path = "../../../../loader/tests/loader_support/mod.rs"]
mod loader_support;
#[path = "../../../../reader/tests/support/mod.rs"]
mod support;

use crate::driver::{GpuError, Heap};
use crate::stage::staging::Staging;
use datasets::{Disk, Harm, assert_same, epoch, ways};
use played::{PlayedStage, play};
use proptest::prelude::*;
use shardpack_array::{Finish, ZstdDecoder};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
use shardpack_gpu_play::MANNERS;
use shardpack_jpeg::{Interpolation, PixelLayout, Rendering, Scaling, StoredPicture, View};
use shardpack_loader::stage::{ArrayValue, Prepared, RecordValue, Spot, Stage};
use shardpack_loader::{Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::DatasetOptions;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn compare(disk: &Disk, tight: u64, check: impl Fn(&str, &PlayedStage)) {
    compare_in_parts(disk, (tight, LoaderOptions::default().resources.part_bytes), check);
}

/// Same as [`compare`], but several threads read the records that have at least four parts of `part_bytes`.
fn compare_in_parts(disk: &Disk, (tight, part_bytes): (u64, usize), check: impl Fn(&str, &PlayedStage)) {
    for (n, (name, options)) in ways().into_iter().enumerate() {
        let options = options.part_bytes(part_bytes);
        let stage = Arc::new(PlayedStage::new(n % 2, tight));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.stage(Arc::clone(&stage) as _));
        // Skip epoch 1, because the loader would prefetch a consecutive epoch and count its rows too.
        for epoch_number in [0, 2] {
            host.set_epoch(epoch_number).unwrap();
            staged.set_epoch(epoch_number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        }
        let refused: u64 = staged.refusals().iter().map(|refusal| refusal.rows).sum();
        let expected = of(&stage.counts.refused) + of(&stage.counts.faults);
        assert_eq!(refused, expected, "{name}: {:?}", staged.refusals());
        // A row of a skipped sample does not count as decoded, even if the device took it.
        let (stats, decoded) = (staged.stats(), of(&stage.counts.taken) - of(&stage.counts.faults));
        assert!(stats.device_rows == decoded || stats.skipped > 0 && stats.device_rows < decoded, "{name}");
        check(name, &stage);
    }
}

#[test]
fn batches_of_samples_alike_are_the_hosts() {
    compare(&Disk::alike(16, Harm::None), 1, |name, stage| {
        let (taken, refused) = (of(&stage.counts.taken), of(&stage.counts.refused));
        assert_eq!(of(&stage.counts.grown), 0, "{name}");
        assert!(taken >= 2 * 2 * 16, "{name}: {taken} taken, {refused} refused");
        assert_eq!(of(&stage.counts.faults), 0);
    });
}

#[test]
fn batches_of_varied_samples_are_the_hosts() {
    compare(&Disk::varied(18, Harm::None), 1, |name, stage| {
        assert!(of(&stage.counts.taken) > 50 || name == "small ones", "{name}");
        assert_eq!(of(&stage.counts.faults), 0, "{name}");
    });
}

#[test]
fn damage_harms_its_row_alone() {
    compare(&Disk::alike(16, Harm::Damaged), 1, |name, stage| {
        if name == "whole" {
            assert!(of(&stage.counts.faults) > 0, "the device finds some of it");
        }
    });
}

/// Pictures with arbitrary damage and valid checksums must yield the same pixels or errors as on the host. The host
/// decodes the pictures that the device flags.
#[test]
fn damaged_pictures_are_the_hosts() {
    let views = [View::whole(), View::random_resized_crop((24, 20)), View::center_crop(30, (21, 28))];
    for (view, manner) in views.into_iter().zip([0, 1, 0]) {
        let disk = Disk::scattered(90);
        let stage = Arc::new(PlayedStage::new(manner, 1));
        let names = ["image", "label"].map(str::to_owned);
        let options = LoaderOptions::default()
            .batch_size(9)
            .threads(2)
            .image(view)
            .fields(names.to_vec())
            .on_corrupt(OnCorrupt::Skip { max: 1000 });
        let (mut host, mut staged) =
            (disk.loader(options.clone()), disk.loader(options.stage(Arc::clone(&stage) as _)));
        for number in 0..2 {
            host.set_epoch(number).unwrap();
            staged.set_epoch(number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), &format!("{view:?}"));
        }
        let (skipped, faults) = (staged.stats().skipped, of(&stage.counts.faults));
        assert!(faults > 10 && skipped > 0, "{faults} were odd, {skipped} are damaged");
        assert!(staged.refusals().iter().any(|refusal| refusal.reason.starts_with("entropy-coded segment")));
    }
}

/// The device must render every view like the host, from records and from values that it keeps.
#[test]
fn every_view_is_the_hosts() {
    let disk = Disk::alike(10, Harm::None);
    let dataset = shardpack_reader::Dataset::open(disk.dir.path()).unwrap();
    let crop = View::random_resized_crop((24, 40));
    let [nearest, bicubic] = [Interpolation::Nearest, Interpolation::Bicubic].map(|how| crop.with_interpolation(how));
    let padded = View::pad((24, 40)).with_flip(0.5);
    for view in [padded, padded.with_interpolation(Interpolation::Bicubic), nearest, bicubic] {
        for is_resident in [false, true] {
            let stage = Arc::new(PlayedStage::new(0, 1));
            let options = LoaderOptions::default().batch_size(4).threads(2).image(view);
            let mut host = Loader::open(&dataset, options.clone()).unwrap();
            let staged =
                if is_resident { resident::resident(&stage, &options) } else { options.stage(Arc::clone(&stage) as _) };
            let mut staged = Loader::open(&dataset, staged).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), &format!("{view:?}"));
            assert!(staged.refusals().is_empty(), "{:?}", staged.refusals());
            assert!(of(&stage.counts.taken) >= 20 && of(&stage.counts.faults) == 0, "pictures and cubes");
        }
    }
}

#[test]
fn limits_equal_the_hosts() {
    let disk = Disk::alike(8, Harm::None);
    let options = LoaderOptions::default().batch_size(4).threads(1).image(View::center_crop(16, 16)).fields(["image"]);
    let first = |limit: u64, stage: Option<Arc<dyn Stage>>| {
        let limits = Limits { max_decoded_bytes: limit, ..Limits::default() };
        let dataset = DatasetOptions::new().limits(limits).open(disk.dir.path()).unwrap();
        let mut loader = Loader::open(&dataset, {
            let mut options = options.clone();
            options.resources.stage = stage;
            options
        })
        .unwrap();
        loader.next_batch().unwrap().map(|batch| datasets::seen(&batch)).map_err(|error| error.to_string())
    };
    for (limit, is_allowed) in [(48 * 64 * 4, true), (48 * 64 * 4 - 1, false)] {
        let staged = first(limit, Some(Arc::new(PlayedStage::new(0, 1))));
        assert_eq!(staged.is_ok(), is_allowed);
        assert!(staged == first(limit, None));
    }
}

#[test]
fn the_host_decodes_values_without_room() {
    compare(&Disk::alike(16, Harm::None), 12, |name, stage| {
        assert!(of(&stage.counts.put) > 0 || name != "whole", "{name}");
    });
}

/// Arrays are read into staging memory and decoded there. The exceptions are arrays unlike the loader's examples: the
/// host decodes plain zstd into staging memory, next to the bytes that were read, or it decodes the row itself.
#[test]
fn arrays_are_decoded_where_they_were_read() {
    compare_in_parts(&Disk::as_stored(16, Harm::None), (1, 1500), |name, stage| {
        let of_pictures = ["crops of two types", "centres", "small ones"];
        let has_cubes = !of_pictures.contains(&name) && !name.starts_with("changed");
        // The cube and the mask of 16 samples are read into staging memory, in two epochs.
        let shared = if has_cubes { 2 * 2 * 16 } else { 0 };
        assert_eq!(of(&stage.counts.shared), shared, "{name}");
        assert_eq!(of(&stage.counts.faults), 0, "{name}");
    });
}

#[test]
fn damage_read_into_staging_memory_harms_its_row_alone() {
    compare_in_parts(&Disk::as_stored(16, Harm::Damaged), (1, 1500), |name, stage| {
        if name == "whole" {
            assert!(of(&stage.counts.faults) > 0, "the device finds some of it");
        }
    });
}

#[test]
fn large_arrays_without_room_are_read_like_small_ones() {
    compare_in_parts(&Disk::as_stored(16, Harm::None), (12, 1500), |name, stage| {
        assert!(of(&stage.counts.put) > 0 || name != "whole", "{name}");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn arrays_may_be_read_in_any_parts(
        part_bytes in 64..9000_usize,
        threads in prop::sample::select(vec![1, 2, 7]),
        (batch_size, slots) in (1..6_u32, 1..4_usize),
        (way, manner, tight) in (0..8_usize, 0..2_usize, 1..3_u64),
        is_damaged in any::<bool>(),
    ) {
        let disk = Disk::as_stored(15, if is_damaged { Harm::Damaged } else { Harm::None });
        let (name, options) = ways().swap_remove(way);
        let options = options.part_bytes(part_bytes).threads(threads).batch_size(batch_size).slots(slots);
        let stage = Arc::new(PlayedStage::new(manner, tight));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.stage(stage));
        assert_same(&epoch(&mut staged), &epoch(&mut host), name);
    }
}

fn spot(row: u32, field: u32, bytes: Range<usize>) -> Spot {
    Spot { row, field, bytes }
}

/// The kernels derive the offset of a segment's words from the offset of the segment in staging memory, which depends
/// on the order of the threads. The decoded batch must not depend on that order.
#[test]
fn rows_may_be_staged_in_any_order() {
    let size = |n: usize| (16 + 8 * n as u16, 24 + 5 * n as u16);
    let pictures: Vec<_> = (0..6)
        .map(|n| {
            let factors = [(2, 2), (0, 0), (1, 1)][n % 3];
            jpegs::Source { size: size(n), factors, interval: 1 + n as u16 % 2, detail: 9, seed: n as u64 }.encoded()
        })
        .collect();
    let how = Rendering::default();
    let decoded = |order: &[usize]| {
        let fill = Staging::new(Heap::new(1 << 18), 0).unwrap();
        fill.begin(1 << 17);
        for &n in order {
            let (width, height) = size(n);
            let bytes = usize::from(width) * usize::from(height) * 3;
            let place = spot(n as u32, 0, n << 14..(n << 14) + bytes);
            let picture = StoredPicture::new("image/jpeg", &pictures[n]);
            let (dtype, scaling) = (Dtype::U8, &Scaling::UNIT);
            let limits = &Limits::default();
            let value = RecordValue::Picture {
                picture,
                how: &how,
                crops: None,
                changes: &[],
                dtype: dtype.into(),
                scaling,
                limits,
                clip: None,
            };
            let taken = Prepared::Taken(Some([height.into(), width.into()]));
            assert_eq!(fill.prepare(&place, &value, &mut ZstdDecoder::default()), taken);
        }
        let (batch, mut upload) = fill.assemble(&[]).unwrap();
        play(&batch, (&[], upload.memory().unwrap().bytes_mut()), 1 << 17, MANNERS[0])
    };
    let (expected, faults) = decoded(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(faults, []);
    for order in [[5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]] {
        assert!(decoded(&order) == (expected.clone(), Vec::new()), "{order:?}");
    }
}

#[test]
fn the_last_word_about_a_row_counts() {
    let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 4]);
    let payload: Vec<u8> = (1..=16).collect();
    let limits = Limits::default();
    let array = ArrayValue { codec: Codec::Raw, descriptor: &descriptor, bytes: &payload, part: None, limits: &limits };
    let value = RecordValue::Array { array, finish: &Finish::NOTHING, noise: None, memo: None };
    let fill = Staging::new(Heap::new(Staging::<Heap>::memory_bytes(8, 1 << 14, 16)), 16).unwrap();
    let zstd = &mut ZstdDecoder::default();
    for _ in 0..3 {
        fill.begin(16 * 6);
        let place = |row: u32| spot(row, 1, 16 * (row as usize + 1)..16 * (row as usize + 2));
        for row in 0..5 {
            assert_eq!(fill.prepare(&place(row), &value, zstd), Prepared::Taken(None));
        }
        fill.clear(&place(1));
        fill.put(&place(2), &[7; 16]).unwrap();
        fill.put(&place(3), &[8; 16]).unwrap();
        fill.clear(&place(3));
        for odd in [spot(9, 1, 90..106), spot(9, 1, 0..8), spot(9, 1, Range { start: 16, end: 8 })] {
            assert!(matches!(fill.prepare(&odd, &value, zstd), Prepared::Refused(_)));
            assert!(fill.put(&odd, &[0; 16]).is_err());
        }
        fill.clear(&spot(9, 1, 90..106));
        let (batch, mut upload) = fill.assemble(&[9; 16]).unwrap();
        let staging = upload.memory().unwrap().bytes_mut().to_vec();
        drop(upload);
        let late = fill.prepare(&place(4), &value, zstd);
        assert_eq!(late, Prepared::Refused("no room left in the staging memory".into()), "it is being uploaded");
        for manner in MANNERS {
            let (out, faults) = play(&batch, (&[], &staging), 16 * 6, manner);
            let expected = [&[9; 16][..], &payload, &[0; 16], &[7; 16], &[0; 16], &payload].concat();
            assert_eq!((out, faults), (expected, Vec::new()));
        }
    }
}

#[test]
fn values_read_into_staging_memory_are_not_copied() {
    let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![2, 2, 4]);
    let payload: Vec<u8> = (1..=16).map(|i| 7 * i).collect();
    let limits = Limits::default();
    fn raw<'a>(descriptor: &'a ArrayDescriptor, limits: &'a Limits, bytes: &'a [u8]) -> RecordValue<'a> {
        let array = ArrayValue { codec: Codec::Raw, descriptor, bytes, part: None, limits };
        RecordValue::Array { array, finish: &Finish::NOTHING, noise: None, memo: None }
    }
    let fill = Staging::new(Heap::new(Staging::<Heap>::memory_bytes(3, 1 << 10, 0)), 0).unwrap();
    fill.begin(16 * 3);
    let place = |row: u32| spot(row, 0, 16 * row as usize..16 * (row as usize + 1));
    let zstd = &mut ZstdDecoder::default();
    assert!(fill.lend(&place(3), 16, 5).is_none(), "the row is outside of the batch");
    assert!(fill.lend(&place(0), 1 << 20, 5).is_none(), "more than there is");
    let (loan, mut parts) = fill.lend(&place(1), 16, 5).unwrap();
    for (part, bytes) in parts.iter_mut().zip(payload.chunks(5)) {
        part.bytes().copy_from_slice(bytes);
    }
    let elsewhere = Prepared::Refused("value is not in the staging memory reserved for it".into());
    assert_eq!(
        fill.prepare_there(&place(1), &raw(&descriptor, &limits, &payload), &loan, zstd),
        elsewhere,
        "parts may be written"
    );
    drop(parts);
    assert_eq!(
        fill.prepare_there(&place(1), &raw(&descriptor, &limits, &payload), &loan, zstd),
        elsewhere,
        "a copy of it"
    );
    let there = loan.bytes().unwrap();
    assert_eq!(
        fill.prepare_there(&place(1), &raw(&descriptor, &limits, &there[..15]), &loan, zstd),
        elsewhere,
        "a part of it"
    );
    assert_eq!(fill.prepare_there(&place(1), &raw(&descriptor, &limits, there), &loan, zstd), Prepared::Taken(None));
    assert_eq!(fill.prepare(&place(0), &raw(&descriptor, &limits, &payload[..16]), zstd), Prepared::Taken(None));
    fill.clear(&place(2));
    {
        let (_, mut upload) = fill.assemble(&[]).unwrap();
        assert_eq!(upload.memory().err(), Some(GpuError::Lent), "nothing is uploaded while it is lent");
    }
    drop(loan);
    fill.begin(16 * 3);
    let (loan, parts) = fill.lend(&place(1), 16, 16).unwrap();
    parts.into_iter().for_each(|mut part| part.bytes().copy_from_slice(&payload));
    assert_eq!(
        fill.prepare_there(&place(1), &raw(&descriptor, &limits, loan.bytes().unwrap()), &loan, zstd),
        Prepared::Taken(None)
    );
    drop(loan);
    [0, 2].into_iter().for_each(|row| fill.clear(&place(row)));
    let (batch, mut upload) = fill.assemble(&[]).unwrap();
    let staging = upload.memory().unwrap().bytes_mut().to_vec();
    let copies = staging.windows(16).filter(|bytes| *bytes == payload).count();
    assert_eq!(copies, 1, "staging memory holds one copy");
    let expected = [&[0; 16][..], &payload, &[0; 16]].concat();
    assert_eq!(play(&batch, (&[], &staging), 16 * 3, MANNERS[0]), (expected, Vec::new()));
}

#[test]
fn unsupported_outputs_are_refused() {
    let fill = Staging::new(Heap::new(1 << 16), 0).unwrap();
    fill.begin(1 << 12);
    let zstd = &mut ZstdDecoder::default();
    let jpeg = jpegs::Source { size: (16, 8), factors: (0, 0), interval: 1, detail: 3, seed: 1 }.encoded();
    let how = Rendering { layout: PixelLayout::HeightWidthChannels, ..Rendering::default() };
    let mut refused = |bytes: &[u8], dtype: Dtype, range| {
        let dtype = dtype.into();
        let (scaling, limits) = (&Scaling::UNIT, &Limits::default());
        let picture = StoredPicture::new("image/jpeg", bytes);
        let value =
            RecordValue::Picture { picture, how: &how, crops: None, changes: &[], dtype, scaling, limits, clip: None };
        match fill.prepare(&spot(0, 0, range), &value, zstd) {
            Prepared::Taken(size) => format!("{size:?}"),
            Prepared::Refused(reason) => reason.into_owned(),
        }
    };
    assert_eq!(refused(b"GIF", Dtype::U8, 0..384), "no JPEG header");
    assert_eq!(refused(&jpeg, Dtype::F64, 0..3072), "device does not support this output dtype");
    assert_eq!(refused(&jpeg, Dtype::U8, 0..383), "value has another size than its row in the batch");
    assert_eq!(refused(&jpeg, Dtype::F16, 1..769), "value has another size than its row in the batch");
    assert_eq!(refused(&jpeg, Dtype::F16, 2..770), "Some([8, 16])");
}
