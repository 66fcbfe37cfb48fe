//! Decodes pictures on a GPU, compares them with the output of the host's decoder, and then measures crops per
//! second. `scripts/gpu.sh` runs this example, which needs a folder of JPEGs.
//!
//!     pictures_on_device FOLDER [--check-only] [--small | --many]
//!
//! Each photo is decoded twice: tiled, and unchanged with a segment index (`kept`). Both are measured with the same
//! crops of the same photos, and `kept_of_tiled` is the ratio of their rates.
//!
//! Prints one JSON object, and exits with code 1 if pixels differ. `compile_ms` is the time to load all kernels of
//! the crate. In the runs of 2026-11-22, it covered only the picture kernels.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::print_stderr)]

#[path = "../src/pictures/tests/jpegs.rs"]
mod jpegs;
#[path = "../src/pictures/tests/on_host.rs"]
mod on_host;

use jpegs::{Random, Source};
use shardpack_array::ZstdDecoder;
use shardpack_augment::Augmentation;
use shardpack_format::{Dtype, ElementType, Limits};
use shardpack_gpu::kernels::CudaSlot;
use shardpack_gpu::{CudaStage, Device, GpuError};
use shardpack_jpeg::{
    DrawKey, Interval, JpegDecoder, JpegHeader, JpegTiler, PixelLayout, Placement, Rendering, Scaling, SegmentIndexer,
    StoredPicture, TileOptions, View,
};
use shardpack_loader::stage::{Prepared, RecordValue, SlotRoom, Spot, StageSlot};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Pictures = Vec<(Photo, Rendering)>;

/// A JPEG, with its segment index if it has one.
#[derive(Clone)]
struct Photo {
    jpeg: Vec<u8>,
    index: Option<Vec<u8>>,
}

impl Photo {
    /// Indexes a JPEG. Returns it without an index if it needs none or is damaged.
    fn indexed(jpeg: Vec<u8>, indexer: &mut SegmentIndexer) -> Self {
        let mut index = Vec::new();
        let count = indexer.index(&jpeg, &Limits::default(), &mut index).unwrap_or_default();
        Self { jpeg, index: count.map(|_| index) }
    }

    fn stored(&self) -> StoredPicture<'_> {
        StoredPicture { segments: self.index.as_deref(), ..StoredPicture::new("image/jpeg", &self.jpeg) }
    }
}

const ROOM: SlotRoom =
    SlotRoom { rows: 1024, output_bytes: 1 << 30, host_bytes: 0, staged_bytes: 192 << 20, between_bytes: 1 << 30 };

fn scaling() -> Scaling {
    Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).expect("factors")
}

/// Recipes that together contain every operation.
const RECIPES: [&[&str]; 5] = [
    &[],
    &["trivial_augment_wide", "random_erasing(p=0.5,value=124:116:104)"],
    &["rand_augment(num_ops=3)"],
    &["color_jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1)", "random_grayscale(p=0.3)"],
    &["gaussian_blur(kernel_size=9,p=0.5)", "random_solarize(threshold=100)"],
];

fn recipe(number: usize) -> Vec<Augmentation> {
    RECIPES[number % RECIPES.len()].iter().map(|text| text.parse().expect("an augmentation")).collect()
}

/// A picture that the device accepted, with its index among the photos, its position in the output, and its size.
struct Taken {
    number: usize,
    spot: Spot,
    size: [usize; 2],
}

/// Stages pictures in the slot, for output as `dtype`. Fails if a picture does not fit in the slot's output.
fn stage<'a>(
    slot: &CudaSlot,
    pictures: impl Iterator<Item = (&'a Photo, Rendering)>,
    changes: &[Augmentation],
    dtype: ElementType,
) -> Result<Vec<Taken>, GpuError> {
    let (scaling, limits, zstd) = (scaling(), Limits::default(), &mut ZstdDecoder::default());
    let room = slot.room().output_bytes;
    slot.begin(room);
    let (mut taken, mut end) = (Vec::new(), 0);
    for (number, (photo, how)) in pictures.enumerate() {
        let header = JpegHeader::parse(&photo.jpeg).expect("a picture");
        let Ok(place) = Placement::new(&how, header.width.into(), header.height.into()) else { continue };
        let size = [place.height as usize, place.width as usize];
        let bytes_of_row = size[0] * size[1] * 3 * dtype.bytes() as usize;
        if bytes_of_row > room - end {
            let (len, offset, count) = (room as u64, end as u64, bytes_of_row as u64);
            return Err(GpuError::Range { what: "memory for the output", len, offset, count });
        }
        let spot = Spot { row: number as u32, field: 0, bytes: end..end + bytes_of_row };
        let (how, scaling, limits) = (&how, &scaling, &limits);
        let picture = photo.stored();
        let value = RecordValue::Picture { picture, how, crops: None, changes, dtype, scaling, limits, clip: None };
        if matches!(slot.prepare(&spot, &value, zstd), Prepared::Taken(_)) {
            end = spot.bytes.end;
            taken.push(Taken { number, spot, size });
        }
    }
    Ok(taken)
}

