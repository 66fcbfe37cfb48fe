//! Tests packing, verifying, loading, resuming, merging and caching with an independent implementation of S3: the
//! server of the crate `s3s-fs`, which runs in this process. Unlike S3, the server answers with status 500 if a request
//! asks for more bytes from the end than the object has. The reader asks for the last 64 KiB, so the shards in these
//! tests are larger.
#![cfg(test)]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../../crates/loader/tests/loader_support/mod.rs"]
mod loader_support;
#[path = "../../crates/store/tests/store/made/mod.rs"]
mod made;
#[path = "../../crates/reader/tests/support/mod.rs"]
mod support;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use loader_support::{Disk, Seen, epoch};
use made::{Bytes, SAMPLES, assert_empty, expected, options};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_io::{Objects as _, Storage as _};
use shardpack_reader::{Dataset, DatasetOptions, VerifyOptions};
use shardpack_store::{Remote, StoreOptions, Upload, open, verify};
use shardpack_writer::{
    Bucket, Reservation, Error, Outcome, Part, Progress, Report, Result, WriteOptions, merge, write_dataset,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const URL: &str = "s3://bucket/data/train";

/// A server with one empty bucket, `bucket`.
struct Server {
    root: tempfile::TempDir,
    endpoint: String,
    /// Stops the server when it is dropped.
    _runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(root.path()).unwrap());
        service.set_auth(SimpleAuth::from_single("someone", "hunter2hunter2"));
        let service = service.build();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let connection = auto::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { root, endpoint, _runtime: runtime }
    }

    fn options(&self) -> StoreOptions {
        let mut options = made::store_options();
        for (key, value) in [
            ("aws_access_key_id", "someone"),
            ("aws_secret_access_key", "hunter2hunter2"),
            ("aws_region", "us-east-1"),
            ("aws_endpoint", &self.endpoint),
            ("aws_allow_http", "true"),
        ] {
            options.set(key, value).unwrap();
        }
        options
    }

    fn upload(&self) -> Upload {
        self.upload_until(None)
    }

    fn upload_until(&self, cancel: Option<Arc<AtomicBool>>) -> Upload {
        Upload::at(URL, &StoreOptions { cancel, ..self.options() }).unwrap()
    }

    fn place(&self, spools: &Path) -> Bucket {
        Bucket::new(Arc::new(self.upload()), spools)
    }

    /// Returns the objects, which the server keeps as files.
    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(self.root.path().join("bucket/data/train")).unwrap().map(|entry| entry.unwrap());
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
    }
}

fn write(place: Bucket, source: &Bytes) -> Result<Report> {
    write_dataset(place, &source.plan(), source, &options())
}

fn records(dataset: &Dataset) -> Vec<Vec<u8>> {
    dataset.iter().unwrap().map(|sample| sample.unwrap().record_bytes().to_vec()).collect()
}

fn loaded(dataset: &Dataset) -> Vec<Seen> {
    let options = LoaderOptions::default().batch_size(7).seed(3).threads(3);
    epoch(&mut Loader::open(dataset, options).unwrap())
}

#[test]
fn a_packed_dataset_is_whole_and_refuses_another() {
    let (server, spools, source) = (Server::start(), tempfile::tempdir().unwrap(), Bytes::large(0));
    let report = write(server.place(spools.path()), &source).unwrap();
    assert_eq!((report.outcome, report.samples), (Outcome::Complete, SAMPLES));
    assert!(server.objects() == expected(&source));
    assert_empty(spools.path());
    let deep = VerifyOptions { digest: true, ..Default::default() };
    let found = verify(URL, &deep, &server.options()).unwrap();
    assert!(found.is_whole() && found.samples == SAMPLES && found.notes.is_empty(), "{found:?}");
    assert_eq!(records(&open(URL, &DatasetOptions::new(), &server.options()).unwrap()).len() as u64, SAMPLES);
    let error = write(server.place(spools.path()), &Bytes::new(1)).unwrap_err();
    assert!(matches!(error, Error::Format(shardpack_format::Error::Usage(_))), "{error}");
    let mut wrong = server.options();
    wrong.set("aws_secret_access_key", "another").unwrap();
    let error = open(URL, &DatasetOptions::new(), &wrong).unwrap_err().to_string();
    assert!(error.contains("the store denied access (SignatureDoesNotMatch)") && !error.contains("another"), "{error}");
}

