//! Concatenates several datasets into one, to mix them or to read them in sequence without repacking.

use crate::dataset::{Dataset, Inner, MemberShard, Origin, Slot};
use crate::error::{Error, Result};
use crate::union::Union;
use sha2::{Digest, Sha256};
use shardpack_format::{DatasetId, Metadata, Recipe};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

impl Dataset {
    /// Concatenates `datasets` into one dataset, without touching any file.
    ///
    /// Fields are matched by name. The result has the fields of all datasets, the first dataset's
    /// first. A sample has no value for fields that its own dataset lacks ([`Dataset::without`]). In a
    /// [`Column`](crate::Column), a missing value is −1, NaN, false, or the maximum of an unsigned type. Classes are
    /// matched by name too. The first dataset's classes keep their indexes, new classes follow, and labels are indexes
    /// into the combined list. Keys do not change. If two datasets share a key, [`Dataset::by_key`] fails. Look up
    /// shared keys in the original datasets. The result has no manifest. If all datasets have the same recipe, the
    /// result has it too. Otherwise its recipe is empty. Each dataset keeps its own limits, but decoders use the limits
    /// of the first dataset.
    ///
    /// To set the share of each dataset, use `Mixture` of `shardpack-loader`.
    ///
    /// # Errors
    /// `Usage`, naming the dataset, if `datasets` is empty, if a field has different kinds or types in two of
    /// them, or if one dataset names its classes and another has labels without class names.
    pub fn concat(datasets: &[Self]) -> Result<Self> {
        let Some(first) = datasets.first() else {
            return Err(Error::usage("there are no datasets to concatenate"));
        };
        let (mut slots, mut parts): (Vec<Slot>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
        let mut samples = 0_u64;
        let mut digest = Sha256::new();
        let union = Union::of(datasets)?;
        for dataset in datasets {
            let cast = union.cast(dataset)?;
            let start = samples;
            for (number, slot) in dataset.0.slots.iter().enumerate() {
                let origin = Origin::Member(MemberShard { dataset: dataset.clone(), number, cast: cast.clone() });
                let (shard, damage) = (OnceLock::new(), OnceLock::new());
                slots.push(Slot { first: samples, samples: slot.samples, origin, shard, damage });
                let sum = samples.checked_add(slot.samples);
                samples = sum.ok_or_else(|| Error::usage("the datasets together have 2^64 samples or more"))?;
            }
            parts.push(start..samples);
            digest.update(dataset.version_id().0);
        }
        let mut dataset_id = DatasetId::default();
        for (to, from) in dataset_id.0.iter_mut().zip(digest.finalize()) {
            *to = from;
        }
        let one_recipe = datasets.iter().all(|dataset| dataset.recipe() == first.recipe());
        let metadata = Metadata {
            schema: union.schema,
            classes: union.classes,
            recipe: if one_recipe { first.recipe().clone() } else { Recipe::default() },
            shards: None,
        };
        let paths: Vec<_> = datasets.iter().map(|dataset| dataset.path().to_string_lossy()).collect();
        Ok(Self(Arc::new(Inner {
            path: paths.join(" + ").into(),
            samples,
            dataset_id,
            metadata,
            source: None,
            storage: None,
            slots,
            parts,
            options: first.0.options.clone(),
            keys: OnceLock::new(),
            known: OnceLock::new(),
        })))
    }

    /// Returns the range of samples from each dataset passed to [`Dataset::concat`]. For any other dataset,
    /// returns a single range with all samples.
    #[must_use]
    pub fn parts(&self) -> &[Range<u64>] {
        &self.0.parts
    }

    /// Returns the samples of a concatenation whose own dataset lacks `field`. Returns an empty list for any other
    /// dataset. Opens no files.
    #[must_use]
    pub fn without(&self, field: &str) -> Vec<Range<u64>> {
        if !self.schema().fields().iter().any(|known| known.name == field) {
            return std::iter::once(0..self.len()).collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for slot in &self.0.slots {
            let Origin::Member(MemberShard { dataset, number, .. }) = &slot.origin else { continue };
            let inside = dataset.samples_in(*number);
            for range in dataset.without(field) {
                let (start, end) = (range.start.max(inside.start), range.end.min(inside.end));
                if start >= end {
                    continue;
                }
                let (start, end) = (start - inside.start + slot.first, end - inside.start + slot.first);
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => ranges.push(start..end),
                }
            }
        }
        ranges
    }
}
