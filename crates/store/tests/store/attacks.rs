//! Tests with servers that redirect, lie, trickle, or never finish. Each test expects a clear error within a short
//! time and no leaked credentials.

use crate::liar::{Liar, redirect};
use crate::loader_support::Disk;
use crate::server::{Answer, Server};
use shardpack_io::Objects as _;
use shardpack_reader::{Dataset, DatasetOptions, Result, VerifyOptions};
use shardpack_store::{StoreOptions, Upload, open, verify};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn options() -> StoreOptions {
    StoreOptions {
        backoff: Duration::from_millis(1),
        first_byte_timeout: Duration::from_millis(1500),
        stall_timeout: Duration::from_millis(500),
        max_attempts: 2,
        ..StoreOptions::default()
    }
}

/// Returns the URL of the folder `data` and options that contain a secret, for each kind of store at `origin`.
fn stores(origin: &str) -> Vec<(String, StoreOptions)> {
    let with = |pairs: &[(&str, &str)]| {
        let mut options = options();
        pairs.iter().for_each(|(key, value)| options.set(key, value).unwrap());
        options
    };
    vec![
        (format!("{origin}/data"), options()),
        (
            "s3://bucket/data".to_owned(),
            with(&[
                ("aws_endpoint", origin),
                ("aws_allow_http", "true"),
                ("aws_access_key_id", "hunter2-id"),
                ("aws_secret_access_key", "hunter2-key"),
                ("aws_session_token", "hunter2-token"),
                ("aws_region", "here"),
            ]),
        ),
        (
            "az://container/data".to_owned(),
            with(&[
                ("azure_endpoint", origin),
                ("azure_allow_http", "true"),
                ("azure_storage_account_name", "account"),
                ("azure_storage_sas_key", "sv=1&sig=hunter2"),
            ]),
        ),
        (
            "gs://bucket/data".to_owned(),
            with(&[
                ("google_base_url", origin),
                ("google_allow_http", "true"),
                ("google_bearer_token", "hunter2-bearer"),
            ]),
        ),
    ]
}

fn opened(url: &str, options: &StoreOptions) -> Result<Dataset> {
    open(url, &DatasetOptions::new(), options)
}

pub fn said(error: &shardpack_reader::Error) -> String {
    error.to_string()
}

#[test]
fn no_credential_follows_a_redirect_to_another_origin() {
    for status in [301, 302, 303, 307, 308] {
        let disk = Disk::alike(&[3]);
        let other = Server::start(disk.path(), |_| Answer::Right);
        let to = other.endpoint();
        let target = to.clone();
        let first = Liar::start(move |head, stream| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            stream.write_all(redirect(status, &format!("{target}{path}")).as_bytes())
        });
        for (url, options) in stores(&first.origin()) {
            let before = first.seen().len();
            let error = said(&opened(&url, &options).unwrap_err());
            let both = format!("`{}` redirects to `{to}`", first.origin());
            assert!(error.contains(&both) && !error.contains("hunter2"), "{url} {status}: {error}");
            assert_eq!(first.seen().len() - before, 1, "another attempt would meet the same: {url}");
            let error = said(&verify(&url, &VerifyOptions::default(), &options).unwrap_err());
            assert!(error.contains(&both) && !error.contains("hunter2"), "{url} {status}: {error}");
            if !url.starts_with("http") {
                let error = said(&Upload::at(&url, &options).unwrap().create("a.json", b"{}").unwrap_err().into());
                assert!(error.contains(&both) && !error.contains("hunter2"), "{url} {status}: {error}");
            }
        }
        assert!(other.requests().is_empty(), "{:?}", other.requests());
    }
}

