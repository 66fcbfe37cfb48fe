//! Opens, verifies and writes datasets in folders and, with the feature `store`, at URLs.

use shardpack_format::visible_path;
use shardpack_io::Storage;
use shardpack_pack::grow::AddOptions;
use shardpack_pack::salvage::{SalvageOptions, Survey};
use shardpack_reader::{Dataset, DatasetOptions, Error, Result, VerifyOptions, VerifyReport};
use shardpack_sources::SourceOptions;
use shardpack_writer::Output;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Store options as pairs of name and value (see `docs/stores.md`). They take precedence over
/// environment variables.
pub type Settings = [(String, String)];

/// Returns true if the path is a URL ([`shardpack_io::is_url`]).
#[must_use]
pub fn is_url(path: &Path) -> bool {
    shardpack_io::is_url(&path.to_string_lossy())
}

/// Opens the dataset at a path or a URL. Store options missing from `settings` come from environment variables.
///
/// # Errors
/// Same as [`DatasetOptions::open`]; also `Usage` for settings without a store, for a malformed URL, and for
/// every URL without the feature `store`; `Io` if the store does not answer.
pub fn open(path: &Path, options: &DatasetOptions, settings: &Settings) -> Result<Dataset> {
    match url(path, settings)? {
        None => options.open(path),
        Some(url) => remote::open(&url, options, settings),
    }
}

/// Verifies the dataset at a path or a URL.
///
/// # Errors
/// Same as [`open`] and [`shardpack_reader::verify`].
pub fn verify(path: &Path, options: &VerifyOptions<'_>, settings: &Settings) -> Result<VerifyReport> {
    match url(path, settings)? {
        None => shardpack_reader::verify(path, options),
        Some(url) => remote::verify(&url, options, settings),
    }
}

/// Finds the undamaged records of the dataset at a path or a URL. Setting `cancel` stops the scan and requests to a
/// store.
///
/// # Errors
/// Same as [`open`], [`Survey::scan`] and [`Survey::scan_in`].
pub fn salvage(
    path: &Path,
    options: &SalvageOptions,
    settings: &Settings,
    cancel: &Arc<AtomicBool>,
) -> shardpack_pack::Result<Survey> {
    match url(path, settings)? {
        None => Survey::scan(path, options, cancel),
        Some(url) => remote::salvage(&url, options, settings, cancel),
    }
}

/// Destination of a dataset, or of a change to a dataset: a folder or a URL.
#[derive(Debug, Clone, Default)]
pub struct Destination {
    /// Path of a folder, or a URL.
    pub path: PathBuf,
    /// Local folder for shards until they are uploaded. Used only for a URL. Default: the system's temporary folder.
    pub spool: Option<PathBuf>,
    /// Continue a run that was killed on another machine. Used only for a URL.
    pub take_over: bool,
}

impl Destination {
    /// Returns the output for this destination. A store is configured as in [`open`]. Setting `cancel` stops
    /// uploads.
    ///
    /// # Errors
    /// Same as [`open`]; also `Usage` for a store that cannot be written, or for URL options without a URL. Sends no
    /// requests.
    pub fn output(&self, settings: &Settings, cancel: Option<Arc<AtomicBool>>) -> Result<Output> {
        let Some(url) = url(&self.path, settings)? else {
            for (given, option) in [(self.spool.is_some(), "spool"), (self.take_over, "take_over")] {
                if given {
                    let path = visible_path(&self.path);
                    return Err(Error::usage(format!(
                        "`{option}` applies only if the output is a URL, but `{path}` is a local path"
                    )));
                }
            }
            return Ok(Output::from(&self.path));
        };
        remote::output(&url, self, settings, cancel)
    }
}

/// Returns the store folder at a URL, for reading its objects.
///
/// # Errors
/// `Usage` if the text is not the URL of a store, or an option is invalid.
pub fn storage(url: &str, settings: &Settings) -> Result<Arc<dyn Storage>> {
    match remote::source(url, url, settings, None)? {
        remote::Source::Store(storage) => Ok(storage),
        remote::Source::Local(path) => {
            Err(Error::usage(format!("expected the URL of a store, found the local path `{}`", visible_path(&path))))
        }
    }
}

