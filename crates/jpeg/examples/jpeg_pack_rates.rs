//! Times tiling and re-encoding of photos in one thread, compared with a bare loop of libjpeg-turbo calls.
//! Also checks that no pixel is lost.
//!
//! `cargo run --release -p shardpack-jpeg --example jpeg_pack_rates -- FOLDER [rounds]`
//!
//! With `alone tile|reencode THREADS` in place of the rounds, it runs only the bare loop over all photos, on
//! that many threads, and prints the time in seconds. `benches/pack_jpeg.py` compares against this time.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a program for developers"
)]

#[path = "shared/photos.rs"]
mod photos;

use shardpack_jpeg::{JpegReencoder, JpegTiler, PixelCheck, Quality, ReencodeOptions, TileOptions, TileOutcome};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use turbojpeg_sys as sys;

const QUALITY: u8 = 85;

fn main() {
    let folder = std::env::args().nth(1).expect("a folder of JPEGs");
    let photos: Vec<Vec<u8>> = photos::jpegs(&folder).iter().map(|path| std::fs::read(path).unwrap()).collect();
    let source: usize = photos.iter().map(Vec::len).sum();
    let rounds: u32 = match std::env::args().nth(2).as_deref() {
        None => 3,
        Some("alone") => return alone(&photos),
        Some(n) => n.parse().expect("a number of rounds"),
    };

    let (mut tiler, mut check, mut out) = (JpegTiler::new(), PixelCheck::new(), Vec::new());
    let options = TileOptions::default();
    let (mut tiled, mut equal, mut stored, mut intervals) = (0, 0, 0, Vec::new());
    for photo in &photos {
        out.clear();
        let done = tiler.tile(photo, &options, &mut out).unwrap();
        stored += out.len();
        equal += usize::from(check.same(photo, &out, done.applied, &options.limits).unwrap());
        intervals.push(match done.outcome {
            TileOutcome::Tiled { interval, .. } => {
                tiled += 1;
                i32::from(interval)
            }
            TileOutcome::Kept(_) => 0,
        });
    }
    println!(
        "{} photos, {tiled} tiled, pixels equal: {equal}; bytes {:.4} of the source",
        photos.len(),
        ratio(stored, source)
    );

    // Alternate between the two ways for each photo, so that other work on the machine affects both alike.
    let bare = Bare::new();
    let (mut tile, mut bare_tile) = (Duration::ZERO, Duration::ZERO);
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let before = (tile, bare_tile);
        for (photo, &interval) in photos.iter().zip(&intervals) {
            bare_tile += time(|| bare.transform(photo, interval));
            tile += time(|| {
                out.clear();
                tiler.tile(photo, &options, &mut out).unwrap();
            });
        }
        ratios.push((bare_tile - before.1).as_secs_f64() / (tile - before.0).as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!("tile: median ratio of {rounds} rounds {:.2} ({:.2?})", ratios[ratios.len() / 2], ratios);
    let mut reencoder = JpegReencoder::new();
    let options = ReencodeOptions { quality: Quality::Fixed(QUALITY), ..Default::default() };
    let (mut reencode, mut bare_reencode, mut pixels) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let (mut encoded, mut smaller) = (0, 0);
    for round in 0..rounds {
        for photo in &photos {
            let mut interval = 0;
            reencode += time(|| {
                out.clear();
                let done = reencoder.reencode(photo, &options, false, &mut out).unwrap();
                if let (Some(_), TileOutcome::Tiled { interval: k, .. }) = (done.reencoded, done.outcome) {
                    interval = i32::from(k);
                }
            });
            if round == 0 {
                encoded += u32::from(interval != 0);
                smaller += out.len();
            }
            if interval == 0 {
                continue;
            }
            bare_reencode += time(|| bare.reencode(photo, interval, &mut pixels));
        }
    }
    println!(
        "quality {QUALITY}: {encoded} encoded, the rest tiled; bytes {:.4} of the source\n",
        ratio(smaller, source)
    );
    println!("| | photos/s, one thread | libjpeg-turbo in a bare loop | ratio |\n|---|---|---|---|");
    let count = photos.len() as f64 * f64::from(rounds);
    show("tile", count, tile, count, bare_tile);
    show("re-encode", count, reencode, f64::from(encoded) * f64::from(rounds), bare_reencode);
}

/// Runs the bare loop on several threads, as an upper limit for the speed of packing.
fn alone(photos: &[Vec<u8>]) {
    let mut arguments = std::env::args().skip(3);
    let what = arguments.next().expect("tile or reencode");
    let threads: usize = arguments.next().expect("a number of threads").parse().expect("a number of threads");
    let mut tiler = JpegTiler::new();
    let interval = |photo: &Vec<u8>| match tiler.tile(photo, &TileOptions::default(), &mut Vec::new()).unwrap().outcome
    {
        TileOutcome::Tiled { interval, .. } => i32::from(interval),
        TileOutcome::Kept(_) => 0,
    };
    let intervals: Vec<i32> = photos.iter().map(interval).collect();
    let next = AtomicUsize::new(0);
    let elapsed = time(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let (bare, mut pixels) = (Bare::new(), Vec::new());
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(photo) = photos.get(i) else { break };
                        match what.as_str() {
                            "tile" => bare.transform(photo, intervals[i]),
                            "reencode" => bare.reencode(photo, intervals[i], &mut pixels),
                            other => panic!("expected tile or reencode, found {other}"),
                        }
                    }
                });
            }
        });
    });
    println!("{}", elapsed.as_secs_f64());
}

