//! Measures how much thread time the host spends per sample while a device decodes, in microseconds. This needs no
//! device. Samples are staged from records, and from values kept on the device.
//!
//!     host_of_device DATASET [THREADS] [VIEW] [BATCH] [TIMES] [cuda | dry] [FRAMES]
//!
//! VIEW is `rrc224` (default) for crops in normalised float16, `full` for whole pictures, or `cubes` for cubes as
//! float32. The dataset is repeated TIMES times, so that start and end do not dominate the epoch of a small dataset.
//! With `cuda`, the first device decodes, and the example measures the whole loader. FRAMES, such as `window16`,
//! chooses the frames of clips.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use shardpack_gpu::{CudaStage, DryStage};
use shardpack_loader::stage::Stage;
use shardpack_loader::{ArrayDtype, Dataset, Dtype, FrameMode, ImageMode, Loader, LoaderOptions, PixelLayout, Scaling};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum measuring time. The example times whole epochs, after one warm-up epoch.
const LEAST: Duration = Duration::from_secs(2);

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a dataset");
    let threads: usize = args.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let view = args.next().unwrap_or_else(|| "rrc224".to_owned());
    let batch_size = args.next().map_or(256, |rows| rows.parse().expect("rows of a batch"));
    let times = args.next().map_or(1, |times| times.parse().expect("how many times"));
    let on_device = args.next().is_some_and(|word| word == "cuda");
    let frames: FrameMode = args.next().map_or_else(FrameMode::default, |text| text.parse().expect("frames"));
    let dataset = vec![Dataset::open(&path).expect("a dataset"); times];
    let dataset = Dataset::concat(&dataset).expect("a dataset, several times");
    let normalised = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).expect("factors");
    let (image, dtype, scaling) = match &*view {
        "cubes" => ("full", ArrayDtype::Cubes(Dtype::F32.into()), None),
        "full" => ("full", ArrayDtype::Source, None),
        crops => (crops, ArrayDtype::Cubes(Dtype::F16.into()), Some(normalised)),
    };
    let image: ImageMode = image.parse().expect("a view");
    for resident in [false, true] {
        let stage: Arc<dyn Stage> = match on_device {
            true => Arc::new(CudaStage::open(0).expect("a device")),
            false => Arc::new(DryStage::default()),
        };
        let options = {
            let mut options = LoaderOptions::default()
                .batch_size(batch_size)
                .threads(threads)
                .image(image)
                .frames(frames)
                .dtype(dtype.clone())
                .layout(PixelLayout::ChannelsHeightWidth)
                .stage(stage)
                .resident(resident)
                .slots(8);
            options.output.scaling = scaling;
            options
        };
        let start = Instant::now();
        let mut loader = Loader::open(&dataset, options).expect("a loader");
        let opened = start.elapsed().as_secs_f64();
        let (mut samples, mut start, mut epochs) = (0, Instant::now(), 0);
        let mut before = loader.stats();
        while epochs < 2 || start.elapsed() < LEAST {
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
