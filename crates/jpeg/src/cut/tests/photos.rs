//! Tests typical training crops of photos that are tiled as by the packer.

use super::*;
use crate::testing::shared_data;
use crate::turbo::{Operation, Transcoder, Transcoding};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the divisor of `per_row` between 3 and 12 that is closest to 8, or `per_row` itself if there is
/// none.
fn interval(per_row: u32) -> u32 {
    (3..=12).filter(|k| per_row.is_multiple_of(*k)).min_by_key(|k| k.abs_diff(8)).unwrap_or(per_row)
}

/// Returns a typical random resized crop, with an area of 0.08 to 1 and an aspect ratio of 3/4 to 4/3.
fn random_resized_crop(random: &mut Random, width: u32, height: u32) -> Rect {
    let mut unit = || random.next() as f64 / u64::MAX as f64;
    for _ in 0..10 {
        let area = f64::from(width) * f64::from(height) * (0.08 + 0.92 * unit());
        let ratio = (3.0_f64 / 4.0).ln().mul_add(1.0 - unit() * 2.0, 0.0).exp();
        let (w, h) = ((area * ratio).sqrt().round() as u32, (area / ratio).sqrt().round() as u32);
        if w <= width && h <= height && w > 0 && h > 0 {
            let x = (unit() * f64::from(width - w + 1)) as u32;
            let y = (unit() * f64::from(height - h + 1)) as u32;
            return Rect { x: x.min(width - w), y: y.min(height - h), width: w, height: h };
        }
    }
    Rect::whole(width, height)
}

#[derive(Default)]
struct Sums {
    pictures: usize,
    tiles: usize,
    source: usize,
    cut: usize,
}

#[test]
#[allow(clippy::print_stderr, reason = "printed with --nocapture")]
fn crops_of_a_thousand_photos_are_equal_to_the_bit() {
    let Some(data) = shared_data() else { return };
    let mut paths = Vec::new();
    for class in std::fs::read_dir(data.join("imagenet-sample")).unwrap() {
        let class = class.unwrap().path();
        if class.is_dir() {
            paths.extend(std::fs::read_dir(class).unwrap().map(|file| file.unwrap().path()));
        } else {
            paths.push(class);
        }
    }
    paths.retain(|path| {
        path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpeg") || e.eq_ignore_ascii_case("jpg"))
    });
    paths.sort();
    assert!(paths.len() >= 1000, "{} photos", paths.len());
    let next = AtomicUsize::new(0);
    let sums: Mutex<[Sums; 4]> = Mutex::default();
    let work = || {
        let transcoder = Transcoder::new(Bounds::of(&Limits::default()));
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let source = std::fs::read(path).unwrap();
            let header = JpegHeader::parse(&source).unwrap();
            if header.unsupported().is_some() || header.components().len() == 4 {
                continue;
            }
            let interval = interval(header.mcu_grid().columns);
            let how = Transcoding {
                operation: Operation::None,
                restart_interval: u16::try_from(interval).unwrap(),
                keep_metadata: false,
            };
            let mut tiled = Vec::new();
            transcoder.transcode(&source, how, &mut tiled).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let mut random = Random(path.as_os_str().as_encoded_bytes().iter().map(|&b| u64::from(b)).sum());
            let rect = random_resized_crop(&mut random, header.width.into(), header.height.into());
            let whole = decode(&tiled).unwrap();
            let (cut, bytes) = check_equal(&tiled, &whole, rect);
            let kind = match header.sampling() {
                Sampling::Gray => 0,
                Sampling::S444 => 1,
                Sampling::S420 => 2,
                _ => 3,
            };
            let sum = &mut sums.lock().unwrap()[kind];
            sum.pictures += 1;
            sum.tiles += usize::from(cut.kind == CutKind::Tiles);
            sum.source += source.len();
            sum.cut += bytes;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let sums = sums.into_inner().unwrap();
    for (name, sum) in ["gray", "4:4:4", "4:2:0", "other"].iter().zip(&sums) {
        let share = sum.cut as f64 / sum.source.max(1) as f64;
        eprintln!(
            "{name}: {} photos, {} cut by tiles, bytes of the cuts {share:.3} of the sources'",
            sum.pictures, sum.tiles
        );
    }
    assert!(sums.iter().map(|sum| sum.pictures).sum::<usize>() >= 990);
    let (cut, source) = sums.iter().fold((0, 0), |(cut, source), sum| (cut + sum.cut, source + sum.source));
    assert!((cut as f64) < 0.6 * source as f64, "{cut} of {source} bytes");
}
