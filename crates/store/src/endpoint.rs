//! Checks addresses in the options of a store. `object_store` does not check addresses, and panics in the middle of a
//! request if an address is invalid.

use crate::http::switch;
use crate::location::Protocol;
use crate::options::PREFIXES;
use shardpack_format::plain_urls;
use shardpack_io::{Error, Result};
use url::{Host, Url};

/// Punctuation characters that may occur in a URL before its query.
const MARKS: &[u8] = b"-._~:/[]@!$&'()*+,;=%";

pub(crate) struct Address<'a> {
    pub(crate) key: &'a str,
    /// Name of the option or environment variable, as written by the user.
    pub(crate) name: String,
    pub(crate) value: &'a str,
}

impl Address<'_> {
    pub(crate) fn check(&self, protocol: &Protocol, allow_http: bool) -> Result<()> {
        const EXPECTED: &str = "a URL such as https://host:9000";
        if !is_address(self.key) {
            return Ok(());
        }
        let what = || format!("`{}`", self.name);
        let found = || format!("`{}`", plain_urls(self.value).escape_debug());
        let is_plain = self.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || MARKS.contains(&byte));
        let url = Url::parse(self.value).ok().filter(|url| {
            is_plain && matches!(url.scheme(), "http" | "https") && !matches!(url.host(), None | Some(Host::Domain("")))
        });
        let Some(url) = url else {
            let error = Error::usage(format!("{}: expected {EXPECTED}, found {}", what(), found()));
            let has_scheme = self.value.contains("://");
            return Err(if has_scheme {
                error
            } else {
                error.with_hint("begin the address with `https://` or `http://`")
            });
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::usage(format!("{}: the URL contains a user name or a password", what()))
                .with_hint("pass credentials as separate options: docs/stores.md lists their names"));
        }
        if url.scheme() == "http" && !allow_http && is_of_store(self.key) {
            let variable =
                protocol.prefix().map(|prefix| format!("{prefix}ALLOW_HTTP=true in the environment or with "));
            let variable = variable.unwrap_or_default();
            let hint = format!("use https://, or allow http:// with {variable}the storage option `allow_http`");
            return Err(
                Error::usage(format!("{}: connections to {} are not encrypted", what(), found())).with_hint(hint)
            );
        }
        Ok(())
    }
}

fn is_address(key: &str) -> bool {
    const WORDS: [&str; 5] = ["endpoint", "base_url", "full_uri", "authority_host", "service_url"];
    WORDS.iter().any(|word| key.contains(word)) && !key.contains("use_fabric")
}

/// Returns true if `key` sets the store's own address. Addresses that serve credentials do not count, because they
/// may be on this machine.
fn is_of_store(key: &str) -> bool {
    let name_after = |prefix: &str| key.strip_prefix(prefix.to_ascii_lowercase().as_str());
    let name = PREFIXES.iter().copied().find_map(name_after).unwrap_or(key);
    matches!(name, "hf_endpoint" | "endpoint" | "endpoint_url" | "endpoint_url_s3" | "storage_endpoint" | "base_url")
}

pub(crate) fn is_on(value: Option<&str>) -> bool {
    value.is_some_and(|text| switch(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, value: &str, allow_http: bool) -> String {
        let address = Address { key, name: key.to_ascii_uppercase(), value };
        let checked = address.check(&Protocol::S3, allow_http);
        checked.map_or_else(|error| format!("{error} {:?}", error.hint()), |()| String::new())
    }

    #[test]
    fn an_invalid_address_is_refused_by_its_name() {
        for value in [
            "localhost:9000",
            "http://",
            "http://[::1",
            "http://a b",
            "http://localhost:99999",
            "http://localhost:9000 ",
            "ftp://x",
            "https://h/?sig=hunter2",
            "https://h/\u{e9}",
            "http:///x y",
            "",
        ] {
            let said = said("aws_endpoint", value, true);
            assert!(said.contains("`AWS_ENDPOINT`: expected a URL") && !said.contains("hunter2"), "{value}: {said}");
        }
        let said = said("aws_endpoint", "http://user:hunter2@localhost:1", true);
        assert!(said.contains("`AWS_ENDPOINT`") && !said.contains("hunter2"), "{said}");
    }

    #[test]
    fn an_address_without_encryption_is_permitted_or_refused_with_a_hint() {
        let refused = said("aws_endpoint", "http://127.0.0.1:9000", false);
        assert!(refused.contains("`http://127.0.0.1:9000`") && refused.contains("AWS_ALLOW_HTTP=true"), "{refused}");
        for (key, value, allow_http) in [
            ("aws_endpoint", "http://127.0.0.1:9000", true),
            ("endpoint", "https://[::1]:9000/a/b", false),
            ("aws_metadata_endpoint", "http://169.254.169.254", false),
            ("aws_use_fabric_endpoint", "true", false),
            ("aws_region", "no url", false),
        ] {
            assert_eq!(said(key, value, allow_http), "");
        }
    }
}
