//! Times the decoding of pictures into slots on one core: JPEGs from a folder, the same pictures tiled in memory, and
//! the JPEGs with a segment index.
//!
//! ```text
//! cargo run --release -p shardpack-jpeg --example jpeg_rates -- FOLDER [MOST_FILES] [ROUNDS]
//! ```
//!
//! Each round decodes all pictures in every way. The output is the median over the rounds of the thread's processor
//! time. "Bare" is libjpeg-turbo's own call in a loop, with a reused handle and buffer. "libjpeg-turbo" is this
//! library without its own decoder. Speeds are relative to libjpeg-turbo on whole pictures.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    reason = "a program to run by hand, and the call that is to be compared with"
)]

#[path = "shared/clock.rs"]
mod clock;

use clock::now;
use shardpack_format::Limits;
use shardpack_jpeg::{
    DecodePaths, DrawKey, JpegDecoder, JpegTiler, PixelLayout, Rendering, SegmentIndexer, TileOptions, View,
};
use std::error::Error;
use std::path::PathBuf;
use turbojpeg_sys as sys;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Calls libjpeg-turbo directly.
struct Bare {
    handle: sys::tjhandle,
    pixels: Vec<u8>,
}

impl Bare {
    fn new() -> Self {
        // SAFETY: no preconditions.
        Self { handle: unsafe { sys::tj3Init(sys::TJINIT_TJINIT_DECOMPRESS.cast_signed()) }, pixels: Vec::new() }
    }

    fn decode(&mut self, jpeg: &[u8], (height, width): (u32, u32)) -> Result<()> {
        let needed = height as usize * width as usize * 3;
        if self.pixels.len() < needed {
            self.pixels.resize(needed, 0);
        }
        // SAFETY: the handle is alive. The buffer has room for all rows of the picture, whose size was read
        // from the same bytes.
        let status = unsafe {
            let pixels = self.pixels.as_mut_ptr();
            sys::tj3Decompress8(self.handle, jpeg.as_ptr(), jpeg.len() as _, pixels, 0, sys::TJPF_TJPF_RGB)
        };
        if status != 0 {
            return Err("libjpeg-turbo refuses a picture".into());
        }
        Ok(())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and is not used after this.
        unsafe { sys::tj3Destroy(self.handle) }
    }
}

struct Picture {
    source: Vec<u8>,
    tiled: Vec<u8>,
    index: Option<Vec<u8>>,
    size: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Source,
    Tiled,
    Indexed,
}

impl Picture {
    fn form(&self, form: Form) -> (&[u8], Option<&[u8]>) {
        match form {
            Form::Source => (&self.source, None),
            Form::Tiled => (&self.tiled, None),
            Form::Indexed => (&self.source, self.index.as_deref()),
        }
    }
}

fn load(folder: &str, most: usize) -> Result<Vec<Picture>> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|e| format!("folder `{}`: {e}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"))
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let mut decoder = JpegDecoder::new(&Limits::default());
    let (mut tiler, mut indexer) = (JpegTiler::new(), SegmentIndexer::new());
    let mut pictures = Vec::new();
    for path in paths.iter().take(most) {
        let source = std::fs::read(path)?;
        let size = decoder.size_of(&source, 1)?;
        let mut tiled = Vec::new();
        tiler.tile(&source, &TileOptions::default(), &mut tiled)?;
        let mut index = Vec::new();
        let segments = indexer.index(&source, &Limits::default(), &mut index)?;
        pictures.push(Picture { source, tiled, index: segments.map(|_| index), size });
    }
    if pictures.is_empty() {
        return Err(format!("no JPEG in folder `{folder}`").into());
    }
    Ok(pictures)
}

/// Decodes all pictures of an epoch and returns the number of bytes passed to the decoder.
type Run = Box<dyn FnMut(&[Picture], u64) -> Result<u64>>;

struct Way {
    name: &'static str,
    run: Run,
    seconds: Vec<f64>,
    handed: u64,
}

fn through(name: &'static str, form: Form, paths: DecodePaths, view: View, layout: PixelLayout) -> Way {
    let mut decoder = JpegDecoder::with_paths(&Limits::default(), paths);
    let mut slot = Vec::new();
    let run = move |pictures: &[Picture], epoch: u64| -> Result<u64> {
        let mut handed = 0;
        for (sample, picture) in (0..).zip(pictures) {
            let (height, width) = view.size().unwrap_or(picture.size);
            slot.resize(height as usize * width as usize * 3, 0);
            let how = Rendering { view, key: DrawKey { seed: 1, epoch, sample }, orientation: 1, layout };
            let (jpeg, index) = picture.form(form);
            handed += decoder.decode_indexed(jpeg, index, &how, &mut slot)?.handed_bytes as u64;
        }
        if decoder.wrong_indexes() > 0 {
            return Err("a segment index was not used".into());
        }
        Ok(handed)
    };
    Way { name, run: Box::new(run), seconds: Vec::new(), handed: 0 }
}

