//! `--device`, `--mean` and `--std`: where batches are made, and of which floats.

use anyhow::Context;
use serde_json::{Value, json};
use shardpack_format::{Hint, Hinted, Setting};
use shardpack_gpu::CudaStage;
use shardpack_jpeg::Scaling;
use shardpack_loader::Loader;
use shardpack_loader::stage::Stage;
use std::str::FromStr;
use std::sync::Arc;

/// What `--device` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum DeviceArg {
    /// The host decodes.
    Cpu,
    /// A CUDA device decodes, by its number.
    Cuda(u32),
}

impl FromStr for DeviceArg {
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

impl std::fmt::Display for DeviceArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl DeviceArg {
    /// What decodes there; `None` for the host.
    pub(super) fn stage(self) -> anyhow::Result<Option<Arc<dyn Stage>>> {
        let Self::Cuda(number) = self else { return Ok(None) };
        let stage = CudaStage::open(number).map_err(|error| {
            let text = format!("cannot decode on `--device {self}`: {error}");
            Hinted::new(text, Hint::new("without ").and([Setting::named("device")]).then(", the CPU decodes"))
        })?;
        Ok(Some(Arc::new(stage)))
    }
}

/// `(level / 255 − mean) / std`, if one of the two is given. Each is one number, or one for red,
/// green and blue.
pub(super) fn scaling(mean: Option<&[f64]>, std: Option<&[f64]>) -> anyhow::Result<Option<Scaling>> {
    if mean.is_none() && std.is_none() {
        return Ok(None);
    }
    let scaling = Scaling::of(mean.unwrap_or(&[0.0]), std.unwrap_or(&[1.0]));
    Ok(Some(scaling.context("`--mean` and `--std`")?))
}

/// What the device took and refused.
pub(super) fn to_json(loader: &Loader) -> Value {
    let refusals = loader.refusals();
    let refused = refusals.iter().map(|r| json!({ "reason": r.reason, "rows": r.rows, "first": r.first }));
    json!({
        "predicted_bytes": loader.predicted_device_bytes(),
        "resident_values": loader.stats().resident_values,
        "refused": refused.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_frameworks_name_them() {
        let parse = |text: &str| text.parse::<DeviceArg>();
        assert_eq!(parse("cpu"), Ok(DeviceArg::Cpu));
        assert_eq!(parse("cuda"), Ok(DeviceArg::Cuda(0)));
        assert_eq!(parse("cuda:3").unwrap().to_string(), "cuda:3");
        for text in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(parse(text).unwrap_err().contains("expected `cpu`, `cuda` or `cuda:N`"), "{text}");
        }
        assert!(DeviceArg::Cpu.stage().unwrap().is_none());
    }

    #[test]
    fn floats_are_scaled_by_one_number_or_three() {
        assert_eq!(scaling(None, None).unwrap(), None);
        assert_eq!(scaling(Some(&[0.0]), None).unwrap(), Some(Scaling::normalised([0.0; 3], [1.0; 3]).unwrap()));
        let three = Scaling::normalised([0.1, 0.2, 0.3], [0.5; 3]).unwrap();
        assert_eq!(scaling(Some(&[0.1, 0.2, 0.3]), Some(&[0.5])).unwrap(), Some(three));
        for (mean, std) in [(&[0.1, 0.2][..], &[1.0][..]), (&[0.0], &[0.0]), (&[0.0], &[-1.0]), (&[f64::NAN], &[1.0])] {
            assert!(scaling(Some(mean), Some(std)).is_err());
        }
    }
}
