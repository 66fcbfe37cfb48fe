//! Tests that clips, which are lists of pictures, are decoded to the same batches as on the host.

use super::datasets::{Disk, assert_same, epoch};
use super::jpegs::{Random, Source, damage};
use super::loader_support::{record, write};
use super::of;
use super::played::PlayedStage;
use super::resident::resident;
use super::support::scratch;
use proptest::prelude::*;
use shardpack_augment::Augmentation;
use shardpack_format::{self as format, Codec, Dtype, FieldKind, Schema};
use shardpack_jpeg::{FRAMES, Frames, Interpolation, PixelLayout, Scaling, View};
use shardpack_loader::order::End;
use shardpack_loader::{ArrayDtype, ClipLayout, ElementType, FrameMode, LoaderOptions, OnCorrupt, PictureCrop};
use std::sync::Arc;

const SIZE: [u32; 2] = [40, 56];

/// Returns one frame. All frames of a clip have the same sampling.
fn frame([height, width]: [u32; 2], id: u64, number: u64) -> Vec<u8> {
    let factors = [(2, 2), (2, 1), (0, 0), (1, 1), (1, 2)][id as usize % 5];
    let interval = 1 + (id % 7) as u16;
    let seed = id * 100 + number;
    Source { size: (width as u16, height as u16), factors, interval, detail: 12, seed }.encoded()
}

/// Writes `count` clips of one to nine frames. `of` returns a frame, given the number of the sample and of the frame.
/// The index states the size of the first frame.
fn clips(count: u64, size: impl Fn(u64) -> [u32; 2], of: impl Fn(u64, u64) -> Vec<u8>) -> Disk {
    let mut fields = vec![format::Field::stored("clip", FieldKind::Image), format::Field::scalar("label", Dtype::I64)];
    fields.extend(["height", "width", "clip.frames"].map(|name| format::Field::scalar(name, Dtype::U32)));
    let schema = Schema::new(fields).unwrap();
    let dir = scratch();
    write(dir.path(), &schema, &[count / 2, count - count / 2], |schema, number, id| {
        let total = 1 + id * 5 % 9;
        let frames: Vec<_> = (0..total).map(|number| of(id, number)).collect();
        let list = Frames::join(&frames).unwrap();
        let mut scalars = (id as i64).to_le_bytes().to_vec();
        let [height, width] = size(id);
        scalars.extend([height, width, total as u32].into_iter().flat_map(u32::to_le_bytes));
        let key = format!("clip-{id}");
        let value = (Codec::Raw, list, FRAMES.as_bytes().to_vec(), None);
        let (bytes, head) = record(schema, (number, id), &key, &scalars, &[Some(value)]);
        (bytes, head, key, scalars)
    });
    Disk { dir }
}

fn alike(count: u64) -> Disk {
    clips(count, |_| SIZE, |id, number| frame(SIZE, id, number))
}

fn base() -> LoaderOptions {
    LoaderOptions::default()
        .batch_size(5)
        .threads(3)
        .seed(7)
        .end(End::Uneven)
        .on_corrupt(OnCorrupt::Skip { max: 1000 })
        .fields(["clip", "label"])
}

fn as_type(options: LoaderOptions, dtype: ElementType) -> LoaderOptions {
    let mut options = options.dtype(ArrayDtype::Fields(vec![("clip".to_owned(), dtype)]));
    options.output.scaling = Some(Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).unwrap());
    options
}

fn changes() -> Vec<Augmentation> {
    ["trivial_augment_wide", "gaussian_blur(kernel_size=5, p=0.5)", "random_erasing"]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect()
}

fn ways() -> Vec<(&'static str, LoaderOptions)> {
    let (four, window) = (FrameMode::Even { count: 4 }, FrameMode::Window { count: 3, every: 2 });
    let chw = PixelLayout::ChannelsHeightWidth;
    let crop = View::random_resized_crop((24, 32)).with_flip(0.5);
    vec![
        ("all whole ones", base()),
        ("all whole ones, planar frames", base().layout(chw)),
        ("all whole ones, channels first", base().clip_layout(ClipLayout::ChannelsFirst)),
        ("four", base().frames(four).image(crop)),
        ("four, planar frames", as_type(base().frames(four).image(crop).layout(chw), Dtype::F16.into())),
        (
            "four, channels first",
            as_type(base().frames(four).image(crop).clip_layout(ClipLayout::ChannelsFirst), ElementType::Bf16),
        ),
        ("a window", as_type(base().frames(window).image(View::center_crop(33, (24, 28))), Dtype::F32.into())),
        (
            "bicubic, channels first",
            as_type(base().frames(four).image(crop.with_interpolation(Interpolation::Bicubic)), Dtype::F16.into())
                .clip_layout(ClipLayout::ChannelsFirst),
        ),
        (
            "nearest, channels first",
            base()
                .frames(four)
                .image(crop.with_interpolation(Interpolation::Nearest))
                .clip_layout(ClipLayout::ChannelsFirst),
        ),
        (
            "padded, channels first",
            as_type(base().frames(window).image(View::pad((28, 28))), Dtype::F32.into())
                .clip_layout(ClipLayout::ChannelsFirst),
        ),
        ("padded", base().frames(window).image(View::pad((28, 28)))),
        (
            "a changed window, channels first",
            as_type(base().frames(window).image(crop).layout(chw), Dtype::F16.into())
                .clip_layout(ClipLayout::ChannelsFirst)
                .augment_pictures(changes()),
        ),
        ("changed, all frames", base().image(crop).augment_pictures(changes())),
        (
            "changed, all frames, channels first",
            base().clip_layout(ClipLayout::ChannelsFirst).augment_pictures(changes()),
        ),
    ]
}

