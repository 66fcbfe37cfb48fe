//! Prints a table of loading rates for cubes stored in three ways, by number of threads and batch size.

use crate::made::{FORMS, cube, write};
use crate::sides::{Side, Stored, measure, stored};
use crate::{Outcome, number, numbers};
use shardpack_array::Coder;
use shardpack_format::{Dtype, shard_name};
use shardpack_loader::{ArrayDtype, LoaderOptions};
use shardpack_reader::Dataset;

const PARTS: &str = "in parts";
const ALONE: &str = "alone";
const READ: &str = "read";

struct Row {
    name: String,
    /// Memory traffic for each cube, in bytes.
    crossing: u64,
    /// For each setting: cubes per second, and milliseconds of CPU time per cube.
    cells: Vec<[f64; 2]>,
}

pub(crate) fn print(mut args: impl Iterator<Item = String>) -> Outcome<()> {
    let cubes: u64 = number(args.next(), 24)?;
    let rounds = number(args.next(), 5)?;
    let threads: Vec<usize> = numbers(args.next(), "1,8,16")?;
    let batches: Vec<u32> = numbers(args.next(), "4,12")?;
    // The batch size does not affect the rate with one thread.
    let sizes = |threads| if threads == 1 { batches.get(..1).unwrap_or_default() } else { &batches };
    let settings = threads.iter().flat_map(|&threads| sizes(threads).iter().map(move |&batch| (threads, batch)));
    let settings: Vec<(usize, u32)> = settings.collect();
    let cube = cube()?;
    println!("{cubes} cubes of {:?} float16, page cache warm, medians of {rounds} rounds", cube.shape());
    println!("cubes a second (ms of processor time each), by threads × batch; what crosses memory, as computed");
    for form in FORMS {
        let folder = tempfile::tempdir()?;
        let shard = folder.path().join(shard_name(0));
        write(&shard, cubes, &cube, form)?;
        let dataset = Dataset::open(&shard)?;
        let stored = stored(&dataset)?;
        let bytes = stored.iter().map(|stored| stored.record_bytes as u64).sum::<u64>() / cubes;
        println!("\n{form}: {:.1} MB stored", bytes as f64 / 1e6);
        let rows = rows(&dataset, &stored, [bytes, cube.bytes().len() as u64], &settings, rounds)?;
        print_rows(&rows, &settings);
        print_ratios(&rows, if form.coder == Coder::Raw { READ } else { ALONE });
    }
    Ok(())
}

/// Measures the rows of the table. `stored` and `decoded` are the sizes of a cube in bytes.
fn rows(
    dataset: &Dataset,
    all: &[Stored],
    [stored, decoded]: [u64; 2],
    settings: &[(usize, u32)],
    rounds: usize,
) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for &(threads, batch_size) in settings {
        let plain = || LoaderOptions::default().batch_size(batch_size).threads(threads);
        let single = plain().dtype(ArrayDtype::Cubes(Dtype::F32.into()));
        let whole = plain().part_bytes(usize::MAX);
        let mut sides = [
            Side::loader(PARTS, dataset, plain())?.crossing(stored + decoded),
            Side::loader("in parts, to float32", dataset, single)?.crossing(stored + 2 * decoded),
            // The stored bytes are moved four times: to the page cache, to the buffer, to the CRC32 and to the decoder.
            Side::loader("one thread a record", dataset, whole)?.crossing(4 * stored + decoded),
            Side::alone(ALONE, all, threads).crossing(stored + decoded),
            Side::read(READ, all, threads).crossing(2 * stored),
            Side::read_checked("read + CRC32", all, threads).crossing(2 * stored),
        ];
        measure(&mut sides, rounds)?;
        let new = |side: &Side<'_>| Row { name: side.name.clone(), crossing: side.crossing, cells: Vec::new() };
        rows.extend(sides.iter().skip(rows.len()).map(new));
        for (row, side) in rows.iter_mut().zip(&sides) {
            row.cells.push(side.medians(all.len()));
        }
    }
    Ok(rows)
}

fn print_rows(rows: &[Row], settings: &[(usize, u32)]) {
    let heads = settings.iter().map(|(threads, batch)| format!("{:>16}", format!("{threads} × {batch}")));
    println!("{:21}{}   MB a cube (GB a second at most)", "", heads.collect::<String>());
    for Row { name, crossing, cells } in rows {
        let texts = cells.iter().map(|[rate, cpu]| format!("{:>16}", format!("{rate:.1} ({cpu:.1})")));
        let most = cells.iter().map(|[rate, _]| *rate).fold(0.0, f64::max);
        let megabytes = *crossing as f64 / 1e6;
        println!("{name:21}{}   {megabytes:.0} ({:.1})", texts.collect::<String>(), megabytes * most / 1e3);
    }
}

fn print_ratios(rows: &[Row], yardstick: &str) {
    let of = |name: &str| rows.iter().find(|row| row.name == name).map_or(&[][..], |row| &row.cells);
    let ratios = of(PARTS).iter().zip(of(yardstick)).map(|([rate, _], [most, _])| format!("{:>16.2}", rate / most));
    println!("{:21}{}", format!("{PARTS} ÷ {yardstick}"), ratios.collect::<String>());
}