#[test]
fn redirects_to_files_loops_and_link_local_addresses_are_refused() {
    for to in
        ["file:///etc/passwd", "http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "https://127.0.0.1/"]
    {
        let first = Liar::always(redirect(302, to));
        let error = said(&opened(&format!("{}/data", first.origin()), &options()).unwrap_err());
        // A redirect to a URL that is not HTTP is not even parsed.
        let is_said = error.contains("redirects to `") || error.contains("status 302");
        assert!(is_said && !error.contains("meta-data") && !error.contains("root:"), "{to}: {error}");
        assert_eq!(first.seen().len(), 1, "{to}");
    }
    let turning = Liar::always(redirect(302, "/data/manifest.json"));
    let error = said(&opened(&format!("{}/data", turning.origin()), &options()).unwrap_err());
    assert!(error.contains("redirects in a loop"), "{error}");
    assert_eq!(turning.seen().len(), 11);
}

#[test]
fn redirects_within_an_origin_are_followed() {
    let disk = Disk::varied(&[40, 50]);
    let files = disk.path().to_owned();
    let served = Liar::start(move |head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Some(name) = path.strip_prefix("/old/") {
            return stream.write_all(redirect(307, &format!("/new/{name}")).as_bytes());
        }
        let bytes = std::fs::read(files.join(path.trim_start_matches("/new/"))).unwrap_or_default();
        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let len = bytes.len();
        let (start, end) = match range.and_then(|range| range.split_once('-')) {
            None => (0, len),
            Some(("", last)) => (len.saturating_sub(last.parse().unwrap()), len),
            Some((first, last)) => (first.parse().unwrap(), len.min(last.parse::<usize>().unwrap() + 1)),
        };
        let status = match range {
            Some(_) => format!("206 Part\r\ncontent-range: bytes {start}-{}/{len}", end - 1),
            None => "200 OK".to_owned(),
        };
        let rest = format!("content-length: {}\r\netag: \"a\"\r\nconnection: close", end - start);
        stream.write_all(format!("HTTP/1.1 {status}\r\n{rest}\r\n\r\n").as_bytes())?;
        stream.write_all(&bytes[start..end])
    });
    let remote = opened(&format!("{}/old", served.origin()), &options()).unwrap();
    crate::remote::assert_same(&disk.open(), &remote);
}

#[test]
fn link_local_addresses_are_refused_except_for_credentials() {
    let begun = Instant::now();
    for url in ["http://169.254.169.254/x", "http://2852039166/x", "http://[fe80::1]/x", "http://[::ffff:a9fe:a9fe]/x"]
    {
        let error = said(&opened(url, &options()).unwrap_err());
        assert!(error.contains("is a link-local address"), "{error}");
    }
    for (url, options) in &stores("http://169.254.170.2")[1..] {
        let error = said(&opened(url, options).unwrap_err());
        assert!(error.contains("`169.254.170.2` is a link-local address"), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    // A link-local address is permitted for a cloud's own credential provider.
    let asked = Liar::always("HTTP/1.1 404 Not found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let mut options = options();
    options.set("aws_metadata_endpoint", &asked.origin()).unwrap();
    let error = said(&opened("s3://bucket/data", &options).unwrap_err());
    assert!(!error.contains("link-local") && !asked.seen().is_empty(), "{error}");
}

#[test]
fn an_unreachable_endpoint_is_named_by_its_variable() {
    let environment = |endpoint: &str| options().environment([("AWS_ENDPOINT".to_owned(), endpoint.to_owned())]);
    for endpoint in ["localhost:9000", "http://", "http://[::1", "http://a b", "http://localhost:99999", "ftp://x"] {
        let error = said(&opened("s3://bucket/data", &environment(endpoint)).unwrap_err());
        assert!(error.contains("`AWS_ENDPOINT`: expected a URL"), "{endpoint}: {error}");
        assert!(error.contains(&format!("`{endpoint}`")), "{endpoint}: {error}");
    }
    let error = opened("s3://bucket/data", &environment("http://127.0.0.1:9000")).unwrap_err();
    let hint = error.hint().map(|hint| hint.to_string()).unwrap_or_default();
    assert!(said(&error).contains("connections to `http://127.0.0.1:9000` are not encrypted"), "{error}");
    assert!(hint.contains("AWS_ALLOW_HTTP=true"), "{hint}");
}

#[test]
fn an_insecure_connection_fails_at_once() {
    let garbage: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(20);
    for (answer, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..], "the server does not use TLS on this port"),
        (&garbage, "the server does not use TLS on this port"),
        // The server answers with a TLS alert about the protocol version.
        (&[0x15, 3, 1, 0, 2, 2, 0x46], "ProtocolVersion"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/data", listener.local_addr().unwrap());
        let answer = answer.to_vec();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Read the request first. Otherwise the connection would be reset before the response arrives.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&answer);
            }
        });
        let error = said(&opened(&url, &options()).unwrap_err());
        assert!(
            error.contains("cannot make a secure connection to `127.0.0.1:") && error.contains(expected),
            "{error}"
        );
        assert!(error.contains("attempt 1"), "{error}");
    }
}

