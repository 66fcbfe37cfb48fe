//! The costs and gains of restart intervals on real photos: the table of
//! docs/adr/0006-restart-interval.md.
//!
//! `cargo run --release -p shardpack-array --example restart_intervals -- FOLDER [--csv]`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a program for developers"
)]

#[path = "shared/photos.rs"]
mod photos;

use shardpack_jpeg::{Interval, JpegHeader, JpegTiler, Sampling, TileOptions, TileOutcome, restart_interval};

/// Crops drawn for each photo.
const CROPS: u64 = 24;

struct Photo {
    source: usize,
    columns: u32,
    rows: u32,
    /// For each divisor of the row: interval, bytes, mean bytes of a crop's cut, segments.
    measured: Vec<(u32, usize, f64, usize)>,
}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder of JPEGs");
    let csv = std::env::args().any(|a| a == "--csv");
    let mut tiler = JpegTiler::new();
    let mut photos = Vec::new();
    let mut refused = 0;
    for (n, path) in photos::jpegs(&folder).iter().enumerate() {
        match measure(&mut tiler, &std::fs::read(path).unwrap(), n as u64) {
            Some(photo) => photos.push(photo),
            None => refused += 1,
        }
    }
    println!("{} photos, {refused} more that are not tiled", photos.len());
    if csv {
        println!("photo,source,columns,rows,interval,bytes,cut,segments");
        for (n, p) in photos.iter().enumerate() {
            for (k, bytes, cut, segments) in &p.measured {
                println!("{n},{},{},{},{k},{bytes},{cut:.0},{segments}", p.source, p.columns, p.rows);
            }
        }
        return;
    }
    let nearest = |p: &Photo, target: u32, most: u32| {
        (3..=most).filter(|k| p.columns.is_multiple_of(*k)).min_by_key(|k| k.abs_diff(target)).unwrap_or(p.columns)
    };
    println!("| rule | size / source | cut / source | in both directions | segments a photo | largest growth |");
    println!("|---|---|---|---|---|---|");
    show("whole rows", &photos, |p| p.columns);
    for target in [12, 8, 6, 4] {
        show(&format!("divisor in 3..=16 nearest to {target}, else row"), &photos, |p| nearest(p, target, 16));
    }
    show("nearest to 8, else 2 or 1", &photos, |p| match nearest(p, 8, 16) {
        k if k == p.columns && k > 16 => 1 + u32::from(k.is_multiple_of(2)),
        k => k,
    });
    show("always 1", &photos, |_| 1);
    show("the smallest cut, by trying all", &photos, |p| {
        p.measured.iter().min_by(|a, b| a.2.total_cmp(&b.2)).map_or(p.columns, |m| m.0)
    });
    for (segment, stored) in [(3.0, 1.0), (8.0, 1.0), (8.0, 1.25), (8.0, 2.0)] {
        show(&format!("model, {segment} bytes a segment, stored {stored}"), &photos, |p| model(p, segment, stored));
    }
    show("`restart_interval`", &photos, |p| u32::from(restart_interval(p.columns, p.rows, p.source)));
}

/// [`restart_interval`] with other constants.
fn model(photo: &Photo, segment: f64, stored: f64) -> u32 {
    let mcu_bytes = photo.source as f64 / (f64::from(photo.columns) * f64::from(photo.rows));
    let cost = |k: u32| {
        let touched = (0.68 + 0.75 * f64::from(k) / f64::from(photo.columns)).min(1.0);
        (mcu_bytes + segment / f64::from(k)) * (stored + touched)
    };
    photo.measured.iter().map(|m| m.0).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("a divisor")
}

fn show(rule: &str, photos: &[Photo], choose: impl Fn(&Photo) -> u32) {
    let (mut source, mut bytes, mut cut, mut both, mut segments, mut growth) = (0, 0, 0.0, 0, 0, 0.0_f64);
    for photo in photos {
        let k = choose(photo);
        let found = photo.measured.iter().find(|m| m.0 == k).expect("a divisor");
        source += photo.source;
        bytes += found.1;
        cut += found.2;
        both += usize::from(k < photo.columns);
        segments += found.3;
        growth = growth.max(found.1 as f64 / photo.source as f64 - 1.0);
    }
    let n = photos.len();
    println!(
        "| {rule} | {:.4} | {:.3} | {:.1} % | {} | {:.1} % |",
        bytes as f64 / source as f64,
        cut / source as f64,
        100.0 * both as f64 / n as f64,
        segments / n,
        100.0 * growth
    );
}

