//! Measures the loader on large records, which are decoded either in parts or by one thread each. For
//! comparison, also measures the limits of the machine on the same records.
//!
//! `large_rate DATASET [THREADS [BATCH [ROUNDS [WANTED]]]]` measures a dataset with one array in each record.
//! `WANTED` selects the conversion of the arrays: `stored` (default, none), `normalised` (mean and standard deviation
//! of each band, bfloat16), `first` (bands first), `flipped` (at random), `patch` (64 × 64 pixels).
//!
//! `large_rate table [CUBES [ROUNDS [THREADS [BATCHES]]]]` writes datasets of `CUBES` cubes each (default 24,
//! at most 3.3 GB at a time) to the temporary folder. It prints a table of cubes stored in three ways, with
//! 1, 8 and 16 threads and batches of 4 and 12. Lists are written as `1,8,16`.
//!
//! `cargo build --release -p shardpack-loader --example large_rate` builds a program that runs without cargo:
//! `target/release/examples/large_rate`.
//!
//! Results are medians of `ROUNDS` rounds (default 5) after a warm-up round. Each round runs all sides in turn, and
//! loaders continue from epoch to epoch. *alone* decodes payloads in memory, one per thread. It does not undo the
//! differences between bands, convert types, read files, or check CRCs. *read* only reads the records, with the same
//! number of threads and one buffer per thread. *read, one thread* does the same with a single thread. CPU time is
//! least affected by other programs.
#![allow(clippy::print_stdout, reason = "a program")]

#[allow(unused, reason = "the clock is for others")]
#[path = "../../../array/examples/shared/cube.rs"]
mod cube;
mod made;
mod sides;
mod table;

use shardpack_format::ElementType;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::{ArrayDtype, Augment, CubeMode, Factors, LoaderOptions, PatchPlace};
use shardpack_reader::Dataset;
use sides::{Side, measure, stored};
use std::error::Error;
use std::path::Path;
use std::str::FromStr;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    match args.next().ok_or("usage: large_rate DATASET|table [ARGUMENTS]")?.as_str() {
        "table" => table::print(args),
        path => print(Path::new(path), args),
    }
}

fn print(path: &Path, mut args: impl Iterator<Item = String>) -> Outcome<()> {
    let threads = number(args.next(), std::thread::available_parallelism()?.get())?;
    let batch = number(args.next(), 4)?;
    let rounds = number(args.next(), 5)?;
    let wanted = args.next().unwrap_or_else(|| "stored".into());
    let dataset = Dataset::open(path)?;
    let stored = stored(&dataset)?;
    let load = |name, part_bytes| {
        let options = options(&wanted)?.batch_size(batch).threads(threads).part_bytes(part_bytes);
        Side::loader(name, &dataset, options)
    };
    let mut sides = [
        load("loader, one thread a record", usize::MAX)?,
        load("loader, parts of 256 KiB", 256 << 10)?,
        load("loader, parts by default", LoaderOptions::default().resources.part_bytes)?,
        load("loader, parts of 4 MiB", 4 << 20)?,
        Side::alone("alone", &stored, threads),
        Side::read("read", &stored, threads),
        Side::read("read, one thread", &stored, 1),
    ];
    measure(&mut sides, rounds)?;
    let count = stored.len();
    let megabytes = stored.iter().map(|stored| stored.record_bytes).sum::<usize>() as f64 / 1e6 / count as f64;
    println!("{count} records of {megabytes:.1} MB, {threads} threads, batches of {batch}, median of {rounds}");
    for side in &sides {
        let [rate, cpu] = side.medians(count);
        println!("{:30} {rate:8.1} a second {cpu:8.2} ms of processor time each", side.name);
    }
    Ok(())
}

fn number<T: FromStr>(text: Option<String>, default: T) -> Result<T, T::Err> {
    text.map_or(Ok(default), |text| text.parse())
}

fn numbers<T: FromStr>(text: Option<String>, default: &str) -> Result<Vec<T>, T::Err> {
    text.as_deref().unwrap_or(default).split(',').map(str::parse).collect()
}

fn options(wanted: &str) -> Outcome<LoaderOptions> {
    let plain = LoaderOptions::default();
    Ok(match wanted {
        "stored" => plain,
        "normalised" => {
            let factors = Factors::new(&[0.5], &[2.0])?;
            let normalise = vec![("cube".to_owned(), factors)];
            plain.normalise(normalise).dtype(ArrayDtype::Cubes(ElementType::Bf16))
        }
        "first" => plain.layout(PixelLayout::ChannelsHeightWidth),
        "flipped" => {
            let augment = Augment { flip_rows: true, flip_columns: true, rotate: false, ..Augment::default() };
            plain.augment(augment)
        }
        "patch" => {
            let cube = CubeMode::Patch { height: 64, width: 64, place: PatchPlace::Random };
            plain.cube(cube)
        }
        other => return Err(format!("`{other}`: expected stored, normalised, first, flipped or patch").into()),
    })
}
