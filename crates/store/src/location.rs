//! Parses dataset URLs.

use crate::hub::HubRepository;
use crate::options::PREFIXES;
use object_store::ObjectStoreScheme;
use object_store::path::Path as Key;
use shardpack_io::{Error, Result, is_url};
use std::path::PathBuf;
use url::Url;

/// A URL scheme.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Scheme {
    /// Word before `://`.
    pub name: &'static str,
    /// Alternative names of the scheme.
    pub aliases: &'static [&'static str],
    /// True if datasets can be written to URLs of this scheme. False for `file`, because a local folder is not a
    /// store.
    pub is_written: bool,
}

/// All URL schemes for datasets.
///
/// ```
/// let names: Vec<&str> = shardpack_store::SCHEMES.iter().map(|scheme| scheme.name).collect();
/// assert_eq!(names, ["s3", "gs", "az", "hf", "http", "https", "file"]);
/// ```
pub const SCHEMES: [Scheme; 7] = [
    Scheme { name: "s3", aliases: &["s3a"], is_written: true },
    Scheme { name: "gs", aliases: &[], is_written: true },
    Scheme { name: "az", aliases: &["adl", "azure", "abfs", "abfss"], is_written: true },
    Scheme { name: "hf", aliases: &[], is_written: false },
    Scheme { name: "http", aliases: &[], is_written: false },
    Scheme { name: "https", aliases: &[], is_written: false },
    Scheme { name: "file", aliases: &[], is_written: false },
];

/// Lists the schemes for a message, for example `s3://, gs:// or az://`.
pub(crate) fn schemes(is_listed: impl Fn(&Scheme) -> bool) -> String {
    let names: Vec<String> = SCHEMES.iter().filter(|s| is_listed(s)).map(|s| format!("{}://", s.name)).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protocol {
    S3,
    GoogleCloud,
    Azure,
    Http,
    Hub(HubRepository),
}

impl Protocol {
    /// Returns the prefix of the environment variables that configure the store, if it has one.
    pub(crate) const fn prefix(&self) -> Option<&'static str> {
        let [s3, google, azure] = PREFIXES;
        match self {
            Self::S3 => Some(s3),
            Self::GoogleCloud => Some(google),
            Self::Azure => Some(azure),
            Self::Http | Self::Hub(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Location {
    Local(PathBuf),
    Store(StoreUrl),
}

#[derive(Debug)]
pub(crate) struct StoreUrl {
    pub(crate) url: Url,
    pub(crate) protocol: Protocol,
    pub(crate) name: String,
    pub(crate) folder: Key,
    /// Name of the manifest or shard in the folder, if the URL contains one.
    pub(crate) file: Option<String>,
}

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if !is_url(text) {
            return Ok(Self::Local(text.into()));
        }
        let expected = schemes(|_| true);
        // Do not show the URL, because it may contain a password.
        let url = Url::parse(text).map_err(|error| Error::usage(format!("the URL is not valid: {error}")))?;
        // The part before `@` in `abfss://container@account…` is the container, not a user name.
        let has_user = !url.username().is_empty() && !url.scheme().starts_with("abfs");
        if has_user || url.password().is_some() {
            return Err(Error::usage("the URL contains a user name or a password")
                .with_hint("set credentials in the environment, or pass them as storage options"));
        }
        let mut plain = url.clone();
        plain.set_query(None);
        plain.set_fragment(None);
        let name = plain.as_str().trim_end_matches('/').to_owned();
        if url.query().is_some() || url.fragment().is_some() {
            let text = format!("`{name}`: the URL of a dataset cannot have a query (`?…`) or a fragment (`#…`)");
            return Err(Error::usage(text).with_hint("pass tokens as storage options"));
        }
        if url.scheme() == "file" {
            let path =
                url.to_file_path().map_err(|()| Error::usage(format!("`{name}` is not a path on this machine")))?;
            return Ok(Self::Local(path));
        }
        let unknown = || Error::usage(format!("`{name}`: expected {}, found {}://", expected, url.scheme()));
        let is_known = |scheme: &Scheme| scheme.name == url.scheme() || scheme.aliases.contains(&url.scheme());
        let (protocol, key) = match ObjectStoreScheme::parse(&url) {
            _ if !SCHEMES.iter().any(is_known) => return Err(unknown()),
            _ if url.scheme() == "hf" => {
                let expected = "expected hf://datasets/OWNER/NAME[@REVISION]/PATH";
                let found = HubRepository::parse(&url);
                let (repository, key) = found.ok_or_else(|| Error::usage(format!("`{name}`: {expected}")))?;
                (Protocol::Hub(repository), key)
            }
            Ok((ObjectStoreScheme::AmazonS3, key)) => (Protocol::S3, key),
            Ok((ObjectStoreScheme::GoogleCloudStorage, key)) => (Protocol::GoogleCloud, key),
            Ok((ObjectStoreScheme::MicrosoftAzure, key)) => (Protocol::Azure, key),
            Ok((ObjectStoreScheme::Http, key)) => (Protocol::Http, key),
            _ => return Err(unknown()),
        };
        let file = key.filename().filter(|name| name.ends_with(".json") || name.ends_with(".shard")).map(str::to_owned);
        let (name, folder) = match &file {
            None => (name, key),
            Some(_) => {
                let parent: Key = key.parts().take(key.parts_count().saturating_sub(1)).collect();
                (name.rsplit_once('/').map_or(name.clone(), |(folder, _)| folder.to_owned()), parent)
            }
        };
        Ok(Self::Store(StoreUrl { url, protocol, name, folder, file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> StoreUrl {
        match Location::parse(text).unwrap() {
            Location::Store(target) => target,
            Location::Local(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn a_url_names_a_folder_a_manifest_or_a_shard() {
        let folder = remote("s3://bucket/data/train/");
        assert_eq!((folder.name.as_str(), folder.folder.as_ref()), ("s3://bucket/data/train", "data/train"));
        assert_eq!(folder.file, None);
        let shard = remote("https://example.com/data/train%20set/shard-00000.shard");
        assert_eq!(shard.name, "https://example.com/data/train%20set");
        assert_eq!((shard.folder.as_ref(), shard.file.as_deref()), ("data/train set", Some("shard-00000.shard")));
        let manifest = remote("gs://bucket/manifest.json");
        assert_eq!((manifest.name.as_str(), manifest.folder.as_ref()), ("gs://bucket", ""));
        assert_eq!(remote("az://container/train").protocol, Protocol::Azure);
    }

    #[test]
    fn paths_and_file_urls_are_local() {
        for (text, expected) in [("train", "train"), ("file:///data/my%20train", "/data/my train"), ("s3:/b", "s3:/b")]
        {
            match Location::parse(text).unwrap() {
                Location::Local(path) => assert_eq!(path.to_str(), Some(expected)),
                Location::Store(target) => panic!("{target:?}"),
            }
        }
    }

    #[test]
    fn errors_of_invalid_urls_contain_no_credentials() {
        for text in [
            "ftp://host/x",
            "memory:///x",
            "http://u:hunter2@host/x",
            "http://hunter2@host/x",
            "s3://hunter2@bucket/x",
            "gs://hunter2@bucket/x",
            "az://hunter2@bucket/x",
            "file://hunter2@host/x",
            "abfss://container:hunter2@account.dfs.core.windows.net/x",
            "https://host/x?sig=hunter2",
            "s3://b/x#hunter2",
            "http://:hunter2",
        ] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
