//! The HTTP client for `object_store`. It follows redirects only within one origin, and never to link-local
//! addresses, because clouds serve credentials there.
//!
//! The default client of `object_store` follows redirects to any host, and passes the session token or the signed URL
//! of the previous request on to them.

use super::refusal::Refusal;
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderValue;
use reqwest::redirect::{Attempt, Policy};
use reqwest::tls::Certificate;
use reqwest::{Client, NoProxy, Proxy};
use rustls::crypto::{CryptoProvider, ring};
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use url::{Host, Url};

const USER_AGENT: &str = concat!("shardpack/", env!("CARGO_PKG_VERSION"));
const REDIRECTS: usize = 10;

/// True for the client that reads and writes objects. False for the clients that fetch credentials, because
/// all clouds serve credentials from link-local addresses.
pub(super) type IsStore = Arc<AtomicBool>;

pub(super) fn client(
    options: &ClientOptions,
    is_store: &IsStore,
    follows_elsewhere: bool,
) -> object_store::Result<Client> {
    let value = |key: ClientConfigKey| options.get_config_value(&key);
    let is_on = |key| value(key).map_or(Ok(false), |text| switch(&text));
    let time = |key| value(key).map(|text| parsed(&text, humantime::parse_duration)).transpose();
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed one meanwhile.
        let _ = ring::default_provider().install_default();
    }
    let mut builder = Client::builder()
        .redirect(Policy::custom(move |attempt| follow(attempt, follows_elsewhere)))
        .referer(false)
        .https_only(!is_on(ClientConfigKey::AllowHttp)?)
        .tls_danger_accept_invalid_certs(is_on(ClientConfigKey::AllowInvalidCertificates)?)
        // Disable compression, because sizes and ranges refer to the stored bytes.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .pool_idle_timeout(time(ClientConfigKey::PoolIdleTimeout)?.unwrap_or(Duration::from_secs(90)))
        .dns_resolver(Resolver {
            is_store: Arc::clone(is_store),
            turn: Arc::default(),
            mix: is_on(ClientConfigKey::RandomizeAddresses)?,
        });
    if let Some(headers) = options.get_default_headers() {
        builder = builder.default_headers(headers.clone());
    }
    builder = match value(ClientConfigKey::UserAgent) {
        Some(agent) => builder.user_agent(parsed(&agent, HeaderValue::from_str)?),
        None => builder.user_agent(USER_AGENT),
    };
    if is_on(ClientConfigKey::NoSystemCertificates)? {
        builder = builder.tls_certs_only([]);
    }
    if let Some(url) = value(ClientConfigKey::ProxyUrl) {
        let mut proxy = Proxy::all(url).map_err(wrong)?;
        if let Some(pem) = value(ClientConfigKey::ProxyCaCertificate) {
            builder = builder.tls_certs_merge([Certificate::from_pem(pem.as_bytes()).map_err(wrong)?]);
        }
        if let Some(hosts) = value(ClientConfigKey::ProxyExcludes) {
            proxy = proxy.no_proxy(NoProxy::from_string(&hosts));
        }
        builder = builder.proxy(proxy);
    }
    if let Some(time) = time(ClientConfigKey::Timeout)? {
        builder = builder.timeout(time);
    }
    if let Some(time) = time(ClientConfigKey::ConnectTimeout)? {
        builder = builder.connect_timeout(time);
    }
    if let Some(time) = time(ClientConfigKey::ReadTimeout)? {
        builder = builder.read_timeout(time);
    }
    if let Some(most) = value(ClientConfigKey::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(parsed(&most, usize::from_str)?);
    }
    if let Some(time) = time(ClientConfigKey::Http2KeepAliveInterval)? {
        builder = builder.http2_keep_alive_interval(time);
    }
    if let Some(time) = time(ClientConfigKey::Http2KeepAliveTimeout)? {
        builder = builder.http2_keep_alive_timeout(time);
    }
    if is_on(ClientConfigKey::Http2KeepAliveWhileIdle)? {
        builder = builder.http2_keep_alive_while_idle(true);
    }
    if let Some(bytes) = value(ClientConfigKey::Http2MaxFrameSize) {
        builder = builder.http2_max_frame_size(parsed(&bytes, u32::from_str)?);
    }
    if is_on(ClientConfigKey::Http1Only)? {
        builder = builder.http1_only();
    }
    if is_on(ClientConfigKey::Http2Only)? {
        builder = builder.http2_prior_knowledge();
    }
    builder.build().map_err(wrong)
}

/// Parses a boolean in the same way as `object_store`.
pub(crate) fn switch(text: &str) -> object_store::Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Ok(true),
        "0" | "false" | "off" | "no" | "n" => Ok(false),
        _ => Err(wrong(format!("expected `true` or `false`, found `{}`", text.escape_debug()))),
    }
}

