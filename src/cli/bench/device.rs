//! Handles `--device`, `--mean` and `--std`, which set the device for batches and the scaling of float pictures.

use crate::report::DeviceName;
use serde_json::{Value, json};
use shardpack_format::{Hint, Note, Setting};
use shardpack_gpu::CudaStage;
use shardpack_jpeg::Scaling;
use shardpack_loader::Loader;
use shardpack_loader::stage::Stage;
use shardpack_pack::Context;
use std::sync::Arc;

/// Returns the stage that decodes on the device, or `None` to decode on the host.
pub(super) fn stage(device: DeviceName) -> crate::Result<Option<Arc<dyn Stage>>> {
    let DeviceName::Cuda(number) = device else { return Ok(None) };
    let stage = CudaStage::open(number).map_err(|error| {
        let text = format!("cannot decode on {device}: {error}");
        Note::new(text).with_hint(Hint::new("omit ").and([Setting::named("device")]).then(" to decode on the CPU"))
    })?;
    Ok(Some(Arc::new(stage)))
}

/// Returns the scaling `(level / 255 − mean) / std` if `mean` or `std` is given. Each has one number, or three numbers
/// for red, green and blue.
pub(super) fn scaling(mean: Option<&[f64]>, std: Option<&[f64]>) -> crate::Result<Option<Scaling>> {
    if mean.is_none() && std.is_none() {
        return Ok(None);
    }
    let scaling = Scaling::of(mean.unwrap_or(&[0.0]), std.unwrap_or(&[1.0]));
    Ok(Some(scaling.context("`--mean` and `--std`")?))
}

/// Returns the predicted device memory as JSON, and the rows that the device refused to decode, with the reasons.
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
