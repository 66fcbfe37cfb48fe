//! `shardpack bench --stream`: measures how fast records can be read in stored order, without the loader.

use super::args::BenchArgs;
use super::report::{network_json, network_text};
use super::system;
use crate::cli::exit_status::ExitStatus;
use crate::cli::{show, units};
use serde_json::json;
use shardpack_format::FieldKind;
use shardpack_reader::{ArrayDecoder, Dataset, RecordView, Sample};
use std::time::Instant;

#[derive(Default, Clone, Copy)]
struct Pass {
    samples: u64,
    read_bytes: u64,
    /// Total size of the decoded arrays in bytes. No other fields are decoded.
    decoded_bytes: u64,
    seconds: f64,
}

pub(super) fn run(args: &BenchArgs) -> crate::Result<ExitStatus> {
    let dataset = args.dataset.open(args.max_record)?;
    let decodes = args.decode && dataset.schema().stored().any(|f| f.kind == FieldKind::Array);
    if args.decode && !decodes {
        show::note(
            "note: nothing is decoded, because the dataset has no arrays and `--decode` leaves pictures encoded",
        );
    }
    let mut passes = Vec::new();
    for _ in 0..args.epochs {
        if args.cold {
            system::drop_page_cache(&dataset)?;
        }
        let start = Instant::now();
        let mut pass = if decodes {
            decode(&dataset, args.threads.unwrap_or_else(shardpack_io::cores).max(1))?
        } else {
            stream(&dataset)?
        };
        pass.seconds = start.elapsed().as_secs_f64().max(1e-9);
        passes.push(pass);
    }
    passes.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let median = passes.get(passes.len() / 2).copied().unwrap_or_default();
    let rate = |n: u64| n as f64 / median.seconds;
    if args.json {
        show::json(&json!({
            "samples": median.samples,
            "seconds": median.seconds,
            "samples_per_s": rate(median.samples),
            "read_mb_per_s": rate(median.read_bytes) / 1e6,
            "decoded_mb_per_s": decodes.then(|| rate(median.decoded_bytes) / 1e6),
            "epochs": args.epochs,
            "cold": args.cold,
            "decode": decodes,
            "network": network_json(&dataset.traffic()),
        }))?;
    } else {
        let cache = if args.cold { "cold" } else { "warm" };
        let decoded = if decodes {
            format!(", arrays decoded to {:.0} MB/s", rate(median.decoded_bytes) / 1e6)
        } else {
            String::new()
        };
        show::print(
            &(format!(
                "streamed {} in {}: {:.0} samples/s, {:.0} MB/s read{decoded} ({cache}, median of {})\n",
                units::plural(median.samples, "sample"),
                units::seconds(median.seconds),
                rate(median.samples),
                rate(median.read_bytes) / 1e6,
                passes_text(args.epochs),
            ) + &network_text(&dataset.traffic())),
        )?;
    }
    Ok(ExitStatus::Fine)
}

fn passes_text(n: u32) -> String {
    format!("{} {}", units::count(u64::from(n)), if n == 1 { "pass" } else { "passes" })
}

fn stream(dataset: &Dataset) -> crate::Result<Pass> {
    let mut pass = Pass::default();
    let mut stream = dataset.stream()?;
    while let Some(record) = stream.next_record() {
        pass.samples += 1;
        pass.read_bytes += record?.record_bytes().len() as u64;
    }
    Ok(pass)
}

/// Decodes arrays on `threads` threads into reused buffers.
fn decode(dataset: &Dataset, threads: usize) -> crate::Result<Pass> {
    let (send, receive) = crossbeam_channel::bounded::<Sample>(threads);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let receive = receive.clone();
                scope.spawn(move || -> crate::Result<Pass> {
                    let (mut pass, mut decoder, mut out) = (Pass::default(), ArrayDecoder::new(), Vec::new());
                    for sample in receive {
                        pass.samples += 1;
                        pass.read_bytes += sample.record_bytes().len() as u64;
                        pass.decoded_bytes += decode_sample(&sample.view(), &mut decoder, &mut out)?;
                    }
                    Ok(pass)
                })
            })
            .collect();
        drop(receive);
        for sample in dataset.iter()? {
            if send.send(sample?).is_err() {
                break;
            }
        }
        drop(send);
        let mut total = Pass::default();
        for worker in workers {
            let pass = worker.join().map_err(|_| {
                crate::Error::from("a worker thread panicked: this is a bug in shardpack, please report it")
            })??;
            total.samples += pass.samples;
            total.read_bytes += pass.read_bytes;
            total.decoded_bytes += pass.decoded_bytes;
        }
        Ok(total)
    })
}

/// Decodes the arrays of a sample, and returns their size in bytes.
fn decode_sample(view: &RecordView<'_>, decoder: &mut ArrayDecoder, out: &mut Vec<u8>) -> crate::Result<u64> {
    let mut bytes = 0;
    for field in view.schema().stored().filter(|f| f.kind == FieldKind::Array) {
        if view.field(&field.name)?.is_some() {
            out.resize(usize::try_from(view.descriptor(&field.name)?.decoded_bytes()?)?, 0);
            view.array_into(&field.name, decoder, out)?;
            bytes += out.len() as u64;
        }
    }
    Ok(bytes)
}
