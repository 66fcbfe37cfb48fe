//! Several datasets as one: to mix them, or to go through one after the other, without packing them
//! again.

use crate::dataset::{Dataset, Inner, Of, Part, Slot};
use crate::error::{Error, Result};
use crate::union::Union;
use sha2::{Digest, Sha256};
use shardpack_format::{DatasetId, Metadata, Recipe};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

impl Dataset {
    /// All samples of `datasets`, those of the first one first: a dataset like any other, with
    /// their shards in place. No file is touched.
    ///
    /// Fields are matched by name: the dataset has those of all, first those of the first one. A
    /// sample whose dataset has no such field has no value for it ([`Dataset::without`]); in a
    /// column there stands −1, NaN, false, or the largest of an unsigned type. Classes are matched
    /// by name too: those of the first dataset keep their numbers, new ones come behind, and
    /// labels count into that list. Keys stay what they are: [`Dataset::by_key`] refuses datasets
    /// that share one, and whoever needs it asks the dataset that is meant. There is no manifest;
    /// the recipe is theirs if it is one, else empty. Limits are each dataset's own, those of
    /// decoders the first one's.
    ///
    /// The loader takes them by a mixture of their orders (`Mixture` of `shardpack-loader`), which says
    /// how often each of them comes.
    ///
    /// # Errors
    /// `Usage` if there is none; if a field is of another kind or type in one of them; if labels
    /// count into named classes in one and into none in another: it says where.
    pub fn concat(datasets: &[Self]) -> Result<Self> {
        let Some(first) = datasets.first() else {
            return Err(Error::usage("datasets to take as one", "at least one", "none"));
        };
        let (mut slots, mut parts): (Vec<Slot>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
        let mut samples = 0_u64;
        let mut digest = Sha256::new();
        let union = Union::of(datasets)?;
        for dataset in datasets {
            let cast = union.cast(dataset)?;
            let start = samples;
            for (number, slot) in dataset.0.slots.iter().enumerate() {
                let of = Of::Part(Part { dataset: dataset.clone(), number, cast: cast.clone() });
                let (shard, damage) = (OnceLock::new(), OnceLock::new());
                slots.push(Slot { first: samples, samples: slot.samples, of, shard, damage });
                let sum = samples.checked_add(slot.samples);
                samples = sum.ok_or_else(|| Error::usage("samples of all datasets", "below 2^64", "more"))?;
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

    /// The samples of each of the datasets that this one was made of by [`Dataset::concat`]; of any
    /// other, all of its own.
    #[must_use]
    pub fn parts(&self) -> &[Range<u64>] {
        &self.0.parts
    }

    /// The samples that cannot have a value for a field, because the dataset that they are of has no
    /// such field: of a dataset made by [`Dataset::concat`]. Any other has none such. Opens nothing.
    #[must_use]
    pub fn without(&self, field: &str) -> Vec<Range<u64>> {
        if !self.schema().fields().iter().any(|known| known.name == field) {
            return std::iter::once(0..self.len()).collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for slot in &self.0.slots {
            let Of::Part(Part { dataset, number, .. }) = &slot.of else { continue };
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
