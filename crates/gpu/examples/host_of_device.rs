//! What the host does for a device, measured without one: microseconds of a thread for each sample,
//! staged out of records and of values that stay on the device.
//!
//!     host_of_device DATASET [THREADS] [VIEW] [BATCH]
//!
//! VIEW is `rrc224` by default, `full` for whole pictures and cubes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use shardpack_gpu::DryStage;
use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions};
use std::sync::Arc;
use std::time::Instant;

const LEAST: u64 = 20_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a dataset");
    let threads: usize = args.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let image: ImageMode = args.next().map_or("rrc224".parse(), |view| view.parse()).expect("a view");
    let batch_size = args.next().map_or(256, |rows| rows.parse().expect("rows of a batch"));
    let dataset = Dataset::open(&path).expect("a dataset");
    for resident in [false, true] {
        let stage = Some(Arc::new(DryStage::default()) as _);
        let options =
            LoaderOptions { batch_size, threads, image, stage, resident, slots: 8, ..LoaderOptions::default() };
        let start = Instant::now();
        let mut loader = Loader::open(&dataset, options).expect("a loader");
        let opened = start.elapsed().as_secs_f64();
        let (mut samples, mut start, mut epochs) = (0, Instant::now(), 0);
        let mut before = loader.stats();
        while samples < LEAST {
            while let Some(batch) = loader.next_batch() {
                samples += batch.expect("a batch").len() as u64;
            }
            epochs += 1;
            if epochs == 1 {
                (samples, start, before) = (0, Instant::now(), loader.stats());
            }
            loader.set_epoch(epochs).expect("an epoch");
        }
        let (seconds, stats) = (start.elapsed().as_secs_f64(), loader.stats());
        let each = |seconds: f64| 1e6 * seconds / samples as f64;
        println!(
            "resident {resident}: opened in {opened:.2} s, {:.0} samples/s, {:.2} µs of {threads} threads each, of it \
             {:.2} reading, {:.2} CRC, {:.2} rows; {} of {} rows on the device, {} values resident, {} bytes of the \
             device, {} of the host, refused {:?}",
            samples as f64 / seconds,
            each(seconds * threads as f64),
            each(stats.read_s - before.read_s),
            each(stats.crc_s - before.crc_s),
            each(stats.decode_s - before.decode_s),
            stats.device_rows - before.device_rows,
            samples,
            stats.resident_values,
            loader.predicted_device_bytes(),
            loader.predicted_bytes(),
            loader.refusals().iter().map(|refusal| (refusal.reason.as_str(), refusal.rows)).collect::<Vec<_>>(),
        );
    }
}
