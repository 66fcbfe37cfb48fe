//! The options for a store, such as timeouts, retries, read-ahead and the cache.

use shardpack_format::to_usize;
use shardpack_io::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Prefixes of the environment variables that configure S3, Google Cloud Storage and Azure.
pub(crate) const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Store keys for the Hugging Face Hub.
pub(crate) const HUB_KEYS: [&str; 2] = ["hf_endpoint", "hf_token"];

/// Options for a store. Every field has a default.
///
/// Store keys such as `aws_region`, `endpoint` and `allow_http` have the same names as in the crate `object_store`.
/// Set them with [`StoreOptions::set`], or in upper case with [`StoreOptions::environment`].
///
/// ```
/// use shardpack_store::StoreOptions;
/// let mut options = StoreOptions::default().environment([("AWS_REGION".to_owned(), "eu-west-1".to_owned())]);
/// options.set("stall_timeout", "30s")?;
/// assert_eq!(options.stall_timeout.as_secs(), 30);
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Timeout for connecting. Default 5 s.
    pub connect_timeout: Duration,
    /// Timeout for the first byte of a response. Default 20 s.
    pub first_byte_timeout: Duration,
    /// Maximum pause in the middle of a response. Default 20 s.
    pub stall_timeout: Duration,
    /// Minimum rate of a response in bytes per second, measured over each [`Self::stall_timeout`]. 0 means no limit.
    /// Default 1000. Even a slow connection reaches this rate in each of 256 parallel requests.
    pub min_rate: u64,
    /// Maximum number of attempts per range. Default 10. At most 3 before the store's first response.
    pub max_attempts: u32,
    /// Maximum total time for all attempts at a range. Default 3 min.
    pub retry_timeout: Duration,
    /// Pause before the second attempt. It doubles with each further attempt, up to a factor of 100. Default
    /// 100 ms.
    pub backoff: Duration,
    /// Maximum number of bytes that are in flight or waiting for a reader. Default 256 MiB.
    pub read_ahead_bytes: u64,
    /// Minimum and maximum number of parallel requests. The actual number adapts to the measured rate.
    /// Default 8 and 256.
    pub in_flight: (usize, usize),
    /// Sends a second request if the first byte takes longer than in 99 % of requests. Default false, because
    /// this costs additional requests.
    pub hedge: bool,
    /// Local folder for cached blocks. All processes on this machine may share it. It must be empty or
    /// already contain a cache. Default none.
    pub cache: Option<PathBuf>,
    /// Maximum size of the cache in bytes. If several processes fill the cache, each additional process may exceed
    /// the limit by 1/32. Default 100 GB.
    pub cache_bytes: u64,
    /// Cancellation flag. Once it is true, threads that wait for the store return an error. Default none.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Store keys, such as the region and credentials. Default none, so the URL alone determines how to connect.
    pub keys: Keys,
}

/// Store keys, such as the region and credentials. Their values are never printed.
///
/// ```
/// use shardpack_store::StoreOptions;
/// let mut options = StoreOptions::default();
/// options.set("aws_secret_access_key", "hunter2")?;
/// assert!(!format!("{:?}", options.keys).contains("hunter2"));
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Keys {
    environment: Vec<(String, String)>,
    settings: Vec<(String, String)>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.environment.iter().chain(&self.settings).map(|(key, _)| key)).finish()
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(20),
            min_rate: 1000,
            max_attempts: 10,
            retry_timeout: Duration::from_secs(180),
            backoff: Duration::from_millis(100),
            read_ahead_bytes: 256 << 20,
            in_flight: (8, 256),
            hedge: false,
            cache: None,
            cache_bytes: 100_000_000_000,
            cancel: None,
            keys: Keys::default(),
        }
    }
}