fn show(name: &str, count: f64, time: Duration, bare_count: f64, bare: Duration) {
    let (rate, bare_rate) = (count / time.as_secs_f64(), bare_count / bare.as_secs_f64());
    println!("| {name} | {rate:.0} | {bare_rate:.0} | {:.2} |", rate / bare_rate);
}

fn ratio(a: usize, b: usize) -> f64 {
    a as f64 / b as f64
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Calls libjpeg-turbo directly.
struct Bare {
    transformer: sys::tjhandle,
    decoder: sys::tjhandle,
    encoder: sys::tjhandle,
}

impl Bare {
    fn new() -> Self {
        let init = |role: u32| {
            // SAFETY: no preconditions.
            let handle = unsafe { sys::tj3Init(role.cast_signed()) };
            assert!(!handle.is_null());
            handle
        };
        Self {
            transformer: init(sys::TJINIT_TJINIT_TRANSFORM),
            decoder: init(sys::TJINIT_TJINIT_DECOMPRESS),
            encoder: init(sys::TJINIT_TJINIT_COMPRESS),
        }
    }

    fn transform(&self, jpeg: &[u8], interval: i32) {
        let options = sys::TJXOPT_OPTIMIZE | sys::TJXOPT_COPYNONE;
        let transform = sys::tjtransform {
            r: sys::tjregion { x: 0, y: 0, w: 0, h: 0 },
            op: sys::TJXOP_TJXOP_NONE.cast_signed(),
            options: options.cast_signed(),
            data: std::ptr::null_mut(),
            customFilter: None,
        };
        let (mut bytes, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: the handle lives as long as the program. `jpeg` is a live slice. There is one transform,
        // one pointer (null: the library allocates) and one length.
        unsafe {
            set(self.transformer, sys::TJPARAM_TJPARAM_RESTARTBLOCKS, interval);
            let status = sys::tj3Transform(
                self.transformer,
                jpeg.as_ptr(),
                jpeg.len() as _,
                1,
                &raw mut bytes,
                &raw mut len,
                &raw const transform,
            );
            assert_eq!(status, 0);
            sys::tj3Free(bytes.cast());
        }
    }

    fn reencode(&self, jpeg: &[u8], interval: i32, pixels: &mut Vec<u8>) {
        let (mut bytes, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: as above. `pixels` has the size from the header of these bytes, at 3 bytes per pixel.
        unsafe {
            assert_eq!(sys::tj3DecompressHeader(self.decoder, jpeg.as_ptr(), jpeg.len() as _), 0);
            let get = |parameter: u32| sys::tj3Get(self.decoder, parameter.cast_signed());
            let (width, height) = (get(sys::TJPARAM_TJPARAM_JPEGWIDTH), get(sys::TJPARAM_TJPARAM_JPEGHEIGHT));
            let subsampling = get(sys::TJPARAM_TJPARAM_SUBSAMP);
            pixels.resize(width as usize * height as usize * 3, 0);
            let rgb = sys::TJPF_TJPF_RGB;
            let status = sys::tj3Decompress8(self.decoder, jpeg.as_ptr(), jpeg.len() as _, pixels.as_mut_ptr(), 0, rgb);
            assert_eq!(status, 0);
            set(self.encoder, sys::TJPARAM_TJPARAM_QUALITY, i32::from(QUALITY));
            set(self.encoder, sys::TJPARAM_TJPARAM_SUBSAMP, subsampling);
            set(self.encoder, sys::TJPARAM_TJPARAM_OPTIMIZE, 1);
            set(self.encoder, sys::TJPARAM_TJPARAM_RESTARTBLOCKS, interval);
            let status =
                sys::tj3Compress8(self.encoder, pixels.as_ptr(), width, 0, height, rgb, &raw mut bytes, &raw mut len);
            assert_eq!(status, 0);
            sys::tj3Free(bytes.cast());
        }
    }
}

/// # Safety
/// `handle` must be alive.
unsafe fn set(handle: sys::tjhandle, parameter: u32, value: i32) {
    // SAFETY: the caller guarantees that `handle` is alive.
    assert_eq!(unsafe { sys::tj3Set(handle, parameter.cast_signed(), value) }, 0);
}