#[test]
fn a_stopped_run_continues_and_another_machine_takes_over() {
    let source = Bytes::new(0);
    for elsewhere in [false, true] {
        let server = Server::start();
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let on_progress = |progress: &Progress| stop.store(progress.samples >= SAMPLES / 2, Ordering::Relaxed);
        let watched = WriteOptions { on_progress: Some(&on_progress), ..options() };
        let place = Bucket::new(Arc::new(server.upload_until(Some(Arc::clone(&stop)))), here.path());
        write_dataset(place, &source.plan(), &source, &watched).unwrap_err();
        let sent = server.objects();
        assert!(sent.contains_key(".shardpack-lock") && sent.len() > 1, "{:?}", sent.keys());
        let begun = source.encoded.load(Ordering::Relaxed);
        let report = if elsewhere {
            let refused = write(server.place(there.path()), &source).unwrap_err();
            assert!(matches!(refused, Error::Locked { .. }), "{refused}");
            write(server.place(there.path()).take_over(true), &source).unwrap()
        } else {
            write(server.place(here.path()), &source).unwrap()
        };
        assert_eq!(source.encoded.load(Ordering::Relaxed) - begun + report.samples_reused, SAMPLES);
        assert_eq!(report.samples_reused > 0, !elsewhere);
        assert!(server.objects() == expected(&source));
    }
}

#[test]
fn the_second_reservation_of_a_folder_is_refused() {
    let (server, spools) = (Server::start(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let reservation = Reservation::take(server.place(spools[0].path()), false).unwrap();
    let refused = Reservation::take(server.place(spools[1].path()), false).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    drop(reservation);
    Reservation::take(server.place(spools[1].path()), false).unwrap();
}

#[test]
fn parts_are_merged_into_the_same_objects() {
    let (server, source) = (Server::start(), Bytes::new(0));
    let machines: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    for (number, machine) in (0..).zip(&machines) {
        let part = WriteOptions { part: Some(Part::new(number, 3).unwrap()), ..options() };
        let report = write_dataset(server.place(machine.path()), &source.plan(), &source, &part).unwrap();
        assert_eq!(report.outcome, Outcome::PartComplete);
    }
    assert_eq!(merge::<()>(server.place(machines[1].path())).unwrap().outcome, Outcome::Complete);
    assert!(server.objects() == expected(&source));
}

#[test]
fn it_is_loaded_and_cached_as_from_the_disk() {
    let (server, disk, folder) = (Server::start(), Disk::varied(&[400, 300]), tempfile::tempdir().unwrap());
    let (upload, local) = (server.upload(), disk.open());
    for entry in std::fs::read_dir(disk.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        upload.send(name, &mut std::fs::File::open(&path).unwrap(), &|_| {}).unwrap();
    }
    let right = (records(&local), loaded(&local));
    let mut fetched = Vec::new();
    for cache in [None, Some("cache"), Some("cache")] {
        let options = StoreOptions { cache: cache.map(|name| folder.path().join(name)), ..server.options() };
        let remote = Arc::new(Remote::at(URL, &options).unwrap());
        let dataset = DatasetOptions::new().open_in(Arc::clone(&remote) as _).unwrap();
        assert!((records(&dataset), loaded(&dataset)) == right, "{cache:?}");
        let traffic = remote.traffic();
        assert_eq!((traffic.retries, traffic.cache.dropped, traffic.cache.failed_writes), (0, 0, 0));
        fetched.push((traffic.fetched_bytes, traffic.cache.hits));
    }
    let [_, (filling, _), (cached, hits)] = fetched[..] else { panic!("{fetched:?}") };
    // Even with a full cache, some bytes are fetched: the manifest, and the header and the end of each shard.
    assert!(hits > 0 && cached < filling / 2, "{fetched:?}");
}

#[test]
fn an_object_of_several_parts_arrives_in_order() {
    let server = Server::start();
    let bytes: Vec<u8> = (0..40_u32 << 18).flat_map(u32::to_le_bytes).collect();
    assert_eq!(server.upload().send("large.shard", &mut &bytes[..], &|_| {}).unwrap(), bytes.len() as u64);
    assert!(server.objects()["large.shard"] == bytes);
}
