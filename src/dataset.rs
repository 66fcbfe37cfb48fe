//! Opens a dataset at a path or a URL, and creates its loaders.

use crate::place::{self, Settings};
use crate::{Result, sniff};
use shardpack_loader::LoaderOptions;
use shardpack_pack::collect::{CollectOptions, Collector, Kind};
use shardpack_reader::DatasetOptions;
use std::ops::Deref;
use std::path::Path;

/// A dataset in a folder or, with the feature `store`, behind a URL. Has all methods of [`shardpack_reader::Dataset`],
/// and can also open loaders.
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
    /// Opens the dataset at a path or a URL, or a single shard.
    ///
    /// # Errors
    /// `Io` if the path does not exist; `Format` if the manifest is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &DatasetOptions::new(), &[])
    }

    /// Opens a dataset with limits, a generation, and store options (`docs/stores.md`).
    ///
    /// # Errors
    /// Same as [`Dataset::open`]; also `Usage` for store options if the path is not in a store.
    pub fn open_with(path: impl AsRef<Path>, options: &DatasetOptions, settings: &Settings) -> Result<Self> {
        sniff::check(path.as_ref())?;
        Ok(Self(place::open(path.as_ref(), options, settings)?))
    }

    /// Creates a dataset at a path or, with the feature `store`, at a writable URL. `schema` lists the name and
    /// kind of each field. By default, the first sample determines them.
    ///
    /// ```
    /// use shardpack::collect::Sample;
    /// use shardpack::{CollectOptions, Dataset};
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("texts");
    /// let collector = Dataset::create(&out, None, CollectOptions::default())?;
    /// for text in ["to be", "or not to be"] {
    ///     collector.add(Sample::new().with("text", text).with("words", text.split(' ').count() as i64))?;
    /// }
    /// collector.commit(None, None)?;
    /// assert_eq!(Dataset::open(&out)?.len(), 2);
    /// # Ok::<(), shardpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if a dataset already exists and `options` do not allow replacing it; `Io` if the destination
    /// cannot be written.
    pub fn create(
        path: impl AsRef<Path>,
        schema: Option<Vec<(String, Kind)>>,
        options: CollectOptions,
    ) -> Result<Collector> {
        let out = place::Destination { path: path.as_ref().to_owned(), ..Default::default() }.output(&[], None)?;
        Ok(Collector::open(out, schema, options)?)
    }

    /// Returns options for loading this dataset. [`LoaderOptions::open`] opens the loader.
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
