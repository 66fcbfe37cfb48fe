//! Stores the fidelity figures of each record in scalar columns, and their totals in the manifest.
//!
//! An array field that a value rule may alter has one scalar field per figure, named `<field>.<figure>`. These
//! fields can be read without the record, and the totals can be rebuilt from them if the manifest is lost.

use super::summary::{AnglePercentiles, ArraySummary};
use serde::{Deserialize, Serialize};
use shardpack_array::Fidelity;
use shardpack_format::{Dtype, Error, Field, FieldKind, Schema};
use std::collections::BTreeMap;

struct Figure {
    name: &'static str,
    dtype: Dtype,
    get: fn(&Fidelity) -> [u8; 8],
    set: fn(&mut Fidelity, [u8; 8]),
}

macro_rules! figures {
    ($($name:ident: $dtype:ident as $type:ty),* $(,)?) => {
        const FIGURES: &[Figure] = &[$(Figure {
            name: stringify!($name),
            dtype: Dtype::$dtype,
            get: |f| f.$name.to_le_bytes(),
            set: |f, bytes| f.$name = <$type>::from_le_bytes(bytes),
        }),*];
    };
}

figures! {
    values: U64 as u64,
    nan: U64 as u64,
    no_data: U64 as u64,
    infinite: U64 as u64,
    clipped: U64 as u64,
    subnormal: U64 as u64,
    changed: U64 as u64,
    measured: U64 as u64,
    max_abs_error: F64 as f64,
    sum_abs_error: F64 as f64,
    max_rel_error: F64 as f64,
    spectra: U64 as u64,
    max_angle: F64 as f64,
    sum_angle: F64 as f64,
}

/// Returns the scalar fields for the figures of array field `field`.
#[must_use]
pub fn fields(field: &str) -> Vec<Field> {
    FIGURES.iter().map(|f| Field::scalar(format!("{field}.{}", f.name), f.dtype)).collect()
}

pub(crate) fn no_columns(schema: &Schema, field: &str) -> Error {
    let name = field.escape_debug();
    Error::usage(match schema.fields().iter().any(|known| known.name == field) {
        true => format!(
            "the schema has the field `{name}`, but lacks a column that shardpack adds for it, such as `height`"
        ),
        false => format!("the schema has no field `{name}`"),
    })
}

/// Returns true if `name` is one of the scalar fields that [`fields`] adds for an array field of this schema. A
/// user's own column `my.nan` does not count, because `my` would need all the other figures too, with their
/// types.
#[must_use]
pub fn is_figure(schema: &Schema, name: &str) -> bool {
    figure(name).is_some_and(|(field, _)| fields_with_figures(schema).any(|known| known == field))
}

pub(crate) fn has_figures(schema: &Schema, field: &str) -> bool {
    fields_with_figures(schema).any(|known| known == field)
}

fn figure(name: &str) -> Option<(&str, &'static Figure)> {
    let (field, figure) = name.rsplit_once('.')?;
    Some((field, FIGURES.iter().find(|f| f.name == figure)?))
}

fn fields_with_figures(schema: &Schema) -> impl Iterator<Item = &str> {
    let has = |field: &str, wanted: &Figure| {
        schema.scalars().any(|(name, dtype)| {
            let figure = name.strip_prefix(field).and_then(|rest| rest.strip_prefix('.'));
            figure == Some(wanted.name) && dtype == wanted.dtype
        })
    };
    let arrays = schema.stored().filter(|field| field.kind == FieldKind::Array).map(|field| field.name.as_str());
    arrays.filter(move |field| FIGURES.iter().all(|figure| has(field, figure)))
}

/// Appends the figures of one sample as packed scalars.
pub fn append(out: &mut Vec<u8>, fidelity: &Fidelity) {
    FIGURES.iter().for_each(|f| out.extend((f.get)(fidelity)));
}

/// Figures of one array field, accumulated over many samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Sums and maxima over all samples.
    pub figures: Fidelity,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that decode to exactly the bits of the source.
    pub equal_samples: u64,
    /// Key of the sample with the largest absolute error, if there are errors.
    pub worst_sample: Option<String>,
}

impl Totals {
    /// Returns the figures of one sample.
    #[must_use]
    pub fn of(key: &str, figures: Fidelity) -> Self {
        let mut totals = Self::default();
        totals.add(key, &figures);
        totals
    }

    /// Adds the totals of samples that come later in stored order.
    pub fn merge(&mut self, next: Self) {
        if next.figures.max_abs_error > self.figures.max_abs_error {
            self.worst_sample = next.worst_sample;
        }
        self.figures.merge(&next.figures);
        self.samples += next.samples;
        self.equal_samples += next.equal_samples;
    }

    /// Adds the figures of one sample. For reproducible sums, samples must be added in stored order.
    pub fn add(&mut self, key: &str, figures: &Fidelity) {
        if figures.max_abs_error > self.figures.max_abs_error {
            self.worst_sample = Some(key.to_owned());
        }
        self.figures.merge(figures);
        self.samples += 1;
        self.equal_samples += u64::from(figures.changed == 0);
    }

