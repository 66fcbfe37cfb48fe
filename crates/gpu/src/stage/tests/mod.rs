//! Batches of the real loader, staged by threads and decoded by kernels that are played on the CPU,
//! beside those of the host.

pub(crate) mod datasets;
mod played;

use crate::cubes::tests::generate;
use crate::pictures::tests::jpegs;
#[path = "../../../../loader/tests/loader_support/mod.rs"]
mod loader_support;
#[path = "../../../../reader/tests/support/mod.rs"]
mod support;

use crate::driver::Heap;
use crate::stage::fill::Fill;
use datasets::{Disk, Harm, assert_same, epoch, ways};
use played::{PlayedStage, play};
use shardpack_array::{Finish, ZstdDecoder};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
use shardpack_gpu_play::MANNERS;
use shardpack_jpeg::{PixelLayout, Rendering, Scaling, View};
use shardpack_loader::stage::{Prepared, Spot, Stage, Value};
use shardpack_loader::{ImageMode, Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::DatasetOptions;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Two epochs of each way, with and without a stage.
fn compare(disk: &Disk, tight: u64, check: impl Fn(&str, &PlayedStage)) {
    for (n, (name, options)) in ways().into_iter().enumerate() {
        let stage = Arc::new(PlayedStage::new(n % 2, tight));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(LoaderOptions { stage: Some(Arc::clone(&stage) as _), ..options });
        for epoch_number in 0..2 {
            host.set_epoch(epoch_number).unwrap();
            staged.set_epoch(epoch_number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        }
        let refused: u64 = staged.refusals().iter().map(|refusal| refusal.rows).sum();
        let expected = of(&stage.counts.refused) + of(&stage.counts.faults);
        assert_eq!(refused, expected, "{name}: {:?}", staged.refusals());
        // Of a sample that is skipped, what the device has taken is not counted.
        let (stats, decoded) = (staged.stats(), of(&stage.counts.taken) - of(&stage.counts.faults));
        assert!(stats.device_rows == decoded || stats.skipped > 0 && stats.device_rows < decoded, "{name}");
        check(name, &stage);
    }
}

#[test]
fn batches_of_samples_alike_are_the_hosts() {
    compare(&Disk::alike(20, Harm::None), 1, |name, stage| {
        let (taken, refused) = (of(&stage.counts.taken), of(&stage.counts.refused));
        assert!(taken >= 72, "{name}: {taken} taken, {refused} refused");
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
    compare(&Disk::alike(20, Harm::Damaged), 1, |name, stage| {
        if name == "whole" {
            assert!(of(&stage.counts.faults) > 0, "the device finds some of it");
        }
    });
}

/// Pictures that are damaged in any way, but for their checksums: the host's pixels, or its errors.
/// Where the device has found them odd, the host decodes them after all.
#[test]
fn damaged_pictures_are_the_hosts() {
    let views = [View::whole(), View::random_resized_crop(24, 20), View::center_crop(30, 21, 28)];
    for (view, manner) in views.into_iter().zip([0, 1, 0]) {
        let disk = Disk::scattered(90);
        let stage = Arc::new(PlayedStage::new(manner, 1));
        let names = ["image", "label"].map(str::to_owned);
        let options = LoaderOptions {
            batch_size: 9,
            threads: 2,
            image: ImageMode::View(view),
            fields: Some(names.to_vec()),
            on_corrupt: OnCorrupt::Skip { max: 1000 },
            ..LoaderOptions::default()
        };
        let (mut host, mut staged) = (
            disk.loader(options.clone()),
            disk.loader(LoaderOptions { stage: Some(Arc::clone(&stage) as _), ..options }),
        );
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

/// Pixels of a whole picture count, whatever is shown of it.
#[test]
fn limits_are_those_of_the_host() {
    let disk = Disk::alike(8, Harm::None);
    let options = LoaderOptions {
        batch_size: 4,
        threads: 1,
        image: ImageMode::View(View::center_crop(16, 16, 16)),
        fields: Some(vec!["image".to_owned()]),
        ..LoaderOptions::default()
    };
    let first = |limit: u64, stage: Option<Arc<dyn Stage>>| {
        let limits = Limits { max_decoded_bytes: limit, ..Limits::default() };
        let dataset = DatasetOptions::new().limits(limits).open(disk.dir.path()).unwrap();
        let mut loader = Loader::open(&dataset, LoaderOptions { stage, ..options.clone() }).unwrap();
        loader.next_batch().unwrap().map(|batch| datasets::seen(&batch)).map_err(|error| error.to_string())
    };
    for (limit, is_allowed) in [(48 * 64 * 4, true), (48 * 64 * 4 - 1, false)] {
        let staged = first(limit, Some(Arc::new(PlayedStage::new(0, 1))));
        assert_eq!(staged.is_ok(), is_allowed);
        assert!(staged == first(limit, None));
    }
}

#[test]
fn what_finds_no_room_is_decoded_by_the_host() {
    compare(&Disk::alike(16, Harm::None), 12, |name, stage| {
        assert!(of(&stage.counts.put) > 0 || name != "whole", "{name}");
    });
}

fn spot(row: u32, field: u32, bytes: Range<usize>) -> Spot {
    Spot { row, field, bytes }
}

/// Where the kernels put the words of a segment depends on where it stands in staging memory, and
/// that on which thread came first.
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
        let fill = Fill::new(Heap::new(1 << 18), 0).unwrap();
        fill.begin(1 << 17);
        for &n in order {
            let (width, height) = size(n);
            let bytes = usize::from(width) * usize::from(height) * 3;
            let place = spot(n as u32, 0, n << 14..(n << 14) + bytes);
            let (bytes, dtype, scaling) = (pictures[n].as_slice(), Dtype::U8, &Scaling::UNIT);
            let limits = &Limits::default();
            let value =
                Value::Picture { media_type: "image/jpeg", bytes, how: &how, dtype: dtype.into(), scaling, limits };
            let taken = Prepared::Taken(Some([height.into(), width.into()]));
            assert_eq!(fill.prepare(&place, &value, &mut ZstdDecoder::default()), taken);
        }
        let (batch, mut upload) = fill.assemble(&[]).unwrap();
        play(&batch, upload.memory().bytes_mut(), 1 << 17, MANNERS[0])
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
    let value = Value::Array {
        codec: Codec::Raw,
        descriptor: &descriptor,
        bytes: &payload,
        region: None,
        finish: &Finish::NOTHING,
        limits: &limits,
    };
    let fill = Fill::new(Heap::new(Fill::<Heap>::memory_bytes(8, 1 << 14, 16)), 16).unwrap();
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
        // A place that is not in the batch, or of another size.
        for odd in [spot(9, 1, 90..106), spot(9, 1, 0..8), spot(9, 1, Range { start: 16, end: 8 })] {
            assert!(matches!(fill.prepare(&odd, &value, zstd), Prepared::Refused(_)));
            assert!(fill.put(&odd, &[0; 16]).is_err());
        }
        fill.clear(&spot(9, 1, 90..106));
        let (batch, mut upload) = fill.assemble(&[9; 16]).unwrap();
        let staging = upload.memory().bytes_mut().to_vec();
        drop(upload);
        let late = fill.prepare(&place(4), &value, zstd);
        assert_eq!(late, Prepared::Refused("no room left in the staging memory".into()), "it is being uploaded");
        for manner in MANNERS {
            let (out, faults) = play(&batch, &staging, 16 * 6, manner);
            let expected = [&[9; 16][..], &payload, &[0; 16], &[7; 16], &[0; 16], &payload].concat();
            assert_eq!((out, faults), (expected, Vec::new()));
        }
    }
}

#[test]
fn what_the_device_does_not_write_is_refused() {
    let fill = Fill::new(Heap::new(1 << 16), 0).unwrap();
    fill.begin(1 << 12);
    let zstd = &mut ZstdDecoder::default();
    let jpeg = jpegs::Source { size: (16, 8), factors: (0, 0), interval: 1, detail: 3, seed: 1 }.encoded();
    let how = Rendering { layout: PixelLayout::HeightWidthChannels, ..Rendering::default() };
    let mut refused = |bytes: &[u8], dtype: Dtype, range| {
        let dtype = dtype.into();
        let (scaling, limits) = (&Scaling::UNIT, &Limits::default());
        let value = Value::Picture { media_type: "image/jpeg", bytes, how: &how, dtype, scaling, limits };
        match fill.prepare(&spot(0, 0, range), &value, zstd) {
            Prepared::Taken(size) => format!("{size:?}"),
            Prepared::Refused(reason) => reason.into_owned(),
        }
    };
    assert_eq!(refused(b"GIF", Dtype::U8, 0..384), "no JPEG header");
    assert_eq!(refused(&jpeg, Dtype::F64, 0..3072), "a type that the device does not write");
    assert_eq!(refused(&jpeg, Dtype::U8, 0..383), "another size than its place in the batch");
    assert_eq!(refused(&jpeg, Dtype::F16, 1..769), "another size than its place in the batch");
    assert_eq!(refused(&jpeg, Dtype::F16, 2..770), "Some([8, 16])");
}
