//! Measures the costs and benefits of restart intervals on real photos, for the table in
//! docs/adr/0006-restart-interval.md.
//!
//! `cargo run --release -p shardpack-jpeg --example restart_intervals -- FOLDER [MOST_PHOTOS] [--csv]`
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

const CROPS: u64 = 24;

struct Photo {
    source: usize,
    columns: u32,
    rows: u32,
    blocks: u32,
    /// Measurements for two kinds of intervals: all divisors of the MCU row, and all intervals of up to 48 blocks.
    measured: Vec<Measured>,
}

struct Measured {
    interval: u32,
    bytes: usize,
    /// Mean total size of the segments that a crop needs, in bytes.
    needed: f64,
    segments: usize,
}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder of JPEGs");
    let most = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let csv = std::env::args().any(|a| a == "--csv");
    let mut tiler = JpegTiler::new();
    let mut photos = Vec::new();
    let mut refused = 0;
    let paths = photos::jpegs(&folder);
    let step = paths.len().div_ceil(most.max(1)).max(1);
    for (n, path) in paths.iter().enumerate().step_by(step) {
        match measure(&mut tiler, &std::fs::read(path).unwrap(), n as u64) {
            Some(photo) => photos.push(photo),
            None => refused += 1,
        }
    }
    println!("{} photos, {refused} more that are not tiled", photos.len());
    if csv {
        println!("photo,source,columns,rows,blocks,interval,bytes,needed,segments");
        for (n, p) in photos.iter().enumerate() {
            for Measured { interval, bytes, needed, segments } in &p.measured {
                let Photo { source, columns, rows, blocks, .. } = p;
                println!("{n},{source},{columns},{rows},{blocks},{interval},{bytes},{needed:.0},{segments}");
            }
        }
        return;
    }
    println!("| rule | size / source | needed / source | can be cut | segments a photo | longest | largest growth |");
    println!("|---|---|---|---|---|---|---|");
    show("whole rows", &photos, |p| p.columns);
    let nearest = |p: &Photo, target: u32, most: u32| {
        (3..=most).filter(|k| p.columns.is_multiple_of(*k)).min_by_key(|k| k.abs_diff(target)).unwrap_or(p.columns)
    };
    show("divisor in 3..=16 nearest to 8, else row", &photos, |p| nearest(p, 8, 16));
    show("always 1 MCU", &photos, |_| 1);
    for blocks in [6, 12, 18, 24, 48] {
        show(&format!("always {blocks} blocks"), &photos, |p| p.of_blocks(blocks));
    }
    for blocks in [12, 16, 24] {
        show(&format!("divisor of {blocks} / 1.5 to {blocks} · 1.5 blocks, else {blocks}"), &photos, |p| {
            let fits =
                |k: &u32| p.columns.is_multiple_of(*k) && (blocks * 2..=blocks * 9 / 2).contains(&(k * p.blocks * 3));
            (1..=p.columns).filter(fits).min_by_key(|k| (k * p.blocks).abs_diff(blocks)).unwrap_or(p.of_blocks(blocks))
        });
    }
    show("before: divisors by the model", &photos, |p| p.model(|k| p.columns.is_multiple_of(k), 1.0));
    for (longest, divisor) in [(48, 1.04), (24, 1.0), (24, 1.02), (24, 1.04), (24, 1.08), (18, 1.04), (12, 1.04)] {
        let rule = format!("model, at most {longest} blocks, divisors may cost {:.0} % more", (divisor - 1.0) * 100.0);
        show(&rule, &photos, |p| p.model(|k| k * p.blocks <= longest || k == 1, divisor));
    }
    show("`restart_interval`", &photos, |p| u32::from(restart_interval(p.columns, p.rows, p.blocks, p.source)));
}

impl Photo {
    /// Returns the interval with about `blocks` blocks per segment.
    fn of_blocks(&self, blocks: u32) -> u32 {
        (blocks / self.blocks).clamp(1, self.columns)
    }