/// Prepares the inputs and the output of a packing run. Opens the stores of the source, its masks and its label
/// table like [`open`], and returns the output. Setting `cancel` stops requests to stores.
///
/// # Errors
/// Same as [`Destination::output`]; also `Usage` if there are settings but nothing is in a store. Sends no requests to
/// the source's store.
pub fn for_packing(
    src: &mut PathBuf,
    source: &mut SourceOptions,
    to: &Destination,
    settings: &Settings,
    cancel: Option<Arc<AtomicBool>>,
) -> Result<Output> {
    let masks = source.masks.iter_mut().map(|path| (path, false));
    let labels = source.labels.iter_mut().map(|path| (path, true));
    let mut from_store = false;
    for (path, is_file) in std::iter::once((src, false)).chain(masks).chain(labels) {
        let Some(text) = path.to_str().filter(|text| shardpack_io::is_url(text)) else { continue };
        let folder = if is_file { text.rsplit_once('/').map_or(text, |(folder, _)| folder) } else { text };
        match remote::source(folder, text, settings, cancel.clone())? {
            remote::Source::Local(local) => *path = local,
            remote::Source::Store(storage) => {
                source.files = std::mem::take(&mut source.files).and(folder, storage);
                from_store = true;
            }
        }
    }
    let settings = if from_store && !is_url(&to.path) { &[] } else { settings };
    to.output(settings, cancel)
}

/// Prepares the inputs and the output of [`shardpack_pack::grow::add`], like [`for_packing`].
///
/// # Errors
/// Same as [`for_packing`].
pub fn for_adding(
    src: &mut PathBuf,
    options: &mut AddOptions,
    to: &Destination,
    settings: &Settings,
    cancel: Option<Arc<AtomicBool>>,
) -> Result<Output> {
    let (masks, labels) = (options.masks.take(), options.labels.take());
    let mut source = SourceOptions { masks, labels, ..SourceOptions::default() };
    let out = for_packing(src, &mut source, to, settings, cancel)?;
    (options.masks, options.labels, options.files) = (source.masks, source.labels, source.files);
    Ok(out)
}

fn url(path: &Path, settings: &Settings) -> Result<Option<String>> {
    if !is_url(path) {
        return match settings.first() {
            None => Ok(None),
            Some((key, _)) => {
                Err(Error::usage(format!("the storage option `{key}` applies only to URLs, but the path is local")))
            }
        };
    }
    let text = path.to_str().map(str::to_owned);
    text.map(Some).ok_or_else(|| Error::usage("the URL is not valid UTF-8"))
}

#[cfg(feature = "store")]
mod remote {
    use super::{Arc, AtomicBool, Destination, Output, PathBuf, SalvageOptions, Settings, Survey};
    use shardpack_io::Storage;
    use shardpack_reader::{Dataset, DatasetOptions, Result, VerifyOptions, VerifyReport};
    use shardpack_store::{Remote, StoreOptions, Upload};
    use shardpack_writer::Bucket;

    pub(super) enum Source {
        Local(PathBuf),
        Store(Arc<dyn Storage>),
    }

    /// Opens the source at a URL. `text` is the source's URL, and `folder` is the URL of its folder.
    pub(super) fn source(
        folder: &str,
        text: &str,
        settings: &Settings,
        cancel: Option<Arc<AtomicBool>>,
    ) -> Result<Source> {
        Ok(match shardpack_store::local_path(text)? {
            Some(path) => Source::Local(path),
            None => Source::Store(Arc::new(Remote::at(folder, &StoreOptions { cancel, ..options(settings)? })?)),
        })
    }

    fn options(settings: &Settings) -> Result<StoreOptions> {
        let text = |(key, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((key.into_string().ok()?, value.into_string().ok()?))
        };
        let mut options = StoreOptions::default().environment(std::env::vars_os().filter_map(text));
        for (key, variable) in CACHE {
            if let Some(value) = std::env::var(variable).ok().filter(|value| !value.is_empty()) {
                set(&mut options, key, &value)?;
            }
        }
        settings.iter().try_for_each(|(key, value)| set(&mut options, key, value))?;
        Ok(options)
    }

