//! A dataset of the facade: wherever it is, and with a loader.

use crate::place::{self, Settings};
use crate::{Result, sniff};
use shardpack_loader::LoaderOptions;
use shardpack_reader::DatasetOptions;
use std::ops::Deref;
use std::path::Path;

/// A dataset, in a folder or, with the feature `store`, behind a URL. Everything that
/// [`shardpack_reader::Dataset`] can do, it can do; and it opens loaders.
///
/// ```no_run
/// let dataset = shardpack::Dataset::open("train")?;
/// let sample = dataset.get(0)?;
/// println!("{} samples; the first is `{}`", dataset.len(), sample.key());
/// # Ok::<(), shardpack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset(shardpack_reader::Dataset);

impl Dataset {
    /// Opens the dataset at a path or a URL, or a lone shard.
    ///
    /// # Errors
    /// `Io` if it is not there, `Format` if its manifest is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &DatasetOptions::new(), &[])
    }

    /// Opens it with limits, a generation, and the options of its store (`docs/stores.md`).
    ///
    /// # Errors
    /// As [`Dataset::open`]; `Usage` for options of a store where there is none.
    pub fn open_with(path: impl AsRef<Path>, options: &DatasetOptions, settings: &Settings) -> Result<Self> {
        sniff::check(path.as_ref()).map_err(crate::Error::new)?;
        Ok(Self(place::open(path.as_ref(), options, settings)?))
    }

    /// Options of a loader of this dataset, which open it: [`LoaderOptions::open`].
    #[must_use]
    pub fn loader(&self) -> LoaderOptions<shardpack_reader::Dataset> {
        LoaderOptions::default().of(&self.0)
    }
}

impl Deref for Dataset {
    type Target = shardpack_reader::Dataset;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<shardpack_reader::Dataset> for Dataset {
    fn from(dataset: shardpack_reader::Dataset) -> Self {
        Self(dataset)
    }
}
