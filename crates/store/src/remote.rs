//! Implements the reader's storage for a dataset in a store's folder.

use crate::attempts::Attempts;
use crate::cache::Cache;
use crate::client::{Client, cannot_start};
use crate::connect::connect;
use crate::diagnosis::diagnose;
use crate::listing::list_all;
use crate::location::{Location, Protocol, StoreUrl};
use crate::object::Object;
use crate::options::StoreOptions;
use crate::schedule::RequestError;
use object_store::ObjectStore;
use object_store::path::Path as Key;
use shardpack_io::{Cause, Error, Listed, ReadAt, Result, Storage, Traffic};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder in an object store, for [`shardpack_reader::DatasetOptions::open_in`].
///
/// Announced ranges are fetched in advance. Neighbouring ranges are fetched together, with up to 16 MiB per request.
/// The number of parallel requests grows as long as the rate grows with it. The memory limit is
/// [`read_ahead_bytes`](StoreOptions::read_ahead_bytes). Each read uses bytes that have already arrived, waits for a
/// request in flight, or sends its own request. A `Remote` runs up to four threads until it is dropped.
///
/// ```
/// use object_store::memory::InMemory;
/// use shardpack_reader::DatasetOptions;
/// use shardpack_store::{Remote, StoreOptions};
/// use std::sync::Arc;
/// let store = Arc::new(InMemory::new());
/// let remote = Remote::new(store, "train", &StoreOptions::default())?;
/// let error = DatasetOptions::new().open_in(Arc::new(remote)).unwrap_err();
/// assert!(error.to_string().contains("no manifest.json and no shards"));
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Remote {
    client: Arc<Client>,
    path: PathBuf,
    /// True for plain HTTP. Such a server may not support listing.
    is_http: bool,
}

impl Remote {
    /// Uses the folder `folder` of `store`; `""` is the whole store. Failed requests are repeated as `options`
    /// specify, in addition to any retries of `store` itself.
    ///
    /// # Errors
    /// `Usage` if `folder` is not a valid key or no thread can be started.
    pub fn new(store: Arc<dyn ObjectStore>, folder: &str, options: &StoreOptions) -> Result<Self> {
        let key = Key::parse(folder).map_err(|error| Error::usage(format!("invalid folder name: {error}")))?;
        if options.cache.is_some() {
            return Err(Error::usage("only datasets opened by URL can be cached"));
        }
        Self::start(store, key, folder, options, None)
    }

    pub(crate) fn of_url(url: &StoreUrl, options: &StoreOptions) -> Result<Self> {
        let name = || format!("{} {}", url.name, options.endpoints(matches!(url.protocol, Protocol::Hub(_))));
        let open = |path| Cache::open(path, options.cache_bytes, name()).map(Arc::new);
        let cache = options.cache.as_deref().map(open).transpose()?;
        let remote = Self::start(connect(url, options)?, url.folder.clone(), &url.name, options, cache)?;
        Ok(Self { is_http: matches!(url.protocol, Protocol::Http | Protocol::Hub(_)), ..remote })
    }

    /// Uses the folder at a URL, which has the same form as in [`crate::open`].
    ///
    /// # Errors
    /// `Usage` if the URL or an option is invalid, or if it is a local path.
    pub fn at(url: &str, options: &StoreOptions) -> Result<Self> {
        match Location::parse(url)? {
            Location::Store(url) => Self::of_url(&url, options),
            Location::Local(_) => Err(Error::usage(format!("`{url}` is a local path, not the URL of a store"))),
        }
    }

    fn start(
        store: Arc<dyn ObjectStore>,
        folder: Key,
        name: &str,
        options: &StoreOptions,
        cache: Option<Arc<Cache>>,
    ) -> Result<Self> {
        let client = Client::start(store, folder, options, cache).map_err(|error| cannot_start(name, &error))?;
        Ok(Self { client: Arc::new(client), path: name.into(), is_http: false })
    }
}

impl Storage for Remote {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let pin = self.client.open(name).map_err(|error| Error::io(self.path.join(name), "open", error))?;
        Ok(Arc::new(Object::new(&self.client, pin, false)))
    }

    fn names(&self) -> Result<Vec<String>> {
        let folder = self.client.folder();
        let fail = |error: RequestError| Error::io(self.path.clone(), "list", error.cause());
        let list = Attempts::to_read(folder).ask(async || {
            let listed = folder.store.list_with_delimiter(folder.prefix()).await;
            // A plain file server cannot list files, and responds with a status of 400 or more. Do not ask it again.
            if self.is_http { Ok(listed.map_err(|error| diagnose(&error, &folder.secrets))) } else { listed.map(Ok) }
        });
        let listed = self.client.wait(list).map_err(|cause| Error::io(self.path.clone(), "list", cause))?;
        let listed = listed.map_err(fail)?.map_err(|error| match error.kind {
            ErrorKind::PermissionDenied => fail(error),
            _ => fail(RequestError { kind: ErrorKind::Unsupported, ..error }),
        })?;
        Ok(folder.names(&listed))
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let fail = |cause: Cause| Error::io(self.path.clone(), "list", cause);
        let found = self.client.wait(list_all(self.client.folder())).map_err(fail)?;
        found.map_err(|error| fail(error.cause()))
    }

    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        let fail = |cause: Cause| Error::io(self.path.join(&listed.name), "open", cause);
        let key = self.client.folder().key_below(&listed.name).map_err(|error| fail(error.cause()))?;
        let modified = listed.modified_ns.div_euclid(1_000_000_000);
        let pin = self.client.pin(key, listed.bytes, listed.e_tag.clone(), modified).map_err(fail)?;
        Ok(Arc::new(Object::new(&self.client, pin, true)))
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.client.folder().options.read_ahead_bytes
    }

    fn advise_open(&self, name: &str) {
        self.client.announce_open(name);
    }

    fn traffic(&self) -> Traffic {
        self.client.traffic()
    }
}