impl StoreOptions {
    /// Adds the environment variables that configure a store: `AWS_…`, `GOOGLE_…`, `AZURE_…`, `HF_ENDPOINT`
    /// and `HF_TOKEN`. Unknown names are ignored, because other programs use the same prefixes.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |key: &str| {
            PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || HUB_KEYS.contains(&key.to_ascii_lowercase().as_str())
        };
        self.keys.environment.extend(variables.into_iter().filter(|(key, _)| ours(key)));
        self
    }

    /// Sets an option by its name: a field of this struct (`stall_timeout`, `read_ahead_bytes`, `hedge`, …) or a
    /// store key such as `aws_region`.
    ///
    /// # Errors
    /// `Usage` if the value of a field is invalid. Store keys are checked only when the store is opened.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let wrong =
            |expected: &str| Error::usage(format!("storage option `{key}`: expected {expected}, found `{value}`"));
        let time = || duration(value).ok_or_else(|| wrong("a time such as `500ms` or `20s`"));
        let number = || value.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(|| wrong("a number above 0"));
        match key {
            "connect_timeout" => self.connect_timeout = time()?,
            "first_byte_timeout" => self.first_byte_timeout = time()?,
            "stall_timeout" => self.stall_timeout = time()?,
            "min_rate" => self.min_rate = value.parse().map_err(|_| wrong("a number of bytes per second"))?,
            "retry_timeout" => self.retry_timeout = time()?,
            "backoff" => self.backoff = time()?,
            "max_attempts" => self.max_attempts = shardpack_format::saturating_u32(number()?),
            "read_ahead_bytes" => self.read_ahead_bytes = number()?,
            "max_in_flight" => {
                let most = to_usize(number()?);
                self.in_flight = (self.in_flight.0.min(most), most);
            }
            "hedge" => self.hedge = value.parse().map_err(|_| wrong("`true` or `false`"))?,
            "cache" => self.cache = Some(value.into()),
            "cache_bytes" => {
                let bytes = number()?;
                self.cache_bytes =
                    (bytes >= 64 << 20).then_some(bytes).ok_or_else(|| wrong("at least 67108864 bytes (64 MiB)"))?;
            }
            _ => self.keys.settings.push((key.to_ascii_lowercase(), value.to_owned())),
        }
        Ok(())
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        let is_set = |cancel: &Arc<AtomicBool>| cancel.load(Ordering::Relaxed);
        self.cancel.as_ref().is_some_and(is_set) || shardpack_io::is_cancelled()
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, &str)> {
        self.keys.environment.iter().map(|(key, value)| (key.to_ascii_lowercase(), value.as_str()))
    }

    /// Returns the value of a store key. Explicit settings take precedence over the environment.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        let set = self.settings().filter(|(name, _)| *name == key).last().map(|(_, value)| value.to_owned());
        set.or_else(|| self.variables().find(|(name, _)| name == key).map(|(_, value)| value.to_owned()))
    }

    /// Returns the endpoints that are configured for the store. They are not part of the URL.
    pub(crate) fn endpoints(&self, is_hub: bool) -> String {
        let all = self.keys.environment.iter().chain(&self.keys.settings);
        let is_where =
            |key: &str| ["endpoint", "account_name"].iter().any(|word| key.to_ascii_lowercase().contains(word));
        let is_ours = |key: &str| is_hub || !HUB_KEYS.contains(&key.to_ascii_lowercase().as_str());
        all.filter(|(key, _)| is_where(key) && is_ours(key)).map(|(key, value)| format!("{key}={value} ")).collect()
    }

    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        let all = self.keys.environment.iter().chain(&self.keys.settings);
        let is_secret = |key: &str| {
            let key = key.to_ascii_lowercase();
            ["secret", "token", "key", "password", "credential", "sas"].iter().any(|word| key.contains(word))
        };
        all.filter(|(key, value)| is_secret(key) && value.len() > 3).map(|(_, value)| value.clone()).collect()
    }
}

/// Parses a duration such as `500ms`, `20s` or `3min`. A plain number means seconds.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.trim().parse().ok().filter(|n: &f64| *n > 0.0)?;
    let unit = match text.get(digits.len()..)? {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_secrets_are_not_shown() {
        let mut options = StoreOptions::default().environment([
            ("AWS_SECRET_ACCESS_KEY".to_owned(), "hunter2".to_owned()),
            ("HOME".to_owned(), "/root".to_owned()),
        ]);
        assert!(options.set("stall_timeout", "soon").is_err() && options.set("max_attempts", "0").is_err());
        options.set("Azure_Storage_SAS_Token", "hunter3").unwrap();
        options.set("first_byte_timeout", "250ms").unwrap();
        options.set("max_in_flight", "4").unwrap();
        assert_eq!((options.first_byte_timeout.as_millis(), options.in_flight), (250, (4, 4)));
        assert_eq!(options.variables().count(), 1);
        assert_eq!(options.secrets(), ["hunter2", "hunter3"]);
        assert!(!format!("{options:?}").contains("hunter"));
    }
}