fn parsed<T, E: Display>(text: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> object_store::Result<T> {
    parse(text).map_err(|error| wrong(error.to_string()))
}

fn wrong(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP client", source: error.into() }
}

/// Follows redirects to the same scheme, host and port. If `elsewhere` is true, also follows one redirect to
/// another server, and none after that. `reqwest` removes the credentials from the redirected request, but
/// would send them again if the other server redirected to itself.
fn follow(attempt: Attempt<'_>, elsewhere: bool) -> reqwest::redirect::Action {
    let Some(from) = attempt.previous().last() else { return attempt.stop() };
    let has_left = attempt.previous().first().is_some_and(|first| !is_same_origin(first, from));
    if has_left || !elsewhere && !is_same_origin(from, attempt.url()) {
        let refused = Refusal::Redirect { from: origin(from), to: origin(attempt.url()) };
        return attempt.error(refused);
    }
    if let Some(host) = attempt.url().host().filter(is_link_local) {
        let refused = Refusal::LinkLocal { host: host.to_string() };
        return attempt.error(refused);
    }
    if attempt.previous().len() > REDIRECTS {
        let refused = Refusal::RedirectLoop { origin: origin(from) };
        return attempt.error(refused);
    }
    attempt.follow()
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host() == other.host()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Returns the two origins if the redirect leads to a different origin.
pub(super) fn leads_away(from: &Url, location: &str) -> Option<(String, String)> {
    let to = from.join(location).ok().filter(|to| !is_same_origin(from, to))?;
    Some((origin(from), origin(&to)))
}

/// Returns scheme, host and port, which contain no secrets.
fn origin(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Returns true if the host is a link-local address, or another address where a cloud serves credentials.
pub(super) fn is_link_local(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(_) => false,
        Host::Ipv4(address) => is_local_address(IpAddr::V4(*address)),
        Host::Ipv6(address) => is_local_address(IpAddr::V6(*address)),
    }
}

fn is_local_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            // Amazon serves credentials from `fd00:ec2::` in IPv6 networks.
            address.is_unicast_link_local()
                || (first, second) == (0xfd00, 0x0ec2)
                || embedded(address).is_some_and(|address| address.is_link_local())
        }
    }
}

fn embedded(address: Ipv6Addr) -> Option<std::net::Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x0064, 0xff9b, 0, 0, 0, 0, ..] => {
            let [.., a, b, c, d] = address.octets();
            Some([a, b, c, d].into())
        }
        _ => None,
    }
}

/// Removes link-local addresses, because machines on a local network often have other addresses as well.
/// Returns `None` if no address is left.
fn allowed(mut found: Vec<SocketAddr>) -> Option<Vec<SocketAddr>> {
    let has_any = !found.is_empty();
    found.retain(|address| !is_local_address(address.ip()));
    (!has_any || !found.is_empty()).then_some(found)
}

/// A resolver that uses the system's resolver and removes forbidden addresses from its results.
#[derive(Debug)]
struct Resolver {
    is_store: IsStore,
    /// Counter that selects the first address, to spread requests over all addresses.
    turn: Arc<AtomicUsize>,
    mix: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_store = self.is_store.load(Ordering::Relaxed);
        let turn = if self.mix { self.turn.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let look = move || (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
            let mut found: Vec<SocketAddr> = tokio::task::spawn_blocking(look).await??;
            if is_store {
                found = allowed(found).ok_or(Refusal::LinkLocal { host })?;
            }
            if !found.is_empty() {
                let first = turn % found.len();
                found.rotate_left(first);
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (one, other, expected) in [
            ("https://a/x", "https://a:443/y?sig=1", true),
            ("http://a/x", "https://a/x", false),
            ("https://a/x", "http://a/x", false),
            ("https://a/x", "https://b/x", false),
            ("https://a/x", "https://a.b/x", false),
            ("http://a:1/x", "http://a:2/x", false),
            ("http://a/x", "file:///x", false),
        ] {
            assert_eq!(is_same_origin(&url(one), &url(other)), expected, "{one} {other}");
        }
        assert_eq!(origin(&url("https://u:hunter2@a:8/x?sig=hunter2")), "https://a:8");
    }

    #[test]
    fn only_addresses_that_are_not_link_local_are_used() {
        let all = |texts: &[&str]| -> Vec<SocketAddr> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        for (found, expected) in [
            (&["[fe80::1]:0", "192.168.1.5:0"][..], Some(&["192.168.1.5:0"][..])),
            (&["10.0.0.1:0", "169.254.7.7:0", "[fd00::1]:0"], Some(&["10.0.0.1:0", "[fd00::1]:0"])),
            (&["127.0.0.1:0", "[::1]:0"], Some(&["127.0.0.1:0", "[::1]:0"])),
            (&["[fe80::1]:0", "169.254.169.254:0"], None),
            (&[], Some(&[])),
        ] {
            assert_eq!(allowed(all(found)), expected.map(all), "{found:?}");
        }
    }

    #[test]
    fn link_local_addresses_are_recognised_in_every_spelling() {
        let refused = |text: &str| is_link_local(&Url::parse(text).unwrap().host().unwrap());
        for text in [
            "http://169.254.169.254/latest",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://169.254.170.2/",
            "http://[fe80::1]/",
            "http://[febf::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::169.254.169.254]/",
            "http://[fd00:ec2::254]/",
        ] {
            assert!(refused(text), "{text}");
        }
        for text in ["http://127.0.0.1/", "http://10.0.0.1/", "http://[::1]/", "http://[fd00::1]/", "http://localhost/"]
        {
            assert!(!refused(text), "{text}");
        }
    }
}