fn measure(tiler: &mut JpegTiler, jpeg: &[u8], n: u64) -> Option<Photo> {
    let mut out = Vec::new();
    let mut tile = |interval, out: &mut Vec<u8>| {
        out.clear();
        let options = TileOptions { interval, max_growth: f64::INFINITY, ..Default::default() };
        match tiler.tile(jpeg, &options, out).ok()?.outcome {
            TileOutcome::Tiled { interval, tiles_per_row, tile_rows } => Some((interval, tiles_per_row, tile_rows)),
            TileOutcome::Kept(_) => None,
        }
    };
    let (columns, _, rows) = tile(Interval::Row, &mut out)?;
    let columns = u32::from(columns);
    let mut measured = Vec::new();
    for k in (1..=columns).filter(|k| columns.is_multiple_of(*k)) {
        let (_, tiles, _) = tile(Interval::Mcus(k as u16), &mut out)?;
        let header = JpegHeader::parse(&out).unwrap();
        let sizes = segments(&out[header.scan_offset as usize..]);
        assert_eq!(sizes.len(), (tiles * rows) as usize);
        let cut = mean_cut(&header, &sizes, tiles as usize, k, n);
        measured.push((k, out.len(), cut + header.scan_offset as f64 + 2.0, sizes.len()));
    }
    Some(Photo { source: jpeg.len(), columns, rows, measured })
}

/// Bytes of each restart segment, including its marker.
fn segments(scan: &[u8]) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut start = 0;
    for at in memchr::memchr_iter(0xFF, scan) {
        if matches!(scan[at + 1], 0xD0..=0xD9) {
            sizes.push(at + 2 - start);
            start = at + 2;
        }
    }
    sizes
}

/// Mean bytes of the segments that random-resized-crops (scale 0.08–1, ratio 3/4–4/3) touch, with a
/// pixel on each side.
fn mean_cut(header: &JpegHeader, sizes: &[usize], tiles: usize, k: u32, photo: u64) -> f64 {
    let (width, height) = (f64::from(header.width), f64::from(header.height));
    let (mcu_w, mcu_h) = match header.sampling() {
        Sampling::S422 => (16.0, 8.0),
        Sampling::S420 => (16.0, 16.0),
        Sampling::S440 => (8.0, 16.0),
        Sampling::S411 => (32.0, 8.0),
        _ => (8.0, 8.0),
    };
    let mut total = 0;
    for crop in 0..CROPS {
        let mut state = photo * CROPS + crop;
        let mut uniform = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        uniform();
        let (mut w, mut h) = (width.min(height), width.min(height));
        for _ in 0..10 {
            let area = (0.08 + 0.92 * uniform()) * width * height;
            let ratio = ((0.75f64).ln() + uniform() * (16.0f64 / 9.0).ln()).exp();
            let (a, b) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
            if a <= width && b <= height {
                (w, h) = (a, b);
                break;
            }
        }
        let (x, y) = ((uniform() * (width - w + 1.0)).floor(), (uniform() * (height - h + 1.0)).floor());
        let tile_w = mcu_w * f64::from(k);
        let span = |start: f64, len: f64, whole: f64, tile: f64| {
            ((((start - 1.0).max(0.0)) / tile) as usize, ((start + len + 1.0).min(whole) / tile).ceil() as usize)
        };
        let ((x0, x1), (y0, y1)) = (span(x, w, width, tile_w), span(y, h, height, mcu_h));
        total += (y0..y1).map(|row| sizes[row * tiles + x0..row * tiles + x1].iter().sum::<usize>()).sum::<usize>();
    }
    total as f64 / CROPS as f64
}
