//! A folder in a store, as the storage of a dataset.

use crate::cache::Cache;
use crate::client::{Client, cannot_start};
use crate::connect::connect;
use crate::failure::Failure;
use crate::listing::list_all;
use crate::object::Object;
use crate::options::StoreOptions;
use crate::place::{Place, Target};
use object_store::ObjectStore;
use object_store::path::Path as Key;
use shardpack_io::{Error, Listed, ReadAt, Result, Storage, Traffic};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder in an object store, for [`shardpack_reader::DatasetOptions::open_in`].
///
/// What readers announce is fetched at once: neighbours together, up to 16 MiB a request, as many
/// requests as raise the rate, and never more bytes than
/// [`read_ahead_bytes`](StoreOptions::read_ahead_bytes). A read takes what has arrived, waits for
/// what is on its way, or asks by itself. It holds up to four threads until it is dropped.
///
/// ```
/// use object_store::memory::InMemory;
/// use shardpack_reader::DatasetOptions;
/// use shardpack_store::{Remote, StoreOptions};
/// use std::sync::Arc;
/// let store = Arc::new(InMemory::new());
/// let remote = Remote::new(store, "train", &StoreOptions::default())?;
/// let error = DatasetOptions::new().open_in(Arc::new(remote)).unwrap_err();
/// assert!(error.to_string().contains("neither manifest nor shards"));
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Remote {
    client: Arc<Client>,
    path: PathBuf,
    folder: Key,
}

impl Remote {
    /// The folder `folder` of `store`, `""` for all of it. What retries the store makes by itself
    /// are its own; those of `options` come on top.
    ///
    /// # Errors
    /// `Usage` if the folder cannot be one, or no thread can be started.
    pub fn new(store: Arc<dyn ObjectStore>, folder: &str, options: &StoreOptions) -> Result<Self> {
        let key = Key::parse(folder).map_err(|error| Error::usage("folder in the store", "a path", error))?;
        if options.cache.is_some() {
            return Err(Error::usage("cache", "a dataset that is opened by its URL", "a store without a name"));
        }
        Self::start(store, key, folder, options, None)
    }

    pub(crate) fn of_target(target: &Target, options: &StoreOptions) -> Result<Self> {
        let name = || format!("{} {}", target.name, options.endpoints());
        let open = |path| Cache::open(path, options.cache_bytes, name()).map(Arc::new);
        let cache = options.cache.as_deref().map(open).transpose()?;
        Self::start(connect(target, options)?, target.folder.clone(), &target.name, options, cache)
    }

    /// The folder that a URL names, as [`crate::open`] takes it.
    ///
    /// # Errors
    /// `Usage` if the URL or an option is not understood, or is a path of this machine.
    pub fn at(url: &str, options: &StoreOptions) -> Result<Self> {
        match Place::parse(url)? {
            Place::Remote(target) => Self::of_target(&target, options),
            Place::Local(_) => Err(Error::usage(format!("`{url}`"), "a URL of a store", "a path of this machine")),
        }
    }

    fn start(
        store: Arc<dyn ObjectStore>,
        folder: Key,
        name: &str,
        options: &StoreOptions,
        cache: Option<Arc<Cache>>,
    ) -> Result<Self> {
        let client =
            Client::start(store, folder.clone(), options, cache).map_err(|error| cannot_start(name, &error))?;
        Ok(Self { client: Arc::new(client), path: name.into(), folder })
    }
}

fn failed(path: PathBuf, action: &'static str, source: io::Error) -> Error {
    Error::io(path, action, source)
}

impl Storage for Remote {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        let pin = self.client.open(name).map_err(|error| failed(self.path.join(name), "open", error))?;
        Ok(Arc::new(Object { client: Arc::clone(&self.client), pin, is_alone: false }))
    }

    fn names(&self) -> Result<Vec<String>> {
        let shared = self.client.shared();
        let fail = |error| failed(self.path.clone(), "list", error);
        let folder = (!self.folder.is_root()).then_some(&self.folder);
        let most = shared.options.retry_timeout;
        let list = async { tokio::time::timeout(most, shared.store.list_with_delimiter(folder)).await };
        let listed = self.client.wait(list).map_err(fail)?;
        let listed = listed.map_err(|_| fail(ErrorKind::TimedOut.into()))?;
        let listed = listed.map_err(|error| {
            let mut failure = Failure::of(&error, &shared.secrets);
            // A server of files answers what it does not know with some status of 400 and more.
            if self.path.to_string_lossy().starts_with("http") && failure.kind != ErrorKind::PermissionDenied {
                failure.kind = ErrorKind::Unsupported;
            }
            fail(failure.io())
        })?;
        let keys = listed.objects.iter().map(|object| &object.location).chain(&listed.common_prefixes);
        // Some programs make an empty object of the folder's own name.
        let inside = keys.filter(|key| **key != self.folder);
        let mut names: Vec<String> = inside.filter_map(|key| key.filename()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let found = self.client.wait(list_all(self.client.shared()));
        let fail = |failure: Failure| failed(self.path.clone(), "list", failure.io());
        found.map_err(|error| failed(self.path.clone(), "list", error))?.map_err(fail)
    }

    fn open_listed(&self, listed: &Listed) -> Result<Arc<dyn ReadAt>> {
        let fail = |error| failed(self.path.join(&listed.name), "open", error);
        let key = self.client.shared().key_below(&listed.name).map_err(|failure| fail(failure.io()))?;
        let modified = listed.modified_ns.div_euclid(1_000_000_000);
        let pin = self.client.pin(key, listed.bytes, listed.e_tag.clone(), modified).map_err(fail)?;
        Ok(Arc::new(Object { client: Arc::clone(&self.client), pin, is_alone: true }))
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.client.shared().options.read_ahead_bytes
    }

    fn advise_open(&self, name: &str) {
        self.client.announce_open(name);
    }

    fn traffic(&self) -> Traffic {
        self.client.traffic()
    }
}
