//! What a URL names.

use object_store::ObjectStoreScheme;
use object_store::path::Path as Key;
use shardpack_io::{Error, Result, is_url};
use std::path::PathBuf;
use url::Url;

/// Where a dataset is.
#[derive(Debug)]
pub(crate) enum Place {
    Local(PathBuf),
    Remote(Target),
}

/// A place in a store.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) scheme: ObjectStoreScheme,
    /// The folder as messages name it.
    pub(crate) name: String,
    /// The folder in the store.
    pub(crate) folder: Key,
    /// The manifest or shard in it that the URL names.
    pub(crate) file: Option<String>,
}

impl Place {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if !is_url(text) {
            return Ok(Self::Local(text.into()));
        }
        let expected = "s3://, gs://, az://, http://, https:// or file://";
        // What is wrong is said without the text: it may hold a password.
        let url = Url::parse(text).map_err(|error| Error::usage("URL", expected, error))?;
        // Before the `@` of `abfss://container@account…` is no user.
        let has_user = !url.username().is_empty() && !url.scheme().starts_with("abfs");
        if has_user || url.password().is_some() {
            return Err(Error::usage("URL", "one without credentials", "one with a user or a password")
                .with_hint("give credentials in the environment, or as options of the storage"));
        }
        let mut plain = url.clone();
        plain.set_query(None);
        plain.set_fragment(None);
        let name = plain.as_str().trim_end_matches('/').to_owned();
        if url.query().is_some() || url.fragment().is_some() {
            let found = "a query or a fragment, which would not reach its shards";
            return Err(Error::usage(format!("`{name}`"), "a URL of a folder, a manifest or a shard", found)
                .with_hint("give tokens as options of the storage"));
        }
        if url.scheme() == "file" {
            let path =
                url.to_file_path().map_err(|()| Error::usage(format!("`{name}`"), "a path of this machine", "none"))?;
            return Ok(Self::Local(path));
        }
        let unknown = || Error::usage(format!("`{name}`"), expected, format!("{}://", url.scheme()));
        let (scheme, key) = ObjectStoreScheme::parse(&url).map_err(|_| unknown())?;
        if matches!(scheme, ObjectStoreScheme::Local | ObjectStoreScheme::Memory) {
            return Err(unknown());
        }
        let file = key.filename().filter(|name| name.ends_with(".json") || name.ends_with(".shard")).map(str::to_owned);
        let (name, folder) = match &file {
            None => (name, key),
            Some(_) => {
                let parent: Key = key.parts().take(key.parts_count().saturating_sub(1)).collect();
                (name.rsplit_once('/').map_or(name.clone(), |(folder, _)| folder.to_owned()), parent)
            }
        };
        Ok(Self::Remote(Target { url, scheme, name, folder, file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Target {
        match Place::parse(text).unwrap() {
            Place::Remote(target) => target,
            Place::Local(path) => panic!("{path:?}"),
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
        assert_eq!(remote("az://container/train").scheme, ObjectStoreScheme::MicrosoftAzure);
    }

    #[test]
    fn paths_and_file_urls_are_local() {
        for (text, expected) in [("train", "train"), ("file:///data/my%20train", "/data/my train"), ("s3:/b", "s3:/b")]
        {
            match Place::parse(text).unwrap() {
                Place::Local(path) => assert_eq!(path.to_str(), Some(expected)),
                Place::Remote(target) => panic!("{target:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_said_without_credentials() {
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
            let error = Place::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