    /// Returns the field's manifest entry.
    #[must_use]
    pub fn summary(&self) -> ArraySummary {
        let f = &self.figures;
        ArraySummary {
            samples: self.samples,
            equal_samples: self.equal_samples,
            values: f.values,
            changed: f.changed,
            nan: f.nan,
            no_data: f.no_data,
            infinite: f.infinite,
            clipped: f.clipped,
            subnormal: f.subnormal,
            max_abs_error: f.max_abs_error,
            measured: f.measured,
            mean_abs_error: f.mean_abs_error(),
            max_rel_error: f.max_rel_error,
            spectra: f.spectra,
            mean_angle_rad: f.mean_angle(),
            max_angle_rad: f.max_angle,
            angle_percentiles_rad: percentiles(f),
            worst_sample: self.worst_sample.clone(),
        }
    }
}

/// Returns percentiles of the spectral angle, or `None` if the angle of some spectra was not measured.
fn percentiles(figures: &Fidelity) -> Option<AnglePercentiles> {
    let of = |percent| Some(figures.angles.percentile(percent)?.min(figures.max_angle));
    let is_whole = figures.angles.len() == figures.spectra;
    let found = || Some(AnglePercentiles { p50: of(50)?, p95: of(95)?, p99: of(99)? });
    is_whole.then(found).flatten()
}

/// Extracts the figures of each array field from a record's packed scalars.
#[must_use]
pub fn from_scalars(schema: &Schema, packed: &[u8]) -> BTreeMap<String, Fidelity> {
    let known: Vec<&str> = fields_with_figures(schema).collect();
    let mut out: BTreeMap<String, Fidelity> = BTreeMap::new();
    for (name, _, range) in schema.scalar_ranges() {
        let Some(value) = packed.get(range) else {
            debug_assert!(false, "{} bytes of scalars, without `{name}`", packed.len());
            break;
        };
        if let Some((field, figure)) = figure(name).filter(|(field, _)| known.contains(field))
            && let Some(bytes) = value.first_chunk()
        {
            (figure.set)(out.entry(field.to_owned()).or_default(), *bytes);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_user_are_no_figures() {
        let schema = |more: Vec<Field>| {
            let mut all = vec![Field::stored("cube", FieldKind::Array), Field::stored("mask", FieldKind::Array)];
            all.extend(fields("cube"));
            all.extend(more);
            Schema::new(all).unwrap()
        };
        let all = schema(vec![
            Field::scalar("my.nan", Dtype::U64),
            Field::scalar("mask.max_abs_error", Dtype::F64),
            Field::scalar("cube.mean", Dtype::F64),
            Field::scalar("nan", Dtype::U64),
        ]);
        let figures: Vec<&str> = all.scalars().map(|(name, _)| name).filter(|name| is_figure(&all, name)).collect();
        let expected: Vec<String> = fields("cube").into_iter().map(|f| f.name).collect();
        assert_eq!(figures, expected);
        // Restoring a manifest must not mistake the user's columns for figures either.
        let mut packed = Vec::new();
        append(&mut packed, &Fidelity { nan: 5, max_abs_error: 0.5, ..Fidelity::default() });
        packed.extend([1; 8 * 4]);
        let found = from_scalars(&all, &packed);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["cube"]);
        assert_eq!(found["cube"], Fidelity { nan: 5, max_abs_error: 0.5, ..Fidelity::default() });
        let picture = Schema::new([vec![Field::stored("cube", FieldKind::Image)], fields("cube")].concat()).unwrap();
        assert!(!is_figure(&picture, "cube.nan"));
    }

    #[test]
    fn percentiles_of_angles_stand_where_every_pixel_was_measured() {
        // Storing three-band spectra as float16 changes their directions slightly.
        let source: Vec<f32> = (1..900_u16).map(|i| 0.1 + f32::from(i * 37 % 1000) * 1e-3).take(300).collect();
        let bytes = source.iter().flat_map(|value| value.to_le_bytes()).collect();
        let cube = shardpack_array::Array::new(Dtype::F32, vec![10, 10, 3], bytes).unwrap();
        let settings = shardpack_array::ArraySettings {
            values: shardpack_array::ValueRule::F16,
            coder: shardpack_array::Coder::Raw,
            level: None,
            filter: shardpack_array::Filter::None,
            band_difference: false,
            layout: shardpack_array::ArrayLayout::AsShape,
        };
        let encoded = shardpack_array::ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
        let mut totals = Totals::of("a", encoded.fidelity);
        totals.merge(Totals::of("b", encoded.fidelity));
        let (summary, angles) = (totals.summary(), totals.summary().angle_percentiles_rad.unwrap());
        assert_eq!(summary.spectra, 200);
        assert!(0.0 < angles.p50 && angles.p50 <= angles.p95 && angles.p95 <= angles.p99);
        assert!(angles.p99 <= summary.max_angle_rad, "{angles:?}");
        // Records do not store angles, so figures that were read from a record lack them.
        let read_back = Fidelity { angles: shardpack_array::Angles::default(), ..encoded.fidelity };
        totals.merge(Totals::of("c", read_back));
        assert_eq!(totals.summary().angle_percentiles_rad, None);
    }
}
