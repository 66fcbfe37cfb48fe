//! Builds an `object_store` client from a URL and the options.

use crate::diagnosis::hide;
use crate::endpoint::{Address, is_on};
use crate::http::GuardedConnector;
use crate::hub;
use crate::location::{Protocol, StoreUrl, schemes};
use crate::options::{HUB_KEYS, StoreOptions};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::{ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use shardpack_io::{Error, Result};
use std::sync::Arc;
use url::Position;

/// Disables the retries of `object_store`, because this crate has its own logic for retries and pauses.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn client(options: &StoreOptions) -> ClientOptions {
    // The wait for the first byte and pauses between bytes have their own timeouts. The whole body may take any
    // amount of time, as long as bytes keep arriving.
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(options.connect_timeout)
}

/// Configures a builder. This is a macro because the builders have the same methods, but share no trait.
macro_rules! build {
    ($builder:ty, $key:ty, $target:expr, $options:expr) => {{
        let connector = GuardedConnector::default();
        let mut builder = <$builder>::new().with_client_options(client($options)).with_retry(no_retries());
        builder = builder.with_http_connector(connector.clone()).with_url($target.url.to_string());
        for (key, value) in $options.variables() {
            if let Ok(key) = key.parse::<$key>() {
                builder = builder.with_config(key, value);
            }
        }
        for (key, value) in $options.settings() {
            let key = key.parse::<$key>().map_err(|_| unknown($target, key))?;
            builder = builder.with_config(key, value);
        }
        let allow_http = builder.get_config_value(&<$key>::Client(ClientConfigKey::AllowHttp));
        check_addresses($target, $options, is_on(allow_http.as_deref()), |key| key.parse::<$key>().is_ok())?;
        let store = builder.build().map_err(|error| wrong($target, &error, $options))?;
        connector.built();
        Arc::new(store)
    }};
}

pub(crate) trait WritableStore: ObjectStore + MultipartStore {}

impl<S: ObjectStore + MultipartStore> WritableStore for S {}

pub(crate) fn connect(target: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn ObjectStore>> {
    match &target.protocol {
        Protocol::Http => {
            let base = target.url[..Position::BeforePath].to_owned();
            // A user who writes `http://` permits unencrypted requests.
            let client = configured(target, options, client(options).with_allow_http(target.url.scheme() == "http"))?;
            check_addresses(target, options, true, |key| key.parse::<ClientConfigKey>().is_ok())?;
            over_http(target, options, base, client, GuardedConnector::default())
        }
        Protocol::Hub(repository) => {
            let client = configured(
                target,
                options,
                client(options).with_default_headers(hub::headers(&target.name, options)?),
            )?;
            let allow_http = is_on(client.get_config_value(&ClientConfigKey::AllowHttp).as_deref());
            check_addresses(target, options, allow_http, |key| key == "hf_endpoint")?;
            let base = repository.address(&target.name, options, &client)?;
            over_http(target, options, base, client, GuardedConnector::following_elsewhere())
        }
        Protocol::S3 | Protocol::GoogleCloud | Protocol::Azure => Ok(connect_to_write(target, options)?),
    }
}

/// Adds the user's settings to the client options.
fn configured(target: &StoreUrl, options: &StoreOptions, client: ClientOptions) -> Result<ClientOptions> {
    let is_of_hub = |key: &str| matches!(target.protocol, Protocol::Hub(_)) && HUB_KEYS.contains(&key);
    options.settings().filter(|(key, _)| !is_of_hub(key)).try_fold(client, |client, (key, value)| {
        let key = key.parse::<ClientConfigKey>().map_err(|_| unknown(target, key))?;
        Ok(client.with_config(key, value))
    })
}

fn over_http(
    target: &StoreUrl,
    options: &StoreOptions,
    base: String,
    client: ClientOptions,
    connector: GuardedConnector,
) -> Result<Arc<dyn ObjectStore>> {
    let builder = HttpBuilder::new().with_url(base).with_client_options(client).with_retry(no_retries());
    let store = builder.with_http_connector(connector.clone()).build();
    let store = store.map_err(|error| wrong(target, &error, options))?;
    connector.built();
    Ok(Arc::new(store))
}

pub(crate) fn connect_to_write(target: &StoreUrl, options: &StoreOptions) -> Result<Arc<dyn WritableStore>> {
    Ok(match &target.protocol {
        Protocol::S3 => build!(AmazonS3Builder, AmazonS3ConfigKey, target, options),
        Protocol::GoogleCloud => build!(GoogleCloudStorageBuilder, GoogleConfigKey, target, options),
        Protocol::Azure => build!(MicrosoftAzureBuilder, AzureConfigKey, target, options),
        Protocol::Http | Protocol::Hub(_) => {
            let (scheme, writable) = (target.url.scheme(), schemes(|scheme| scheme.is_written));
            let name = &target.name;
            return Err(Error::usage(format!(
                "cannot write to `{name}`: {scheme}:// is read-only; write to {writable} instead"
            )));
        }
    })
}

/// Checks the store's addresses. Refuses an unencrypted address, unless the user has permitted it or it belongs to an
/// emulator on this machine.
fn check_addresses(
    target: &StoreUrl,
    options: &StoreOptions,
    allow_http: bool,
    is_known: impl Fn(&str) -> bool,
) -> Result<()> {
    let variables = options.variables().map(|(key, value)| (key.to_ascii_uppercase(), key, value));
    let settings = options.settings().map(|(key, value)| (key.to_owned(), key.to_owned(), value));
    let all: Vec<_> = variables.chain(settings).filter(|(_, key, _)| is_known(key)).collect();
    let allow_http =
        allow_http || all.iter().any(|(_, key, value)| key.ends_with("use_emulator") && is_on(Some(value)));
    for (name, key, value) in &all {
        Address { key, name: name.clone(), value }.check(&target.protocol, allow_http)?;
    }
    Ok(())
}

fn unknown(target: &StoreUrl, key: &str) -> Error {
    Error::usage(format!("`{}`: unknown storage option `{key}`", target.name))
}

fn wrong(target: &StoreUrl, error: &object_store::Error, options: &StoreOptions) -> Error {
    Error::usage(format!("`{}`: invalid storage options: {}", target.name, hide(error, &options.secrets())))
}