/// Decodes pictures on the device and on the host. Returns how many pictures were compared, how many differed, and
/// how many the kernels refused.
fn compare(
    slot: &CudaSlot,
    pictures: &Pictures,
    changes: &[Augmentation],
    dtype: ElementType,
) -> Result<[usize; 3], GpuError> {
    let taken = stage(slot, pictures.iter().map(|(photo, how)| (photo, *how)), changes, dtype)?;
    slot.start(&[]).expect("a batch that fits");
    let faults = slot.wait()?;
    let mut out = vec![0; taken.last().map_or(0, |last| last.spot.bytes.end)];
    slot.read(0, &mut out).expect("the output");
    let next = AtomicUsize::new(0);
    let wrong = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut host = JpegDecoder::new(&Limits::default());
                while let Some(Taken { number, spot, size }) = taken.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (Photo { jpeg, .. }, how) = &pictures[*number];
                    let mut levels = vec![0; size[0] * size[1] * 3];
                    let plain = Rendering { layout: PixelLayout::HeightWidthChannels, ..*how };
                    host.decode_into(jpeg, &plain, &mut levels).expect("the host decodes it");
                    let levels = on_host::changed(levels, *size, how, changes);
                    let expected = on_host::converted(&levels, how.layout, &scaling(), dtype);
                    let fault = faults.iter().find(|fault| fault.row == spot.row);
                    if fault.is_some() || out[spot.bytes.clone()] != expected {
                        eprintln!("picture {number} differs: {how:?}, fault {fault:?}");
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok([taken.len(), wrong.into_inner(), pictures.len() - taken.len()])
}

fn random_view(random: &mut Random, layout: PixelLayout) -> Rendering {
    let sizes = [224, 160, 96, 33];
    let side = sizes[random.below(4) as usize];
    let view = match random.below(4) {
        0 => View::center_crop(side + 32, side),
        1 => View::resize((side, side + 7)),
        _ => View::random_resized_crop(side),
    };
    let orientation = if random.below(2) == 0 { 1 } else { 1 + random.below(8) as u8 };
    let key = DrawKey { seed: random.next().into(), epoch: 0, sample: 0 };
    Rendering { view: view.with_flip(0.5), key, orientation, layout }
}

fn generated(random: &mut Random, count: usize, layout: PixelLayout) -> Pictures {
    let indexer = &mut SegmentIndexer::new();
    (0..count)
        .map(|_| {
            let source = Source {
                size: (5 + random.below(200) as u16, 1 + random.below(200) as u16),
                factors: [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)][random.below(5) as usize],
                interval: if random.below(2) == 0 { 0 } else { 1 + random.below(40) as u16 },
                detail: random.below(40),
                seed: random.next().into(),
            };
            (
                Photo::indexed(source.encoded(), indexer),
                if random.below(3) == 0 {
                    Rendering { layout, ..Default::default() }
                } else {
                    random_view(random, layout)
                },
            )
        })
        .collect()
}

/// Creates a photo from each file, with several threads. Returns the photos with the indices of their files.
fn each_of<T>(
    paths: &[PathBuf],
    new: impl Fn() -> T + Sync,
    make: impl Fn(&mut T, Vec<u8>) -> Option<Photo> + Sync,
) -> Vec<(usize, Photo)> {
    let next = AtomicUsize::new(0);
    let mut all: Vec<(usize, Photo)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let (mut tools, mut done) = (new(), Vec::new());
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        let Some(path) = paths.get(n) else { return done };
                        let source = std::fs::read(path).expect("a readable file");
                        done.extend(make(&mut tools, source).map(|photo| (n, photo)));
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    all.sort_by_key(|&(n, _)| n);
    all
}

/// Reads files and tiles them, with about `blocks` blocks per segment. If `blocks` is 0, uses the default.
fn tiled(paths: &[PathBuf], blocks: u16) -> Vec<(usize, Photo)> {
    each_of(paths, JpegTiler::new, |tiler, source| {
        let mut options = TileOptions::default();
        if blocks > 0 {
            let mcu = JpegHeader::parse(&source).map_or(1, |header| header.mcu_grid().blocks);
            options.interval = Interval::Mcus((blocks / mcu as u16).max(1));
        }
        let mut jpeg = Vec::new();
        let is_tiled = tiler.tile(&source, &options, &mut jpeg).is_ok() && !jpeg.is_empty();
        is_tiled.then_some(Photo { jpeg, index: None })
    })
}