    /// Names of the cache options, each with its environment variable.
    const CACHE: [(&str, &str); 2] = [("cache", "SHARDPACK_CACHE"), ("cache_bytes", "SHARDPACK_CACHE_BYTES")];

    /// Sets an option like [`StoreOptions::set`], but also accepts sizes such as `500GB`.
    fn set(options: &mut StoreOptions, key: &str, value: &str) -> shardpack_io::Result<()> {
        match (key, shardpack_recipe::parse_size(value)) {
            ("cache_bytes", Ok(bytes)) => options.set(key, &bytes.to_string()),
            ("cache_bytes", Err(_)) => {
                Err(shardpack_io::Error::usage(format!("cache_bytes: expected a size such as 500GB, found `{value}`")))
            }
            _ => options.set(key, value),
        }
    }

    pub(super) fn output(
        url: &str,
        to: &Destination,
        settings: &Settings,
        cancel: Option<Arc<AtomicBool>>,
    ) -> Result<Output> {
        if let Some(folder) = shardpack_store::local_path(url)? {
            return Destination { path: folder, ..to.clone() }.output(settings, cancel);
        }
        let upload = Upload::at(url, &StoreOptions { cancel, ..options(settings)? })?;
        let spools = to.spool.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Bucket::new(Arc::new(upload), &spools).take_over(to.take_over).into())
    }

    pub(super) fn open(url: &str, dataset: &DatasetOptions, settings: &Settings) -> Result<Dataset> {
        shardpack_store::open(url, dataset, &options(settings)?)
    }

    pub(super) fn verify(url: &str, verify: &VerifyOptions<'_>, settings: &Settings) -> Result<VerifyReport> {
        shardpack_store::verify(url, verify, &options(settings)?)
    }

    pub(super) fn salvage(
        url: &str,
        salvage: &SalvageOptions,
        settings: &Settings,
        cancel: &Arc<AtomicBool>,
    ) -> shardpack_pack::Result<Survey> {
        if let Some(path) = shardpack_store::local_path(url)? {
            return Survey::scan(&path, salvage, cancel);
        }
        let options = StoreOptions { cancel: Some(Arc::clone(cancel)), ..options(settings)? };
        let target = shardpack_store::url_target(url, &options)?;
        Survey::scan_in(target.storage, target.file.as_deref(), salvage, cancel)
    }
}

#[cfg(not(feature = "store"))]
mod remote {
    use super::{Arc, AtomicBool, Destination, Output, PathBuf, SalvageOptions, Settings, Survey};
    use shardpack_io::Storage;
    use shardpack_reader::{Dataset, DatasetOptions, Error, Result, VerifyOptions, VerifyReport};

    #[allow(dead_code, reason = "there are no stores")]
    pub(super) enum Source {
        Local(PathBuf),
        Store(Arc<dyn Storage>),
    }

    pub(super) fn source(_: &str, _: &str, _: &Settings, _: Option<Arc<AtomicBool>>) -> Result<Source> {
        Err(off())
    }

    fn off() -> Error {
        Error::usage("this build of shardpack cannot open URLs")
            .with_hint("copy the data to this machine, or build with the Cargo feature `store`")
    }

    pub(super) fn output(_: &str, _: &Destination, _: &Settings, _: Option<Arc<AtomicBool>>) -> Result<Output> {
        Err(off())
    }

    pub(super) fn open(_: &str, _: &DatasetOptions, _: &Settings) -> Result<Dataset> {
        Err(off())
    }

    pub(super) fn verify(_: &str, _: &VerifyOptions<'_>, _: &Settings) -> Result<VerifyReport> {
        Err(off())
    }

    pub(super) fn salvage(
        _: &str,
        _: &SalvageOptions,
        _: &Settings,
        _: &Arc<AtomicBool>,
    ) -> shardpack_pack::Result<Survey> {
        Err(off().into())
    }
}