fn bare(name: &'static str, form: Form) -> Way {
    let mut decoder = Bare::new();
    let run = move |pictures: &[Picture], _| -> Result<u64> {
        for picture in pictures {
            decoder.decode(picture.form(form).0, picture.size)?;
        }
        Ok(pictures.iter().map(|picture| picture.form(form).0.len() as u64).sum())
    };
    Way { name, run: Box::new(run), seconds: Vec::new(), handed: 0 }
}

fn ways() -> Vec<Way> {
    let (hwc, chw) = (PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth);
    let on = DecodePaths::default();
    let whole = DecodePaths { partial: false, ..on };
    let turbo = |paths: DecodePaths| DecodePaths { own_decoder: false, ..paths };
    let random = View::random_resized_crop(224).with_flip(0.5);
    let centre = View::center_crop(256, 224);
    vec![
        bare("whole, bare, source", Form::Source),
        through("whole, source", Form::Source, on, View::whole(), hwc),
        through("whole, source, indexed", Form::Indexed, on, View::whole(), hwc),
        bare("whole, bare, tiled", Form::Tiled),
        through("whole, tiled", Form::Tiled, on, View::whole(), hwc),
        through("whole, tiled, libjpeg-turbo", Form::Tiled, turbo(on), View::whole(), hwc),
        through("random 224, source, decoded whole, libjpeg-turbo", Form::Source, turbo(whole), random, hwc),
        through("random 224, source, decoded whole", Form::Source, whole, random, hwc),
        through("random 224, source", Form::Source, on, random, hwc),
        through("random 224, source, indexed", Form::Indexed, on, random, hwc),
        through("random 224, tiled", Form::Tiled, on, random, hwc),
        through("random 224, tiled, libjpeg-turbo", Form::Tiled, turbo(on), random, hwc),
        through("random 224, tiled, planes", Form::Tiled, on, random, chw),
        through("centre 224 of 256, source, decoded whole, libjpeg-turbo", Form::Source, turbo(whole), centre, hwc),
        through("centre 224 of 256, source, indexed", Form::Indexed, on, centre, hwc),
        through("centre 224 of 256, tiled", Form::Tiled, on, centre, hwc),
        through("centre 224 of 256, tiled, libjpeg-turbo", Form::Tiled, turbo(on), centre, hwc),
    ]
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: jpeg_rates FOLDER [MOST_FILES] [ROUNDS]")?;
    let most = args.next().map_or(Ok(usize::MAX), |n| n.parse())?;
    let rounds: u64 = args.next().map_or(Ok(5), |n| n.parse())?;
    let pictures = load(&folder, most)?;
    let source: u64 = pictures.iter().map(|p| p.source.len() as u64).sum();
    let tiled: u64 = pictures.iter().map(|p| p.tiled.len() as u64).sum();
    let indexes = || pictures.iter().filter_map(|p| p.index.as_deref());
    let (indexed, index_bytes) = (indexes().count(), indexes().map(|index| index.len() as u64).sum::<u64>());
    println!("{} pictures, {source} bytes, tiled {tiled} bytes, medians of {rounds} rounds", pictures.len());
    println!("{indexed} segment indexes, {index_bytes} bytes");

    let mut ways = ways();
    // The first round is a warm-up and does not count.
    for round in 0..=rounds {
        for way in &mut ways {
            let start = now();
            let handed = (way.run)(&pictures, round)?;
            if round > 0 {
                way.seconds.push(now() - start);
                way.handed += handed;
            }
        }
    }
    let base = |name: &str, ways: &mut [Way]| {
        ways.iter_mut().find(|way| way.name == name).map_or(f64::NAN, |way| median(&mut way.seconds))
    };
    let bases = [
        ("whole, source", base("whole, bare, source", &mut ways)),
        ("whole, tiled", base("whole, bare, tiled", &mut ways)),
        ("random", base("random 224, source, decoded whole, libjpeg-turbo", &mut ways)),
        ("centre", base("centre 224 of 256, source, decoded whole, libjpeg-turbo", &mut ways)),
    ];
    println!("{:<50} {:>9} {:>9} {:>8} {:>8}", "", "µs each", "images/s", "speed", "bytes");
    for way in &mut ways {
        let seconds = median(&mut way.seconds);
        let base = bases.iter().find(|(name, _)| way.name.starts_with(name)).map_or(seconds, |(_, base)| *base);
        let each = seconds / pictures.len() as f64;
        let share = way.handed as f64 / (rounds * source) as f64;
        println!("{:<50} {:>9.1} {:>9.0} {:>8.3} {:>8.3}", way.name, each * 1e6, 1.0 / each, base / seconds, share);
    }
    Ok(())
}