fn compare(disk: &Disk, tight: u64, ways: Vec<(&str, LoaderOptions)>, check: impl Fn(&str, &PlayedStage)) {
    for (n, (name, options)) in ways.into_iter().enumerate() {
        for is_resident in [false, true] {
            let stage = Arc::new(PlayedStage::new(n % 2, tight));
            let staged = match is_resident {
                true => resident(&stage, &options),
                false => options.clone().stage(Arc::clone(&stage) as _),
            };
            let (mut host, mut staged) = (disk.loader(options.clone()), disk.loader(staged));
            // Skip epoch 1, because the loader would prefetch a consecutive epoch and count its rows too.
            for number in [0, 2] {
                host.set_epoch(number).unwrap();
                staged.set_epoch(number).unwrap();
                assert_same(&epoch(&mut staged), &epoch(&mut host), name);
            }
            assert_eq!(staged.stats().skipped, host.stats().skipped, "{name}");
            let refused: u64 = staged.refusals().iter().map(|refusal| refusal.rows).sum();
            let expected = of(&stage.counts.refused) + of(&stage.counts.faults);
            assert_eq!(refused, expected, "{name}: {:?}", staged.refusals());
            assert!(is_resident || of(&stage.counts.kept) == 0, "{name}");
            check(name, &stage);
        }
    }
}

#[test]
fn clips_are_the_hosts() {
    compare(&alike(16), 1, ways(), |name, stage| {
        let counts = &stage.counts;
        assert_eq!((of(&counts.taken), of(&counts.refused), of(&counts.faults)), (32, 0, 0), "{name}");
        assert_eq!(of(&counts.grown), 0, "{name}: the memory is predicted");
    });
}

/// The records are large, so several threads read their parts.
#[test]
fn large_clips_are_the_hosts() {
    let ways = ways().into_iter().map(|(name, options)| (name, options.part_bytes(700))).collect();
    compare(&alike(9), 1, ways, |name, stage| assert_eq!(of(&stage.counts.taken), 18, "{name}"));
}

#[test]
fn resident_clips_are_not_read() {
    let disk = alike(10);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut loader = disk.loader(resident(&stage, &base().frames(FrameMode::Even { count: 4 })));
    let read = loader.stats().read_bytes;
    assert_eq!(loader.stats().resident_values, 10);
    epoch(&mut loader);
    assert_eq!((loader.stats().read_bytes, of(&stage.counts.kept)), (read, 10));
}

/// The frames of a clip may differ in size, as with several photos of one object. All are scaled to the size of the
/// view.
#[test]
fn frames_of_several_sizes_are_the_hosts() {
    let size =
        |id: u64, number: u64| [24 + (id * 7 + number * 11) as u32 % 30, 20 + (id * 5 + number * 13) as u32 % 41];
    let disk = clips(12, |id| size(id, 0), |id, number| frame(size(id, number), id, number));
    let ways = || {
        ways().into_iter().filter(|(_, options)| options.clone().image(View::whole()).view.image != options.view.image)
    };
    compare(&disk, 1, ways().collect(), |name, stage| {
        assert_eq!((of(&stage.counts.taken), of(&stage.counts.refused)), (24, 0), "{name}");
    });
    // Without resizing, the frames do not fit into a row. The host must report this error.
    compare(&disk, 1, vec![("whole", base())], |_, stage| {
        assert!(of(&stage.counts.refused) > 0 && of(&stage.counts.taken) > 0);
    });
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut staged = disk.loader(base().stage(Arc::clone(&stage) as _));
    epoch(&mut staged);
    assert!(staged.refusals().iter().any(|refusal| refusal.reason == "frames of a clip differ in size"));
}