/// Reads files and indexes them without changing their bytes.
fn kept(paths: &[PathBuf]) -> Vec<(usize, Photo)> {
    each_of(paths, SegmentIndexer::new, |indexer, source| {
        Some(Photo::indexed(source, indexer)).filter(|photo| photo.index.is_some())
    })
}

/// Returns the photos of `one` whose file index also occurs in `other`.
fn shared(one: &[(usize, Photo)], other: &[(usize, Photo)]) -> Vec<Photo> {
    let has = |number: usize| other.binary_search_by_key(&number, |(n, _)| *n).is_ok();
    one.iter().filter(|(n, _)| has(*n)).map(|(_, photo)| photo.clone()).collect()
}

fn jpegs_in(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut paths) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpeg") || e.eq_ignore_ascii_case("jpg"))
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

fn crops(photos: &[Photo], count: usize, seed: u64) -> impl Iterator<Item = (&Photo, Rendering)> {
    (0..count).map(move |n| {
        let key = DrawKey { seed, epoch: 0, sample: n as u64 };
        let view = View::random_resized_crop(224).with_flip(0.5);
        (
            &photos[(n * 7 + seed as usize) % photos.len()],
            Rendering { view, key, layout: PixelLayout::ChannelsHeightWidth, ..Default::default() },
        )
    })
}

/// Timings of a batch that is already on the device.
struct Resident {
    /// Median in milliseconds.
    ms: f32,
    crops: usize,
    upload_bytes: usize,
    /// Time of each kernel in milliseconds.
    kernels: String,
}

fn resident(slot: &CudaSlot, photos: &[Photo], count: usize, changes: &[Augmentation]) -> Result<Resident, GpuError> {
    let crops = stage(slot, crops(photos, count, 5), changes, Dtype::F16.into())?.len();
    slot.start(&[]).expect("a batch that fits");
    slot.wait()?;
    let mut times = (0..20).map(|_| slot.kernels_ms()).collect::<Result<Vec<_>, _>>()?;
    times.sort_by(f32::total_cmp);
    let kernels: Vec<_> = slot.profile()?.iter().map(|(name, ms)| format!("\"{name}_ms\": {ms:.4}")).collect();
    Ok(Resident { ms: times[times.len() / 2], crops, upload_bytes: slot.upload_bytes(), kernels: kernels.join(", ") })
}

/// Returns how many crops per second `threads` threads decode. Each thread stages and decodes its own batches, with two
/// in flight.
fn pipeline(device: &CudaStage, photos: &[Photo], threads: usize) -> Result<f64, GpuError> {
    const BATCH: usize = 256;
    let room = SlotRoom {
        rows: BATCH,
        output_bytes: BATCH * 224 * 224 * 6,
        staged_bytes: 48 << 20,
        between_bytes: 192 << 20,
        ..SlotRoom::default()
    };
    let new = || device.slot_by_hand(&room);
    let slots = (0..threads).map(|_| Ok([new()?, new()?])).collect::<Result<Vec<_>, GpuError>>()?;
    let done = AtomicUsize::new(0);
    let begin = Instant::now();
    let until = begin + Duration::from_millis(2500);
    std::thread::scope(|scope| {
        for (thread, pair) in slots.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut seed = thread as u64 * 1_000_003;
                while Instant::now() < until {
                    for slot in pair {
                        slot.wait().expect("the previous batch");
                        let taken = stage(slot, crops(photos, BATCH, seed), &[], Dtype::F16.into());
                        let taken = taken.expect("room for the output");
                        slot.start(&[]).expect("a batch that fits");
                        done.fetch_add(taken.len(), Ordering::Relaxed);
                        seed += 1;
                    }
                }
                for slot in pair {
                    slot.wait().expect("decoded pictures");
                }
            });
        }
    });
    Ok(done.into_inner() as f64 / begin.elapsed().as_secs_f64())
}

/// Same as [`compare`], for photos in many views.
fn compare_photos(
    slot: &CudaSlot,
    photos: &[Photo],
    random: &mut Random,
    is_small: bool,
) -> Result<[usize; 3], GpuError> {
    let (layout, mut sums) = (PixelLayout::HeightWidthChannels, [0; 3]);
    for chunk in photos.chunks(125) {
        let whole = chunk.iter().map(|photo| (photo.clone(), Rendering::default())).collect();
        add(&mut sums, compare(slot, &whole, &[], Dtype::U8.into())?);
        let types = [Dtype::U8, Dtype::F16].into_iter().cycle();
        for (n, dtype) in types.take(if is_small { 5 } else { 10 }).enumerate() {
            let views = chunk.iter().map(|photo| (photo.clone(), random_view(random, layout))).collect();
            add(&mut sums, compare(slot, &views, &recipe(n), dtype.into())?);
        }
    }
    Ok(sums)
}