    /// Chooses an interval with the model of [`restart_interval`], but with different constants.
    fn model(&self, fits: impl Fn(u32) -> bool, divisor: f64) -> u32 {
        let mcu_bytes = self.source as f64 / (f64::from(self.columns) * f64::from(self.rows));
        let cost = |k: u32| {
            let touched = (0.68 + 0.75 * f64::from(k) / f64::from(self.columns)).min(1.0);
            let weight = if self.columns.is_multiple_of(k) { 1.0 } else { divisor };
            (mcu_bytes + 8.0 / f64::from(k)) * (1.25 + touched) * weight
        };
        let all = self.measured.iter().map(|m| m.interval).filter(|&k| fits(k));
        all.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).expect("an interval")
    }
}

fn show(rule: &str, photos: &[Photo], choose: impl Fn(&Photo) -> u32) {
    let (mut source, mut bytes, mut needed, mut cut, mut segments) = (0, 0, 0.0, 0, 0);
    let (mut longest, mut growth) = (0, 0.0_f64);
    for photo in photos {
        let k = choose(photo);
        let found = photo.measured.iter().find(|m| m.interval == k).expect("an interval that was measured");
        source += photo.source;
        bytes += found.bytes;
        needed += found.needed;
        cut += usize::from(k < photo.columns && photo.columns.is_multiple_of(k));
        segments += found.segments;
        longest = longest.max(k * photo.blocks);
        growth = growth.max(found.bytes as f64 / photo.source as f64 - 1.0);
    }
    let n = photos.len();
    println!(
        "| {rule} | {:.4} | {:.3} | {:.1} % | {} | {longest} | {:.1} % |",
        bytes as f64 / source as f64,
        needed / source as f64,
        100.0 * cut as f64 / n as f64,
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
            TileOutcome::Tiled { interval, segments, .. } => Some((interval, segments)),
            TileOutcome::Kept(_) => None,
        }
    };
    let (columns, rows) = tile(Interval::Row, &mut out)?;
    let columns = u32::from(columns);
    let header = JpegHeader::parse(&out).unwrap();
    let blocks = match header.components() {
        [_] => 1,
        all => all.iter().map(|c| u32::from(c.h) * u32::from(c.v)).sum(),
    };
    let mut measured = Vec::new();
    for k in (1..=columns).filter(|k| columns.is_multiple_of(*k) || k * blocks <= 48) {
        tile(Interval::Mcus(k as u16), &mut out)?;
        let header = JpegHeader::parse(&out).unwrap();
        let sizes = segments(&out[header.scan_offset as usize..]);
        assert_eq!(sizes.len(), (columns * rows).div_ceil(k) as usize);
        let needed = mean_needed(&header, &sizes, columns as usize, k as usize, n) + header.scan_offset as f64 + 2.0;
        measured.push(Measured { interval: k, bytes: out.len(), needed, segments: sizes.len() });
    }
    Some(Photo { source: jpeg.len(), columns, rows, blocks, measured })
}

/// Returns the size of each restart segment in bytes, including the marker after it.
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

/// Returns the mean size of the segments that random resized crops (scale 0.08–1, ratio 3/4–4/3) need, in
/// bytes. The crops are extended by a pixel on each side.
fn mean_needed(header: &JpegHeader, sizes: &[usize], columns: usize, k: usize, photo: u64) -> f64 {
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
        let span = |start: f64, len: f64, whole: f64, mcu: f64| {
            ((((start - 1.0).max(0.0)) / mcu) as usize, ((start + len + 1.0).min(whole) / mcu).ceil() as usize)
        };
        let ((x0, x1), (y0, y1)) = (span(x, w, width, mcu_w), span(y, h, height, mcu_h));
        let mut next = 0;
        for row in y0..y1 {
            let (first, last) = ((row * columns + x0) / k, (row * columns + x1 - 1) / k);
            total += sizes[first.max(next)..=last].iter().sum::<usize>();
            next = last + 1;
        }
    }
    total as f64 / CROPS as f64
}
