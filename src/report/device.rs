//! Measures how fast a device decodes the candidates.

use shardpack_gpu::CudaStage;
use shardpack_gpu::GpuError;
use shardpack_loader::order::Weighted;
use shardpack_loader::{Dataset, Loader, LoaderOptions};
use shardpack_pack::report::DecodingDevice;
use shardpack_pack::{Context, bail};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: u64 = 256;
const BATCH_BYTES: u64 = 512 << 20;
const BATCHES: u64 = 32;
/// A measurement repeats batches for at least this time.
const WHILE: Duration = Duration::from_millis(300);

/// The device that decodes pictures and arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceName {
    Cpu,
    /// The CUDA device with this index.
    Cuda(u32),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text {
            "cpu" => return Ok(Self::Cpu),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
        };
        number.map(Self::Cuda).ok_or_else(|| format!("expected `cpu`, `cuda` or `cuda:N`, found `{text}`"))
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// Returns the requested device, or the first one by default.
pub(super) fn found(asked: Option<DeviceName>) -> crate::Result<Option<Arc<dyn DecodingDevice>>> {
    let number = match asked {
        Some(DeviceName::Cpu) => return Ok(None),
        Some(DeviceName::Cuda(number)) => number,
        None => 0,
    };
    match CudaStage::open(number) {
        Ok(stage) => {
            let name = stage.device().properties().name.clone();
            Ok(Some(Arc::new(Cuda { name, stage: Arc::new(stage) })))
        }
        Err(GpuError::NoDriver | GpuError::NoDevice { .. }) if asked.is_none() => Ok(None),
        Err(error) => Err(crate::Error::other(error).context(format!("cannot decode on cuda:{number}"))),
    }
}

#[derive(Debug)]
struct Cuda {
    name: String,
    stage: Arc<CudaStage>,
}

impl DecodingDevice for Cuda {
    fn name(&self) -> &str {
        &self.name
    }

    /// Measures the rate of decoding whole samples. Their encoded bytes stay on the device, so neither the disk nor the
    /// bus affects the rate.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64> {
        let dataset = Dataset::open(dataset)?;
        let options = options(&dataset)?;
        let mut loader = Loader::open(&dataset, options.stage(Arc::clone(&self.stage) as _).resident(true))?;
        rate(&mut loader)
    }
}

/// Returns options for a loader whose epochs are long even if there are few samples.
fn options(dataset: &Dataset) -> crate::Result<LoaderOptions> {
    let first = dataset.schema().stored().next().context("the dataset has no field to decode")?;
    let sample = dataset.get(0)?;
    let value = sample.field(&first.name)?.with_context(|| format!("the first sample has no `{}`", first.name))?;
    // For a picture, `decoded_bytes` is its stored size, about a tenth of the size of its pixels.
    let batch = (BATCH_BYTES / value.decoded_bytes.max(1)).clamp(1, BATCH);
    let weights = vec![1.0; usize::try_from(dataset.len())?];
    Ok(LoaderOptions::default()
        .batch_size(u32::try_from(batch)?)
        .sampling(Arc::new(Weighted::by_sample(&weights, 0)?.draws(batch * BATCHES)))
        .fields([first.name.clone()])
        .slots(LoaderOptions::default_slots(true)))
}

/// Measures the rate after a warm-up epoch.
fn rate(loader: &mut Loader) -> crate::Result<f64> {
    let mut start = Instant::now();
    let mut samples = 0_u64;
    for epoch in 0.. {
        loader.set_epoch(epoch)?;
        let mut here = 0_u64;
        while let Some(batch) = loader.next_batch() {
            here += batch?.len() as u64;
        }
        if here == 0 {
            bail!("internal error: the loader delivered no batches while the decoding rate was being measured");
        }
        if epoch == 0 {
            start = Instant::now();
            continue;
        }
        samples += here;
        if start.elapsed() >= WHILE {
            break;
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a count for a rate")]
    Ok(samples as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_array::Array;
    use shardpack_format::Dtype;
    use shardpack_pack::npy;
    use shardpack_pack::pack::{Hooks, PackOptions, pack};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn devices_are_named_as_frameworks_name_them() {
        let parse = |text: &str| text.parse::<DeviceName>();
        assert_eq!(parse("cpu"), Ok(DeviceName::Cpu));
        assert_eq!(parse("cuda"), Ok(DeviceName::Cuda(0)));
        assert_eq!(parse("cuda:3").unwrap().to_string(), "cuda:3");
        for text in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(parse(text).unwrap_err().contains("expected `cpu`, `cuda` or `cuda:N`"), "{text}");
        }
    }

    #[test]
    fn a_device_that_was_not_asked_for_need_not_be_there() {
        assert!(found(Some(DeviceName::Cpu)).unwrap().is_none());
        match found(None).unwrap() {
            Some(device) => assert!(!device.name().is_empty()),
            None => {
                assert!(found(Some(DeviceName::Cuda(0))).unwrap_err().to_string().contains("cannot decode on cuda:0"))
            }
        }
    }

    #[test]
    fn few_samples_make_long_epochs() {
        // This test decodes on the host, with the same options but without a stage.
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("in");
        std::fs::create_dir(&source).unwrap();
        let cube = Array::new(Dtype::U8, vec![2, 3, 4], vec![7; 24]).unwrap();
        std::fs::write(source.join("a.npy"), [npy::header(&cube), cube.bytes().to_vec()].concat()).unwrap();
        let out = folder.path().join("out");
        let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &AtomicBool::new(false) };
        pack(&source, &out, &PackOptions::default(), &hooks).unwrap();
        let dataset = Dataset::open(&out).unwrap();
        let mut loader = Loader::open(&dataset, options(&dataset).unwrap()).unwrap();
        assert!(rate(&mut loader).unwrap() > 0.0);
        assert!(loader.stats().samples >= 2 * BATCHES, "{:?}", loader.stats());
    }
}
