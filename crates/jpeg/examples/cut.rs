//! Times cutting JPEGs that are tiled as by the packer, and prints the share of their bytes that a cut keeps. The JPEGs
//! come from a folder and are held in memory. The rectangles are typical random resized crops (scale 0.08 to 1). The
//! program uses one core.
//!
//! `cargo run --release -p shardpack-jpeg --example cut -- FOLDER [ROUNDS]`
#![allow(clippy::print_stdout, clippy::cast_possible_truncation, reason = "an example that prints figures")]

use shardpack_jpeg::{CutKind, CutPlan, JpegHeader, JpegTiler, Rect, Sampling, TileOptions, TileOutcome};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of repetitions of each cut. The best time counts, because other work on the machine only makes times
/// longer.
const REPEATS: u32 = 5;

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn crop(&mut self, width: u32, height: u32) -> Rect {
        for _ in 0..10 {
            let area = f64::from(width) * f64::from(height) * (0.08 + 0.92 * self.unit());
            let ratio = ((4.0_f64 / 3.0).ln() * (2.0 * self.unit() - 1.0)).exp();
            let (w, h) = ((area * ratio).sqrt().round() as u32, (area / ratio).sqrt().round() as u32);
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let x = (self.unit() * f64::from(width - w + 1)) as u32;
                let y = (self.unit() * f64::from(height - h + 1)) as u32;
                return Rect { x, y, width: w, height: h };
            }
        }
        Rect::whole(width, height)
    }
}

#[derive(Default)]
struct Figures {
    cuts: u64,
    tiles: u64,
    whole: u64,
    source_bytes: u64,
    cut_bytes: u64,
    /// Total size in bytes of the sources that were cut, without sources that were copied whole.
    scanned_bytes: u64,
    scanned: u64,
    time: Duration,
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files(&path, found)?,
            false => found.push(path),
        }
    }
    found.sort();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: cut FOLDER [ROUNDS]")?;
    let rounds: u32 = arguments.next().map_or(Ok(5), |n| n.parse())?;
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths)?;
    let (mut tiler, mut kept, mut source_bytes) = (JpegTiler::new(), 0_u32, 0_usize);
    let mut pictures = Vec::new();
    for path in &paths {
        let (source, mut tiled) = (fs::read(path)?, Vec::new());
        match tiler.tile(&source, &TileOptions::default(), &mut tiled) {
            Ok(done) => kept += u32::from(matches!(done.outcome, TileOutcome::Kept(_))),
            Err(error) => {
                println!("left out: `{}`: {error}", path.display());
                continue;
            }
        }
        source_bytes += source.len();
        pictures.push(tiled);
    }
    let tiled_bytes: usize = pictures.iter().map(Vec::len).sum();
    println!(
        "{} pictures, {source_bytes} bytes; {kept} of them kept, the others tiled: {tiled_bytes} bytes",
        pictures.len()
    );
    let mut random = Random(1);
    let mut out = Vec::new();
    let mut figures = BTreeMap::<&str, Figures>::new();
    for _ in 0..rounds {
        for jpeg in &pictures {
            let Ok(header) = JpegHeader::parse(jpeg) else { continue };
            let rect = random.crop(header.width.into(), header.height.into());
            let mut time = Duration::MAX;
            let mut kind = CutKind::Whole;
            for _ in 0..REPEATS {
                let start = Instant::now();
                let header = JpegHeader::parse(jpeg)?;
                let plan = CutPlan::new(jpeg, &header, rect)?;
                kind = plan.cut().kind;
                if kind != CutKind::Whole {
                    plan.write(&mut out)?;
                }
                time = time.min(start.elapsed());
            }
            let name = match header.sampling() {
                Sampling::Gray => "gray",
                Sampling::S444 => "4:4:4",
                Sampling::S422 => "4:2:2",
                Sampling::S420 => "4:2:0",
                _ => "other",
            };
            for name in [name, "together"] {
                let sum = figures.entry(name).or_default();
                sum.cuts += 1;
                sum.tiles += u64::from(kind == CutKind::Tiles);
                sum.whole += u64::from(kind == CutKind::Whole);
                sum.source_bytes += jpeg.len() as u64;
                if kind == CutKind::Whole {
                    sum.cut_bytes += jpeg.len() as u64;
                } else {
                    sum.cut_bytes += out.len() as u64;
                    sum.scanned_bytes += jpeg.len() as u64;
                    sum.scanned += 1;
                    sum.time += time;
                }
            }
        }
    }
    println!("sampling     cuts  by tiles    whole  bytes ÷ tiled  µs per cut  GB/s of tiled");
    for (name, f) in figures {
        let share = |n: u64| 100.0 * n as f64 / f.cuts as f64;
        let seconds = f.time.as_secs_f64();
        println!(
            "{name:8} {:8} {:7.1} % {:6.1} % {:15.3} {:11.2} {:15.2}",
            f.cuts,
            share(f.tiles),
            share(f.whole),
            f.cut_bytes as f64 / f.source_bytes as f64,
            1e6 * seconds / f.scanned.max(1) as f64,
            f.scanned_bytes as f64 / seconds.max(1e-9) / 1e9,
        );
    }
    Ok(())
}