#[test]
fn a_dripping_answer_ends_with_an_error() {
    let drip = Liar::start(|head, stream| {
        let first = head.lines().find_map(|line| line.strip_prefix("range: bytes=")?.split('-').next());
        let status = match first {
            Some(first) => format!("206 Part\r\ncontent-range: bytes {first}-99999/100000"),
            None => "200 OK".to_owned(),
        };
        let left = 100_000 - first.map_or(0, |first| first.parse::<u64>().unwrap());
        stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: {left}\r\netag: \"a\"\r\n\r\n").as_bytes())?;
        loop {
            stream.write_all(b" ")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let begun = Instant::now();
    let error = said(&opened(&format!("{}/data", drip.origin()), &options()).unwrap_err());
    assert!(
        error.contains("slower than the option `min_rate` allows (1000 bytes/s)") && error.contains("attempt 2"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
    let late = Liar::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let error = said(&opened(&format!("{}/data", late.origin()), &options()).unwrap_err());
    assert!(error.contains("no response within 1.5s"), "{error}");
}

#[test]
fn a_cancelled_wait_ends_soon() {
    let disk = Disk::alike(&[3]);
    for stage in ["open", "read", "list"] {
        let server = Server::start(disk.path(), move |request| match request.number {
            0 if stage != "open" => Answer::Right,
            _ => Answer::Silence,
        });
        let cancel = Arc::new(AtomicBool::new(false));
        let options = StoreOptions { cancel: Some(Arc::clone(&cancel)), ..StoreOptions::default() };
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            cancel.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        let error = match stage {
            "list" => shardpack_store::Remote::at(&server.url(), &options)
                .and_then(|remote| shardpack_io::Storage::list(&remote))
                .unwrap_err()
                .into(),
            _ => opened(&server.url(), &options).and_then(|dataset| dataset.get(0)).unwrap_err(),
        };
        if stage != "list" {
            assert!(said(&error).contains("was cancelled"), "{error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{stage}");
        later.join().unwrap();
    }
}

/// Each kind of store must repeat its requests as long as any reader waits for them.
#[test]
fn a_cancelled_call_sends_no_more_requests_and_others_continue() {
    let disk = Disk::alike(&[3; 70]);
    let mut options = options();
    (options.max_attempts, options.backoff) = (100_000, Duration::from_millis(5));
    for is_column in [false, true] {
        let is_well = Arc::new(AtomicBool::new(false));
        let well = Arc::clone(&is_well);
        let server = Server::start(disk.path(), move |request| {
            let is_right = well.load(Ordering::Relaxed) || request.path.ends_with(".json");
            if is_right { Answer::Right } else { Answer::Status(503) }
        });
        let dataset = opened(&server.url(), &options).unwrap();
        let first = dataset.shards().next().unwrap().name;
        let others = || server.requests().iter().filter(|request| !request.path.ends_with(&first)).count();
        let cancel = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| dataset.get(0));
            let called = scope.spawn(|| {
                shardpack_io::cancellable(&cancel, || match is_column {
                    true => dataset.shard_numbers().skip(1).try_for_each(|number| dataset.shard(number).map(drop)),
                    false => dataset.get_many(&(3..210).collect::<Vec<_>>()).map(drop),
                })
            });
            std::thread::sleep(Duration::from_millis(300));
            assert!(others() > 2, "the request is repeated while a reader waits");
            cancel.store(true, Ordering::Relaxed);
            assert!(said(&called.join().unwrap().unwrap_err()).contains("was cancelled"));
            std::thread::sleep(Duration::from_secs(1));
            let before = others();
            std::thread::sleep(Duration::from_secs(1));
            assert_eq!(others(), before, "column: {is_column}");
            is_well.store(true, Ordering::Relaxed);
            assert!(waiting.join().unwrap().is_ok(), "a request with waiting readers is not cancelled");
        });
        assert_eq!(dataset.get_many(&(0..210).collect::<Vec<_>>()).unwrap().len(), 210);
    }
}

#[test]
fn requests_name_the_program() {
    let asked = Liar::always("HTTP/1.1 404 Not found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    for (url, mut options) in stores(&asked.origin()) {
        let told = |options: &StoreOptions, agent: &str| {
            let before = asked.seen().len();
            assert!(opened(&url, options).is_err());
            let heads = asked.seen().split_off(before);
            let line = format!("\r\nuser-agent: {agent}\r\n");
            assert!(!heads.is_empty() && heads.iter().all(|head| head.contains(&line)), "{url}: {heads:?}");
        };
        told(&options, concat!("shardpack/", env!("CARGO_PKG_VERSION")));
        options.set("user_agent", "mine/1").unwrap();
        told(&options, "mine/1");
    }
}

/// Every way to open the dataset must report the real reason why the manifest cannot be read, even though the
/// server cannot list files.
#[test]
fn a_manifest_that_is_too_large_or_compressed_is_refused() {
    let answer = |head: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\n{head}connection: close\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    // A busy machine may need a long time to send several megabytes.
    let patient = StoreOptions {
        first_byte_timeout: Duration::from_secs(60),
        stall_timeout: Duration::from_secs(60),
        ..options()
    };
    let no_list = b"HTTP/1.1 501 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for (head, body, reason) in [
        ("content-encoding: gzip\r\n", vec![0x1f, 0x8b, 8, 0], "sends the object compressed (Content-Encoding: gzip)"),
        ("", vec![0x1f, 0x8b, 8, 0], "a gzip stream"),
        ("", vec![b' '; (64 << 20) + 1], "max_manifest_bytes"),
    ] {
        let whole = answer(head, &body);
        let server = Liar::start(move |head, stream| match head.starts_with("GET /data/manifest.json ") {
            true => stream.write_all(&whole),
            false => stream.write_all(no_list),
        });
        let url = format!("{}/data", server.origin());
        let error = said(&opened(&url, &patient).unwrap_err());
        assert!(error.contains(reason), "{error}");
        let said = match verify(&url, &VerifyOptions::default(), &patient) {
            Err(error) => said(&error),
            Ok(report) => format!("{:?}", report.problems),
        };
        // Remove the URL, because its port may contain the digits of the status.
        let said = said.replace(&url, "URL");
        assert!(said.contains(reason) && !said.contains("501"), "{said}");
    }
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}