#[test]
fn damaged_frames_are_those_of_the_host() {
    let hurt = |id: u64, number: u64| {
        let mut jpeg = frame(SIZE, id, number);
        match (id + number) % 7 {
            // Damage only entropy-coded bytes, so that the frame reaches the kernels.
            0 => (jpeg.len() / 2..jpeg.len() - 2).for_each(|at| {
                if jpeg[at] != 0xFF && jpeg[at - 1] != 0xFF {
                    jpeg[at] = jpeg[at].rotate_left(3) & 0x7F;
                }
            }),
            1 if id.is_multiple_of(3) => damage(&mut Random(id * 10 + number), &mut jpeg),
            _ => {}
        }
        jpeg
    };
    let disk = clips(30, |_| SIZE, hurt);
    let names = ["four", "four, channels first", "all whole ones", "changed, all frames"];
    let ways = ways().into_iter().filter(|(name, _)| names.contains(name)).collect();
    compare(&disk, 1, ways, |name, stage| {
        let (taken, faults) = (of(&stage.counts.taken), of(&stage.counts.faults));
        assert!(faults > 5 && faults < taken, "{name}: {faults} of {taken} are odd");
    });
}

/// If the kernels do not accept one of the chosen frames, the host decodes the clip, and the stage counts the reason.
#[test]
fn frames_that_the_kernels_lack_are_counted() {
    let odd = |id: u64, number: u64| {
        let size = if id.is_multiple_of(4) && number == 0 { [SIZE[0], 4] } else { SIZE };
        let factors = if id.is_multiple_of(4) { (2, 2) } else { (1, 1) };
        Source { size: (size[1] as u16, size[0] as u16), factors, interval: 3, detail: 9, seed: id + number }.encoded()
    };
    let disk = clips(12, |_| SIZE, odd);
    let options = base().image(View::random_resized_crop((24, 32)));
    for is_resident in [false, true] {
        let stage = Arc::new(PlayedStage::new(0, 1));
        let staged =
            if is_resident { resident(&stage, &options) } else { options.clone().stage(Arc::clone(&stage) as _) };
        let (mut host, mut staged) = (disk.loader(options.clone()), disk.loader(staged));
        assert_same(&epoch(&mut staged), &epoch(&mut host), "narrow first frames");
        let refusals = staged.refusals();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert_eq!((refusals[0].reason.as_str(), refusals[0].rows), ("unusual subsampling", 3));
        assert_eq!(staged.stats().device_rows, 9);
    }
}

/// Each crop of a clip has its own view, and its frames are decoded separately.
#[test]
fn crops_of_clips_are_the_hosts() {
    let crops = [
        PictureCrop::from(View::random_resized_crop((24, 32)).with_flip(0.5)),
        PictureCrop::from(View::center_crop(33, (24, 28))).augmented(changes()),
    ];
    let window = FrameMode::Window { count: 3, every: 2 };
    let options = base().frames(window).crops(crops);
    let ways =
        vec![("crops", options.clone()), ("crops, channels first", options.clip_layout(ClipLayout::ChannelsFirst))];
    compare(&alike(10), 1, ways, |name, stage| {
        let counts = &stage.counts;
        assert_eq!((of(&counts.taken), of(&counts.refused), of(&counts.faults)), (40, 0, 0), "{name}");
        assert_eq!(of(&counts.grown), 0, "{name}: the memory is predicted");
    });
}

#[test]
fn clips_without_room_in_the_staging_memory_are_the_hosts() {
    compare(&alike(12), 3, ways(), |_, _| {});
    let stage = Arc::new(PlayedStage::new(0, 4));
    let mut staged = alike(12).loader(base().stage(Arc::clone(&stage) as _));
    epoch(&mut staged);
    assert!(staged.refusals().iter().any(|refusal| refusal.reason == "no room left in the staging memory"));
}

/// If the host decodes all rows, the stage takes no clips. The host writes the rows of clips, which are then copied
/// to the device.
#[test]
fn clips_that_the_host_decodes_are_copied() {
    let disk = alike(8);
    for (name, options) in ways() {
        let stage = Arc::new(PlayedStage::of_host_rows(0, 1));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.stage(Arc::clone(&stage) as _));
        assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        assert!(staged.refusals().is_empty() && of(&stage.counts.put) == 0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn choices_and_views_are_the_hosts(
        seed in any::<u64>(),
        (height, width) in (1_u32..50, 1_u32..50),
        (count, every) in (1_u32..14, 1_u32..4),
        is_even in any::<bool>(),
        is_resident in any::<bool>(),
        layout in 0_usize..3,
        manner in 0_usize..2,
    ) {
        let disk = alike(7);
        let frames = if is_even { FrameMode::Even { count } } else { FrameMode::Window { count, every } };
        let image = View::random_resized_crop((height, width)).with_flip(0.5);
        let options = base().seed(seed).frames(frames).image(image);
        let options = match layout {
            0 => options,
            1 => options.layout(PixelLayout::ChannelsHeightWidth),
            _ => options.clip_layout(ClipLayout::ChannelsFirst),
        };
        let stage = Arc::new(PlayedStage::new(manner, 1));
        let staged = if is_resident { resident(&stage, &options) } else { options.clone().stage(Arc::clone(&stage) as _) };
        let (mut host, mut staged) = (disk.loader(options), disk.loader(staged));
        assert_same(&epoch(&mut staged), &epoch(&mut host), "views");
        prop_assert_eq!(of(&stage.counts.taken), 7);
    }
}
