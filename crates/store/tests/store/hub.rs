//! Tests that reading a dataset from the Hugging Face Hub has the same results as reading it from disk. The test
//! server behaves like the hub: it resolves a revision to a commit, serves small files itself, and redirects to
//! another server for large files.

use crate::attacks::said;
use crate::liar::{Liar, redirect};
use crate::loader_support::Disk;
use crate::remote::assert_same;
use crate::server::{Answer, Server};
use shardpack_io::Storage as _;
use shardpack_reader::{Dataset, DatasetOptions};
use shardpack_store::{Remote, StoreOptions, open};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TOKEN: &str = "hf_hunter2";

fn commit(number: u64) -> String {
    format!("{number:040x}")
}

struct Hub {
    server: Liar,
    /// Server that holds the shards. The hub itself serves only the manifest and redirects all other requests.
    files: Server,
}

impl Hub {
    /// Starts a hub that resolves the branch `main` to a new commit at each request: 1, 2, …
    fn start(disk: &Disk) -> Self {
        let files = Server::start(disk.path(), |_| Answer::Right);
        let (folder, elsewhere, commits) = (PathBuf::from(disk.path()), files.url(), AtomicU64::new(0));
        let server = Liar::start(move |head, stream| {
            let path = head.split(' ').nth(1).unwrap();
            let ok = |body: &[u8], tag: &str| {
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\n{tag}connection: close\r\ncontent-length: {length}\r\n\r\n");
                [head.as_bytes(), body].concat()
            };
            let refused = b"HTTP/1.1 401 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec();
            let answer = if !head.contains(&format!("\r\nauthorization: Bearer {TOKEN}\r\n")) {
                refused
            } else if path == "/api/datasets/me/photos/revision/main" {
                let number = commits.fetch_add(1, Ordering::Relaxed) + 1;
                ok(format!("{{\"id\": \"me/photos\", \"sha\": \"{}\"}}", commit(number)).as_bytes(), "")
            } else if path == "/api/datasets/me/photos/revision/refs%2Fpr%2F1" {
                ok(format!("{{\"sha\": \"{}\"}}", commit(1)).as_bytes(), "")
            } else {
                let name = path.strip_prefix(&format!("/datasets/me/photos/resolve/{}/a/train/", commit(1)));
                match name {
                    Some("manifest.json") => ok(&fs::read(folder.join("manifest.json")).unwrap(), "etag: \"m\"\r\n"),
                    Some(name) => redirect(302, &format!("{elsewhere}/{name}")).into_bytes(),
                    None => refused,
                }
            };
            stream.write_all(&answer)
        });
        Self { server, files }
    }

    fn options(&self) -> StoreOptions {
        let mut options = StoreOptions { backoff: Duration::from_millis(1), ..StoreOptions::default() };
        let origin = self.server.origin();
        for (key, value) in [("hf_endpoint", origin.as_str()), ("hf_token", TOKEN), ("allow_http", "true")] {
            options.set(key, value).unwrap();
        }
        options
    }

    fn open(&self, url: &str) -> shardpack_reader::Result<Dataset> {
        open(url, &DatasetOptions::new(), &self.options())
    }
}

#[test]
fn a_dataset_on_the_hub_is_read_at_one_commit_and_without_the_token_elsewhere() {
    let disk = Disk::varied(&[40, 1, 90]);
    let hub = Hub::start(&disk);
    let remote = hub.open("hf://datasets/me/photos/a/train").unwrap();
    assert_same(&disk.open(), &remote);
    let asked = hub.server.seen();
    let of_revisions = asked.iter().filter(|head| head.contains("/revision/")).count();
    assert_eq!(of_revisions, 1, "the branch moves with each request, so only one request may ask for it");
    let elsewhere = hub.files.requests();
    assert!(!elsewhere.is_empty());
    for request in elsewhere {
        assert!(request.headers.iter().all(|(name, _)| name != "authorization" && name != "cookie"), "{request:?}");
    }
}

#[test]
fn a_revision_may_be_a_commit_or_hold_slashes() {
    let disk = Disk::varied(&[30]);
    let hub = Hub::start(&disk);
    let shown = |revision: &str| format!("hf://datasets/me/photos@{revision}/a/train");
    assert_same(&disk.open(), &hub.open(&shown("refs%2Fpr%2F1")).unwrap());
    let before = hub.server.seen().len();
    assert_same(&disk.open(), &hub.open(&shown(&commit(1))).unwrap());
    assert!(hub.server.seen()[before..].iter().all(|head| !head.contains("/api/")), "a commit needs no question");
    assert_eq!(hub.open(&format!("{}/manifest.json", shown(&commit(1)))).unwrap().len(), 30);
}

