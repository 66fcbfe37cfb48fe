//! Several datasets as one: to mix them, or to go through one after the other, without packing them
//! again.

use crate::dataset::{Dataset, Inner, Of, Slot};
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use shardpack_format::{DatasetId, Field, FieldKind, Metadata, Recipe, Schema};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

impl Dataset {
    /// All samples of `datasets`, those of the first one first: a dataset like any other, with
    /// their shards in place. No file is touched.
    ///
    /// The schemas must be equal, and so must the classes, because labels count into them. Keys
    /// stay what they are: [`Dataset::by_key`] refuses datasets that share one, and whoever needs
    /// it asks the dataset that is meant. There is no manifest; the recipe is theirs if it is one,
    /// else empty. Limits are each dataset's own, those of decoders the first one's.
    ///
    /// The loader takes them by a mixture of their orders (`Mixture` of `shardpack-loader`), which says
    /// how often each of them comes.
    ///
    /// # Errors
    /// `Usage` if there is none, or if a schema or the classes differ: it says where.
    pub fn concat(datasets: &[Self]) -> Result<Self> {
        let Some(first) = datasets.first() else {
            return Err(Error::usage("datasets to take as one", "at least one", "none"));
        };
        let (mut slots, mut parts): (Vec<Slot>, Vec<Range<u64>>) = (Vec::new(), Vec::new());
        let mut samples = 0_u64;
        let mut digest = Sha256::new();
        for dataset in datasets {
            check_schema(first, dataset)?;
            check_classes(first, dataset)?;
            let start = samples;
            for (number, slot) in dataset.0.slots.iter().enumerate() {
                let of = Of::Part(dataset.clone(), number);
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
            schema: first.schema().clone(),
            classes: first.0.metadata.classes.clone(),
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
}

/// `label`, a scalar of type int64.
fn words(field: Option<&Field>) -> String {
    match field {
        None => "no more".into(),
        Some(Field { name, kind: FieldKind::Scalar, dtype: Some(dtype) }) => format!("`{name}`, a scalar of {dtype}"),
        Some(Field { name, kind, .. }) => format!("`{name}` of kind {kind:?}").to_lowercase(),
    }
}

fn check_schema(first: &Dataset, other: &Dataset) -> Result<()> {
    let fields = |schema: &Schema, number| schema.fields().get(number).cloned();
    let count = first.schema().fields().len().max(other.schema().fields().len());
    for number in 0..count {
        let (expected, found) = (fields(first.schema(), number), fields(other.schema(), number));
        if expected != found {
            let what = format!("field {number} of `{}`", other.path().display());
            let expected = format!("{}, as in `{}`", words(expected.as_ref()), first.path().display());
            return Err(Error::usage(what, expected, words(found.as_ref())));
        }
    }
    Ok(())
}

fn check_classes(first: &Dataset, other: &Dataset) -> Result<()> {
    let (ours, theirs) = (first.classes().unwrap_or_default(), other.classes().unwrap_or_default());
    let count = ours.len().max(theirs.len());
    let Some(number) = (0..count).find(|&number| ours.get(number) != theirs.get(number)) else { return Ok(()) };
    let name = |classes: &[String]| {
        classes.get(number).map_or_else(|| "none".into(), |name| format!("`{}`", name.escape_debug()))
    };
    let what = format!("class {number} of `{}`", other.path().display());
    Err(Error::usage(what, format!("{}, as in `{}`", name(ours), first.path().display()), name(theirs)))
}