fn add(sums: &mut [usize; 3], counts: [usize; 3]) {
    sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
}

/// Measures crops of photos that are all `tiled` or all `kept`. Returns the name and the crops per second of each
/// measurement.
fn measure(
    side: &str,
    device: &CudaStage,
    slot: &CudaSlot,
    photos: &[Photo],
    threads: &[usize],
) -> Result<Vec<(String, f64)>, GpuError> {
    let mut rates = Vec::new();
    for count in [64, 256, 1024] {
        let Resident { ms, crops, upload_bytes, kernels } = resident(slot, photos, count, &[])?;
        println!(
            "\"resident_{side}_{count}\": {{\"ms\": {ms:.4}, \"crops\": {crops}, \"us_a_crop\": {:.3}, \
             \"upload_bytes\": {upload_bytes}, {kernels}}},",
            ms * 1000.0 / crops as f32
        );
        rates.push((format!("resident_{count}"), crops as f64 * 1000.0 / f64::from(ms)));
    }
    for &threads in threads {
        let rate = pipeline(device, photos, threads)?;
        println!("\"pipeline_{side}_{threads}_threads\": {rate:.0},");
        rates.push((format!("pipeline_{threads}_threads"), rate));
    }
    Ok(rates)
}

fn main() -> Result<(), GpuError> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of JPEGs"));
    let flags: Vec<String> = arguments.collect();
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let begin = Instant::now();
    // Open the context before the stage, so that the second time covers only the kernels.
    let context = Device::open(0)?;
    let opened = begin.elapsed();
    let device = CudaStage::open(0)?;
    let loaded = begin.elapsed() - opened;
    let slot = device.slot_by_hand(&ROOM)?;
    println!(
        "{{\"device\": \"{}\", \"open_ms\": {}, \"compile_ms\": {},",
        context.properties().name,
        opened.as_millis(),
        loaded.as_millis()
    );

    let random = &mut Random(11);
    let (batches, per_batch) = match (has("--small"), has("--many")) {
        (true, _) => (1, 12),
        (false, false) => (20, 250),
        (false, true) => (400, 250),
    };
    let mut sums = [0; 3];
    for n in 0..batches {
        let layout = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth][n % 2];
        let dtype = [Dtype::U8.into(), Dtype::F16.into(), ElementType::Bf16, Dtype::F32.into()][n % 4];
        let pictures = generated(random, per_batch, layout);
        add(&mut sums, compare(&slot, &pictures, &recipe(n), dtype)?);
    }
    println!("\"generated\": {{\"compared\": {}, \"different\": {}, \"not_taken\": {}}},", sums[0], sums[1], sums[2]);
    let mut wrong = sums[1];

    let paths = jpegs_in(&folder);
    let paths = &paths[..if has("--small") { 6 } else { paths.len() }];
    let (of_tiles, of_files) = (tiled(paths, 0), kept(paths));
    for (name, photos) in [("photos", &of_tiles), ("kept_photos", &of_files)] {
        let photos: Vec<_> = photos.iter().map(|(_, photo)| photo.clone()).collect();
        let [compared, different, not_taken] = compare_photos(&slot, &photos, random, has("--small"))?;
        println!(
            "\"{name}\": {{\"files\": {}, \"compared\": {compared}, \"different\": {different}, \
             \"not_taken\": {not_taken}}},",
            photos.len()
        );
        wrong += different;
    }

    if !has("--check-only") && !has("--small") {
        let (photos, kept_photos) = (shared(&of_tiles, &of_files), shared(&of_files, &of_tiles));
        for (number, names) in RECIPES.iter().enumerate().skip(1) {
            let Resident { ms, crops, kernels, .. } = resident(&slot, &photos, 256, &recipe(number))?;
            println!(
                "\"augmented_{number}\": {{\"recipe\": \"{}\", \"ms\": {ms:.4}, \"crops\": {crops}, {kernels}}},",
                names.join(", ")
            );
        }
        let sides = [("as_packed", &photos), ("kept", &kept_photos)];
        let rates = sides.map(|(name, photos)| measure(name, &device, &slot, photos, &[1, 4, 16]));
        let [tiles, files] = rates;
        for ((name, tiled), (_, kept)) in tiles?.iter().zip(&files?) {
            println!("\"kept_of_tiled_{name}\": {:.3},", kept / tiled);
        }
        for (name, blocks, threads) in [("12_blocks", 12, &[1, 4, 16][..]), ("24_blocks", 24, &[])] {
            measure(name, &device, &slot, &shared(&tiled(paths, blocks), &of_files), threads)?;
        }
    }
    println!("\"seconds\": {:.1}}}", begin.elapsed().as_secs_f64());
    std::process::exit(i32::from(wrong > 0));
}
