//! Accumulates the fidelity figures of each field.

use super::fidelity::{self, Totals};
use super::picture_figures::{self, PictureFigures, PictureTotals};
use super::summary::ArraySummary;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardpack_format::Schema;
use shardpack_reader::Shard;
use shardpack_writer::Tally as _;
use std::collections::BTreeMap;

/// Returns true if a scalar field is a packing figure, such as `image.quality`, rather than a user's field.
#[must_use]
pub fn is_figure(schema: &Schema, name: &str) -> bool {
    fidelity::is_figure(schema, name) || picture_figures::is_figure(schema, name)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FieldTotals {
    Array(Box<Totals>),
    Picture(PictureTotals),
}

/// Fidelity figures by field. The writer adds up the figures of all samples.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FidelityTotals(BTreeMap<String, FieldTotals>);

impl FidelityTotals {
    pub(crate) fn of_array(field: &str, totals: Totals) -> Self {
        Self(BTreeMap::from([(field.to_owned(), FieldTotals::Array(Box::new(totals)))]))
    }

    pub(crate) fn of_picture(field: &str, totals: PictureTotals) -> Self {
        Self(BTreeMap::from([(field.to_owned(), FieldTotals::Picture(totals))]))
    }

    pub(crate) fn of_record(schema: &Schema, key: &str, scalars: &[u8]) -> Self {
        Self::of_noted_record(schema, key, scalars, |_, figures| PictureTotals::of(key, figures, None))
    }

    /// Like [`of_record`](Self::of_record), but `picture` adds facts that are not stored in a column. Skips
    /// fields without a value.
    pub(crate) fn of_noted_record(
        schema: &Schema,
        key: &str,
        scalars: &[u8],
        picture: impl Fn(&str, &PictureFigures) -> PictureTotals,
    ) -> Self {
        let arrays = fidelity::from_scalars(schema, scalars).into_iter().filter(|(_, figures)| figures.values > 0);
        let arrays = arrays.map(|(field, figures)| (field, FieldTotals::Array(Box::new(Totals::of(key, figures)))));
        let pictures = PictureFigures::from_scalars(schema, scalars).into_iter().filter(|(_, f)| f.source_bytes > 0);
        let pictures = pictures.map(|(field, figures)| {
            let totals = picture(&field, &figures);
            (field, FieldTotals::Picture(totals))
        });
        Self(arrays.chain(pictures).collect())
    }

    /// Returns the figures of a shard, computed from its index. They equal the writer's sums, because the
    /// writer also sums within each shard first and then over the shards.
    #[must_use]
    pub fn of_shard(shard: &Shard) -> Self {
        let index = shard.index();
        let schema = &index.metadata().schema;
        let scalars = schema.scalars().count();
        let mut packed = Vec::new();
        let mut totals = Self::default();
        for record in 0..index.len() {
            packed.clear();
            for position in 0..scalars {
                let value = index.scalar(record, position);
                debug_assert!(value.is_some(), "a checked index has a value for each record");
                packed.extend(value.unwrap_or_default());
            }
            totals.merge(Self::of_record(schema, index.key(record).unwrap_or_default(), &packed));
        }
        totals
    }

    fn entries(&self, array: impl Fn(&Totals) -> ArraySummary) -> Map<String, Value> {
        let entry = |totals: &FieldTotals| match totals {
            FieldTotals::Array(totals) => json!(array(totals)),
            FieldTotals::Picture(totals) => json!(totals.summary()),
        };
        self.0.iter().map(|(field, totals)| (field.clone(), entry(totals))).collect()
    }
}

impl shardpack_writer::Tally for FidelityTotals {
    fn merge(&mut self, next: Self) {
        for (field, totals) in next.0 {
            match (self.0.get_mut(&field), totals) {
                (Some(FieldTotals::Array(mine)), FieldTotals::Array(next)) => mine.merge(*next),
                (Some(FieldTotals::Picture(mine)), FieldTotals::Picture(next)) => mine.merge(next),
                // The field has no totals yet. Totals of a different kind are impossible, because a
                // field has the same kind in all records.
                (_, totals) => _ = self.0.insert(field, totals),
            }
        }
    }

    /// Returns the manifest entries. They omit the percentiles of angles, because shards do not store these and
    /// `verify` could not check them.
    fn fidelity(&self) -> Map<String, Value> {
        self.entries(|totals| ArraySummary { angle_percentiles_rad: None, ..totals.summary() })
    }

    fn report(&self) -> Map<String, Value> {
        self.entries(Totals::summary)
    }
}