#[test]
fn the_cache_serves_a_second_reader() {
    let disk = Disk::varied(&[50]);
    let (hub, folder) = (Hub::start(&disk), tempfile::tempdir().unwrap());
    let options = StoreOptions { cache: Some(folder.path().join("cache")), ..hub.options() };
    let url = format!("hf://datasets/me/photos@{}/a/train", commit(1));
    let read = || {
        let remote = Arc::new(Remote::at(&url, &options).unwrap());
        let dataset = DatasetOptions::new().open_in(Arc::clone(&remote) as _).unwrap();
        let samples: Vec<_> = dataset.iter().unwrap().map(|one| one.unwrap().record_bytes().to_vec()).collect();
        (samples, remote.traffic().cache)
    };
    let (first, filled) = read();
    let (second, cache) = read();
    assert!(first == second && filled.misses > 0 && cache.hits > 0 && cache.misses == 0, "{filled:?} {cache:?}");
}

#[test]
fn what_the_hub_does_not_show_is_an_error_with_a_hint_and_without_the_token() {
    let disk = Disk::varied(&[3]);
    let hub = Hub::start(&disk);
    for (url, reason) in [
        (
            "hf://datasets/me/others/train",
            "no dataset `me/others` with the revision `main`, or does not let you read it (status 401)",
        ),
        ("hf://datasets/me/photos@v7/a/train", "with the revision `v7`"),
        ("hf://datasets/me/photos/elsewhere", "requires credentials"),
        ("hf://datasets/me", "expected hf://datasets/OWNER/NAME"),
        ("hf://models/me/photos/train", "expected hf://datasets/OWNER/NAME"),
    ] {
        let error = said(&hub.open(url).unwrap_err());
        assert!(error.contains(reason) && !error.contains("hunter2"), "{url}: {error}");
    }
    let mut options = hub.options();
    options.set("hf_token", "wrong").unwrap();
    let error = open("hf://datasets/me/photos/a/train", &DatasetOptions::new(), &options).unwrap_err();
    assert!(format!("{:?}", error.hint()).contains("HF_TOKEN"), "{error}");
}

#[test]
fn another_server_that_redirects_again_does_not_get_the_token() {
    for to in ["/again", "http://127.0.0.1:1/again"] {
        let elsewhere = Liar::always(redirect(302, to));
        let target = format!("{}/data", elsewhere.origin());
        let hub = Liar::start(move |_, stream| stream.write_all(redirect(302, &target).as_bytes()));
        let mut options = StoreOptions { backoff: Duration::from_millis(1), ..StoreOptions::default() };
        for (key, value) in [("hf_endpoint", hub.origin().as_str()), ("hf_token", TOKEN), ("allow_http", "true")] {
            options.set(key, value).unwrap();
        }
        let url = format!("hf://datasets/me/photos@{}/train", commit(1));
        let error = said(&open(&url, &DatasetOptions::new(), &options).unwrap_err());
        assert!(error.contains("redirects"), "{to}: {error}");
        assert!(hub.seen().iter().all(|head| head.contains(TOKEN)));
        let seen = elsewhere.seen();
        assert!(!seen.is_empty() && seen.iter().all(|head| !head.contains(TOKEN)), "{to}: {seen:?}");
    }
}

#[test]
fn hostile_hubs_are_refused() {
    let mut options = StoreOptions { backoff: Duration::from_millis(1), ..StoreOptions::default() };
    options.set("hf_token", TOKEN).unwrap();
    let sha = commit(1);
    let answers = [
        ("a path in place of a commit", "{\"sha\": \"../../../x\"}".to_owned(), "contains no commit"),
        ("no JSON", "<html>".to_owned(), "contains no commit"),
        ("a link-local address", format!("{{\"sha\": \"{sha}\"}}"), "link-local"),
    ];
    for (name, body, reason) in answers {
        let server = Liar::start(move |head, stream| match head.contains("/revision/") {
            true => {
                let length = body.len();
                write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            }
            false => stream.write_all(redirect(302, "http://169.254.169.254/latest/meta-data").as_bytes()),
        });
        let mut options = options.clone();
        options.set("hf_endpoint", &server.origin()).unwrap();
        let unencrypted = said(&open("hf://datasets/a/b", &DatasetOptions::new(), &options).unwrap_err());
        assert!(unencrypted.contains("are not encrypted"), "{name}: {unencrypted}");
        options.set("allow_http", "true").unwrap();
        let error = said(&open("hf://datasets/a/b", &DatasetOptions::new(), &options).unwrap_err());
        assert!(error.contains(reason) && !error.contains("hunter2"), "{name}: {error}");
    }
}
