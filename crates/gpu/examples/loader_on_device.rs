//! Loads a dataset onto a GPU through the real loader, and says how fast.
//!
//!     loader_on_device DATASET [--threads N] [--batch N] [--image rrc224|center224|full]
//!                      [--dtype float16|float32|uint8] [--epochs N] [--seconds N] [--fields a,b] [--host]
//!
//! `--host` decodes on the host, for comparison. Prints one JSON object. The first epoch, or the
//! first quarter of the seconds, is not counted.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(clippy::indexing_slicing)]

use shardpack_codec::jpeg::{PixelLayout, Scaling, View};
use shardpack_format::{Dtype, FieldKind};
use shardpack_gpu::CudaStage;
use shardpack_reader::{ArrayDtype, Dataset, ImageMode, Loader, LoaderOptions};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Seconds of processors that this process has used.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return f64::NAN };
    // Behind the name, which may hold anything: user and system time are the 12th and 13th.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn view(text: &str) -> View {
    let split = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let side = || text[split..].parse().expect("a side");
    match &text[..split] {
        "rrc" => View::random_resized_crop(side(), side()).with_flip(0.5),
        "center" => View::center_crop(side() * 8 / 7, side(), side()),
        "full" => View::whole(),
        _ => panic!("expected rrcN, centerN or full, found: {text}"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().expect("a dataset");
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let number = |name: &str, default: u32| value(name).map_or(default, |text| text.parse().expect("a number"));
    let begin = Instant::now();
    let stage = match arguments.iter().any(|a| a == "--host") {
        true => None,
        false => Some(Arc::new(CudaStage::open(0)?)),
    };
    let opened = begin.elapsed();
    let dataset = Dataset::open(path)?;
    let dtype = match value("--dtype").map_or("float16", String::as_str) {
        "float16" => Dtype::F16,
        "float32" => Dtype::F32,
        "uint8" => Dtype::U8,
        other => panic!("expected float16, float32 or uint8, found: {other}"),
    };
    let of_kind = |kind| dataset.schema().fields().iter().filter(move |field| field.kind == kind);
    let mut types: Vec<_> = of_kind(FieldKind::Image).map(|field| (field.name.clone(), dtype)).collect();
    let floats = dtype != Dtype::U8 && !types.is_empty();
    if types.is_empty() && dtype == Dtype::F32 {
        types.extend(of_kind(FieldKind::Array).map(|field| (field.name.clone(), dtype)));
    }
    let epochs = number("--epochs", 1000);
    let seconds = Duration::from_secs(number("--seconds", 8).into());
    let mut loader = Loader::open(
        &dataset,
        LoaderOptions {
            batch_size: number("--batch", 256),
            threads: number("--threads", 0) as usize,
            slots: number("--slots", 3) as usize,
            image: ImageMode::View(view(value("--image").map_or("rrc224", String::as_str))),
            layout: PixelLayout::ChannelsHeightWidth,
            scaling: floats.then(|| Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])),
            dtype: ArrayDtype::Fields(types),
            fields: value("--fields").map(|names| names.split(',').map(str::to_owned).collect()),
            stage: stage.clone().map(|stage| stage as _),
            ..LoaderOptions::default()
        },
    )?;
    let (mut first, mut start, mut samples, mut bytes) = (None, None, 0_u64, 0_u64);
    for epoch in 0..epochs {
        loader.set_epoch(epoch)?;
        while let Some(batch) = loader.next_batch() {
            let batch = batch?;
            first.get_or_insert_with(|| begin.elapsed());
            // What a consumer does, who computes on the default stream.
            batch.used_on(0);
            match start {
                None if epoch > 0 || begin.elapsed() > seconds / 4 => start = Some((Instant::now(), cpu_seconds())),
                None => {}
                Some(_) => {
                    samples += batch.len() as u64;
                    bytes += batch.bytes();
                }
            }
            if begin.elapsed() > seconds {
                break;
            }
        }
        if begin.elapsed() > seconds {
            break;
        }
    }
    let (at, cpu) = start.ok_or("no time to measure: more --seconds or --epochs")?;
    let (wall, cpu) = (at.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let refused = loader.refusals();
    #[expect(clippy::cast_precision_loss, reason = "figures to be read")]
    let (samples, bytes) = (samples as f64, bytes as f64);
    println!(
        "{{\"samples_s\": {:.0}, \"GB_s\": {:.2}, \"cpu_us_a_sample\": {:.1}, \"cores\": {:.2}, \"open_ms\": {}, \
         \"first_batch_ms\": {}, \"device_bytes\": {}, \"grown\": {}, \"refused\": {}}}",
        samples / wall,
        bytes / wall / 1e9,
        cpu / samples * 1e6,
        cpu / wall,
        opened.as_millis(),
        first.map_or(0, |first| first.as_millis()),
        loader.predicted_device_bytes(),
        stage.as_ref().map_or(0, |stage| stage.growths()),
        refused.iter().map(|refusal| refusal.rows).sum::<u64>(),
    );
    for refusal in refused.iter().take(8) {
        println!("refused: {} rows: {}, first {:?}", refusal.rows, refusal.reason, refusal.first);
    }
    Ok(())
}
