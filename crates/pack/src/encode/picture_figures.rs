//! Stores the figures of each picture in scalar columns, and their totals in the manifest. The
//! columns of the field `image`:
//!
//! | column | dtype | |
//! |---|---|---|
//! | `image.source_bytes` | u64 | size of the source file |
//! | `image.tiles_per_row` | u16 | restart segments per row of MCUs, rounded up; 1 = full width; 0 = stored unchanged |
//! | `image.pixels_checked` | bool | decoded and found equal to the source |
//! | `image.quality` | u8 | encoder quality; 0 = not re-encoded. Only with `reencode` |
//! | `image.score` | f32 | SSIMULACRA2 against the source; NaN = not scored. Only with `reencode` |

use super::summary::{PictureSummary, SpreadSummary};
use serde::{Deserialize, Serialize};
use shardpack_format::{Dtype, Field, FieldKind, Schema};
use shardpack_jpeg::Reencoding;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PictureFigures {
    pub(crate) source_bytes: u64,
    pub(crate) tiles_per_row: u16,
    pub(crate) pixels_checked: bool,
    /// Figures of re-encoding. `None` if pictures are never re-encoded.
    pub(crate) reencoded: Option<ReencodedFigures>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ReencodedFigures {
    pub(crate) quality: u8,
    pub(crate) score: f32,
}

impl ReencodedFigures {
    /// Figures of a picture that was not re-encoded.
    pub(super) const NONE: Self = Self { quality: 0, score: f32::NAN };

    pub(super) fn of(encoded: Option<Reencoding>) -> Self {
        let Some(Reencoding { quality, score }) = encoded else { return Self::NONE };
        #[allow(clippy::cast_possible_truncation, reason = "a score has three digits")]
        let score = score.map_or(f32::NAN, |score| score as f32);
        Self { quality, score }
    }
}

const TILED: [(&str, Dtype); 3] =
    [("source_bytes", Dtype::U64), ("tiles_per_row", Dtype::U16), ("pixels_checked", Dtype::Bool)];
const REENCODED: [(&str, Dtype); 2] = [("quality", Dtype::U8), ("score", Dtype::F32)];

pub(crate) fn fields(field: &str, reencode: bool) -> Vec<Field> {
    let more = if reencode { REENCODED.as_slice() } else { &[] };
    TILED.iter().chain(more).map(|&(name, dtype)| Field::scalar(format!("{field}.{name}"), dtype)).collect()
}

/// Returns true if `name` is `<field>.<column>`.
fn is_column(name: &str, field: &str, column: &str) -> bool {
    name.strip_prefix(field).and_then(|rest| rest.strip_prefix('.')) == Some(column)
}

fn has(schema: &Schema, field: &str, columns: &[(&str, Dtype)]) -> bool {
    let has = |column, wanted| schema.scalars().any(|(name, dtype)| dtype == wanted && is_column(name, field, column));
    columns.iter().all(|&(column, dtype)| has(column, dtype))
}

fn fields_with_figures(schema: &Schema) -> impl Iterator<Item = &str> {
    let pictures = schema.stored().filter(|field| field.kind == FieldKind::Image).map(|field| field.name.as_str());
    pictures.filter(|field| has(schema, field, &TILED))
}

/// Returns true if the schema has columns for this figure of the field `field` and for all other figures of its group.
pub(crate) fn has_figure(schema: &Schema, field: &str, figure: &str) -> bool {
    is_figure(schema, &format!("{field}.{figure}"))
}

/// Returns true if `name` is one of the fields that [`fields`] adds, and the schema has all of them with the
/// right types.
pub(crate) fn is_figure(schema: &Schema, name: &str) -> bool {
    let Some((field, column)) = name.rsplit_once('.') else { return false };
    let among = |columns: &[(&str, Dtype)]| columns.iter().any(|(known, _)| *known == column);
    fields_with_figures(schema).any(|known| known == field)
        && (among(&TILED) || (among(&REENCODED) && has(schema, field, &REENCODED)))
}

impl PictureFigures {
    /// Appends the figures of one sample as packed scalars.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.extend(self.source_bytes.to_le_bytes());
        out.extend(self.tiles_per_row.to_le_bytes());
        out.push(u8::from(self.pixels_checked));
        if let Some(reencoded) = &self.reencoded {
            out.push(reencoded.quality);
            out.extend(reencoded.score.to_le_bytes());
        }
    }

    /// Extracts the figures of each picture field from a record's packed scalars.
    pub(crate) fn from_scalars(schema: &Schema, packed: &[u8]) -> BTreeMap<String, Self> {
        let figures = |field: &str| Some((field.to_owned(), Self::of_field(schema, field, packed)?));
        fields_with_figures(schema).filter_map(figures).collect()
    }

    fn of_field(schema: &Schema, field: &str, packed: &[u8]) -> Option<Self> {
        let value = |column: &str| {
            let (name, _, range) = schema.scalar_ranges().find(|(name, ..)| is_column(name, field, column))?;
            let value = packed.get(range);
            debug_assert!(value.is_some(), "{} bytes of scalars, without `{name}`", packed.len());
            value
        };
        let reencoded = has(schema, field, &REENCODED).then(|| {
            Some(ReencodedFigures {
                quality: *value("quality")?.first()?,
                score: f32::from_le_bytes(*value("score")?.first_chunk()?),
            })
        });
        Some(Self {
            source_bytes: u64::from_le_bytes(*value("source_bytes")?.first_chunk()?),
            tiles_per_row: u16::from_le_bytes(*value("tiles_per_row")?.first_chunk()?),
            pixels_checked: *value("pixels_checked")?.first()? != 0,
            reencoded: reencoded.flatten(),
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Spread {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.merge(&Self { count: 1, sum: value, min: value, max: value });
    }

    fn merge(&mut self, next: &Self) {
        if self.count == 0 || next.count == 0 {
            if self.count == 0 {
                *self = next.clone();
            }
            return;
        }
        self.count += next.count;
        self.sum += next.sum;
        self.min = self.min.min(next.min);
        self.max = self.max.max(next.max);
    }

    #[allow(clippy::cast_precision_loss, reason = "only displayed")]
    fn summary(&self) -> SpreadSummary {
        let Self { count, sum, min, max } = *self;
        SpreadSummary { count, min, mean: sum / count.max(1) as f64, max }
    }
}

/// Figures accumulated over many pictures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PictureTotals {
    samples: u64,
    source_bytes: u64,
    tiled: u64,
    in_rows: u64,
    kept: u64,
    /// Number of pictures stored unchanged, for each known reason. No column stores the reasons.
    kept_because: BTreeMap<String, u64>,
    pixels_checked: u64,
    reencoded: u64,
    quality: Spread,
    score: Spread,
    worst_sample: Option<String>,
    /// Number of dropped ICC profiles, and number of pictures that miss the requested score at every quality.
    /// No column stores these counts.
    profiles_dropped: u64,
    below_target: u64,
}

impl PictureTotals {
    pub(crate) fn of(key: &str, figures: &PictureFigures, kept_because: Option<&str>) -> Self {
        let mut totals = Self {
            samples: 1,
            source_bytes: figures.source_bytes,
            tiled: u64::from(figures.tiles_per_row > 1),
            in_rows: u64::from(figures.tiles_per_row == 1),
            kept: u64::from(figures.tiles_per_row == 0),
            kept_because: kept_because.into_iter().map(|why| (why.to_owned(), 1)).collect(),
            pixels_checked: u64::from(figures.pixels_checked),
            ..Self::default()
        };
        if let Some(ReencodedFigures { quality, score }) = figures.reencoded {
            if quality > 0 {
                totals.reencoded = 1;
                totals.quality.add(quality.into());
            }
            if !score.is_nan() && quality > 0 {
                totals.score.add(score.into());
                totals.worst_sample = Some(key.to_owned());
            }
        }
        totals
    }

    /// Sets the counts that no column stores, for a single picture.
    pub(crate) fn note(&mut self, profile_dropped: bool, target: Option<f64>) {
        self.profiles_dropped = u64::from(profile_dropped);
        // Scores are stored as 32-bit floats, so allow for rounding.
        let missed = |target: f64| self.reencoded > 0 && self.score.count > 0 && self.score.max < target - 1e-3;
        self.below_target = u64::from(target.is_some_and(missed));
    }

    pub(crate) fn merge(&mut self, next: Self) {
        let worse = next.score.count > 0 && (self.score.count == 0 || next.score.min < self.score.min);
        if worse {
            self.worst_sample = next.worst_sample;
        }
        self.samples += next.samples;
        self.source_bytes += next.source_bytes;
        self.tiled += next.tiled;
        self.in_rows += next.in_rows;
        self.kept += next.kept;
        for (why, count) in next.kept_because {
            *self.kept_because.entry(why).or_default() += count;
        }
        self.pixels_checked += next.pixels_checked;
        self.reencoded += next.reencoded;
        self.profiles_dropped += next.profiles_dropped;
        self.below_target += next.below_target;
        self.quality.merge(&next.quality);
        self.score.merge(&next.score);
    }

    pub(crate) fn summary(&self) -> PictureSummary {
        let scored = self.score.count > 0;
        PictureSummary {
            samples: self.samples,
            source_bytes: self.source_bytes,
            tiled: self.tiled,
            in_rows: self.in_rows,
            kept: self.kept,
            kept_because: self.kept_because.clone(),
            pixels_checked: self.pixels_checked,
            profiles_dropped: self.profiles_dropped,
            below_target: self.below_target,
            reencoded: self.reencoded,
            quality: (self.reencoded > 0).then(|| self.quality.summary()),
            ssimulacra2: scored.then(|| self.score.summary()),
            worst_sample: self.worst_sample.clone().filter(|_| scored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(reencode: bool) -> Schema {
        let mut all = vec![Field::stored("image", FieldKind::Image), Field::scalar("label", Dtype::I64)];
        all.extend(fields("image", reencode));
        Schema::new(all).unwrap()
    }

    #[test]
    fn figures_come_back_from_their_columns() {
        for reencoded in [None, Some(ReencodedFigures { quality: 80, score: 71.5 })] {
            let figures = PictureFigures { source_bytes: 1 << 40, tiles_per_row: 7, pixels_checked: true, reencoded };
            let mut packed = 5i64.to_le_bytes().to_vec();
            figures.append(&mut packed);
            let found = PictureFigures::from_scalars(&schema(reencoded.is_some()), &packed);
            assert_eq!(found, BTreeMap::from([("image".to_owned(), figures)]));
        }
    }

    #[test]
    fn columns_of_the_user_are_no_figures() {
        let schema = Schema::new(vec![
            Field::stored("image", FieldKind::Image),
            Field::scalar("image.quality", Dtype::U8),
            Field::scalar("image.score", Dtype::F32),
        ]);
        assert!(!is_figure(&schema.unwrap(), "image.quality"));
        assert!(!is_figure(&self::schema(false), "label"));
    }

    #[test]
    fn totals_name_the_worst_picture() {
        let of = |key: &str, quality, score| {
            let reencoded = Some(ReencodedFigures { quality, score });
            let figures = PictureFigures { source_bytes: 10, tiles_per_row: 2, pixels_checked: false, reencoded };
            PictureTotals::of(key, &figures, None)
        };
        let mut totals = of("a", 80, f32::NAN);
        totals.merge(of("b", 80, 75.0));
        // Quality 0 means that the picture was not re-encoded and has no score.
        totals.merge(of("c", 0, 60.0));
        totals.merge(of("d", 90, f32::NAN));
        let json = serde_json::to_value(totals.summary()).unwrap();
        assert_eq!(json["reencoded"], 3);
        assert_eq!(json["quality"], json!({ "count": 3, "min": 80.0, "mean": 250.0 / 3.0, "max": 90.0 }));
        assert_eq!((&json["ssimulacra2"]["min"], &json["worst_sample"]), (&json!(75.0), &json!("b")));
    }
}
