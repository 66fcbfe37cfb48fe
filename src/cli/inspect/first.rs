//! Reads facts from the first record that the indexes lack: how arrays are stored, and the
//! wavelengths of the bands.

use super::span::Span;
use crate::cli::show;
use serde_json::{Value, json};
use shardpack_format::{ArrayDescriptor, Codec, FieldKind, Layout, Transform};
use shardpack_reader::Sample;

const AXES: [&str; 3] = ["height", "width", "channels"];

pub(super) struct ArrayFacts {
    pub(super) field: String,
    descriptor: ArrayDescriptor,
    codec: Codec,
    /// Minimum and maximum length of each axis over all samples, or `None` if only the first sample is known.
    range: Option<Vec<(u64, u64)>>,
}

pub(super) struct Wavelengths {
    count: usize,
    first: f64,
    last: f64,
    unit: Option<String>,
}

impl ArrayFacts {
    /// Returns the array fields that have a value in `sample`. `spans` are the ranges of the scalar fields.
    pub(super) fn of(sample: &Sample, spans: &[Span]) -> crate::Result<Vec<Self>> {
        let view = sample.view();
        let mut out = Vec::new();
        for field in view.schema().stored().filter(|f| f.kind == FieldKind::Array) {
            let Some(value) = view.field(&field.name)? else { continue };
            let descriptor = view.descriptor(&field.name)?;
            // The shape columns describe this field if they match this sample's descriptor.
            let axis = |(name, length): (&&str, &u64)| {
                let same = view.scalar(name).ok()?.as_i64().and_then(|n| u64::try_from(n).ok()) == Some(*length);
                let (min, max) = spans.iter().find(|s| s.field.name == **name).filter(|_| same)?.range?;
                Some((u64::try_from(min.as_i64()?).ok()?, u64::try_from(max.as_i64()?).ok()?))
            };
            let range = AXES.iter().zip(&descriptor.shape).map(axis).collect::<Option<Vec<_>>>();
            let range = range.filter(|axes| axes.len() == descriptor.shape.len());
            out.push(Self { field: field.name.clone(), descriptor, codec: value.codec, range });
        }
        Ok(out)
    }

    /// Formats the shape, such as `[64 to 128, 64, 224]`.
    pub(super) fn shape_text(&self) -> String {
        let text = |(min, max): (u64, u64)| if min == max { min.to_string() } else { format!("{min} to {max}") };
        let axes = |axes: Vec<String>| format!("[{}]", axes.join(", "));
        match &self.range {
            Some(range) => axes(range.iter().copied().map(text).collect()),
            None => axes(self.descriptor.shape.iter().map(u64::to_string).collect()) + " in the first sample",
        }
    }

    /// Formats how the array is stored, such as `float32 as float16, blosc2, band-major`. Describes only the first
    /// sample, because the element types are not in the index.
    pub(super) fn stored_text(&self) -> String {
        let d = &self.descriptor;
        let mut text = format!("{} as {}, {}", d.decoded, d.stored, self.codec.name());
        if let Transform::Fixed { bits, .. } = d.transform {
            text += &format!(", fixed point of {bits} bits");
        }
        if d.layout == Layout::BandMajor {
            text += ", band-major";
        }
        if d.band_difference {
            text += ", band difference";
        }
        text
    }

    pub(super) fn to_json(&self) -> Value {
        let d = &self.descriptor;
        json!({
            "shape": self.range.as_ref().map(|axes| json!({
                "min": axes.iter().map(|(min, _)| *min).collect::<Vec<_>>(),
                "max": axes.iter().map(|(_, max)| *max).collect::<Vec<_>>(),
            })),
            "first_sample": {
                "dtype": d.decoded,
                "shape": d.shape,
                "stored_dtype": d.stored,
                "codec": self.codec.name(),
                "layout": if d.layout == Layout::BandMajor { "band-major" } else { "as shape" },
                "band_difference": d.band_difference,
                "lossless": d.is_lossless(),
                "no_data": d.no_data,
            },
        })
    }
}

impl Wavelengths {
    /// Returns the list `wavelengths` of the first JSON field in `sample` that has one.
    pub(super) fn of(sample: &Sample) -> crate::Result<Option<Self>> {
        let view = sample.view();
        for field in view.schema().stored().filter(|f| f.kind == FieldKind::Json) {
            if view.field(&field.name)?.is_none() {
                continue;
            }
            if let Ok(meta) = serde_json::from_slice::<Value>(&view.bytes(&field.name)?)
                && let Some(found) = Self::in_meta(&meta)
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn in_meta(meta: &Value) -> Option<Self> {
        let list = meta.get("wavelengths")?.as_array()?;
        let known = || list.iter().filter_map(Value::as_f64);
        Some(Self {
            count: list.len(),
            first: known().min_by(f64::total_cmp)?,
            last: known().max_by(f64::total_cmp)?,
            unit: meta.get("wavelength_units").and_then(Value::as_str).map(str::to_owned),
        })
    }

    pub(super) fn to_text(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!(" {}", show::plain(unit))).unwrap_or_default();
        format!("{} from {} to {}{unit}, in the first sample", self.count, self.first, self.last)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "count": self.count, "min": self.first, "max": self.last, "unit": self.unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wavelengths_say_how_many_and_from_where_to_where() {
        let text = |meta: Value| Wavelengths::in_meta(&meta).map(|w| w.to_text());
        let meta = json!({ "wavelengths": [500.5, null, 410, 900], "wavelength_units": "nm" });
        assert_eq!(text(meta).unwrap(), "4 from 410 to 900 nm, in the first sample");
        assert_eq!(text(json!({ "wavelengths": [1.5] })).unwrap(), "1 from 1.5 to 1.5, in the first sample");
        for none in [json!({}), json!({ "wavelengths": [] }), json!({ "wavelengths": ["red"] }), json!(3)] {
            assert_eq!(text(none), None);
        }
    }
}