#[test]
fn false_answers_fail_soon_and_take_little_memory() {
    let head = |status: &str, headers: &str| format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n");
    let long = "x".repeat(4 << 20);
    let many = (0..20_000).map(|n| format!("x-{n}: {n}\r\n")).collect::<String>();
    let lies: Vec<(&str, String, &str)> = vec![
        ("a length that does not come", head("200 OK", "content-length: 1000"), "{}"),
        ("a length that is too short", head("200 OK", "content-length: 1"), "{}"),
        ("a length of all there is", head("200 OK", "content-length: 18446744073709551615"), "{}"),
        ("a length below zero", head("200 OK", "content-length: -1"), "{}"),
        ("two lengths", head("200 OK", "content-length: 1\r\ncontent-length: 2"), "{}"),
        ("no length", head("200 OK", "etag: \"a\""), "{}"),
        ("a part of nothing", head("206 Part", "content-length: 2"), "{}"),
        ("a part of another range", head("206 Part", "content-range: bytes 7-8/100\r\ncontent-length: 2"), "{}"),
        (
            "a part that ends before it begins",
            head("206 Part", "content-range: bytes 9-2/100\r\ncontent-length: 2"),
            "{}",
        ),
        ("a part without sense", head("206 Part", "content-range: \u{7f}\r\ncontent-length: 2"), "{}"),
        ("headers of megabytes", head("200 OK", &format!("x: {long}\r\ncontent-length: 2")), "{}"),
        ("many headers", head("200 OK", &format!("{many}content-length: 2")), "{}"),
        ("a tag of megabytes", head("200 OK", &format!("etag: \"{long}\"\r\ncontent-length: 2")), "{}"),
        ("no HTTP", "SSH-2.0-OpenSSH_9.6\r\n".to_owned(), ""),
        ("nothing", String::new(), ""),
        ("a status that is none", head("999999 Odd", "content-length: 0"), ""),
        ("a switch of protocols", head("101 Switching", "upgrade: h2c\r\nconnection: upgrade"), ""),
        ("an answer without a reader", head("204 Nothing", "etag: \"a\""), ""),
        ("a time that is none", head("200 OK", "last-modified: never\r\ncontent-length: 2"), "{}"),
    ];
    for (lie, head, body) in lies {
        let liar = Liar::always([head.as_bytes(), body.as_bytes()].concat());
        for (url, options) in stores(&liar.origin()) {
            let begun = Instant::now();
            let error = said(&opened(&url, &options).map(|_| lie).unwrap_err());
            assert!(begun.elapsed() < Duration::from_secs(8), "{lie}: {:?}", begun.elapsed());
            assert!(error.len() < 1000 && !error.contains("hunter2"), "{lie}: {error}");
        }
        assert!(liar.seen().len() < 40, "{lie}: {}", liar.seen().len());
    }
}

#[test]
fn answers_without_an_end_take_no_memory() {
    let piece = [b"10000\r\n", &[b'<'; 0x1_0000][..], b"\r\n"].concat();
    for status in ["200 OK", "206 Part", "400 Bad", "403 No", "404 Nothing", "500 Broken", "207 Multi"] {
        let piece = piece.clone();
        let endless = Liar::start(move |_, stream| {
            stream.write_all(format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n").as_bytes())?;
            loop {
                stream.write_all(&piece)?;
            }
        });
        let before = resident();
        for (url, options) in stores(&endless.origin()) {
            let begun = Instant::now();
            let error = said(&opened(&url, &options).unwrap_err());
            assert!(error.len() < 1000 && !error.contains("hunter2"), "{status}: {error}");
            let listed = shardpack_store::Remote::at(&url, &options)
                .and_then(|remote| shardpack_io::Storage::list(&remote).map(|names| names.len()));
            // A server without folders returns an empty listing instead of an error for a missing folder.
            assert!(listed.is_err() || status.starts_with("404"), "{status} {url}: {listed:?}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{status}: {:?}", begun.elapsed());
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 512 << 20, "{status}: {grown}");
    }
}
