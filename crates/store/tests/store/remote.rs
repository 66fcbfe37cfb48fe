//! Tests that reading over HTTP has the same results as reading from disk, despite faults of the server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::loader_support::{Disk, epoch};
use crate::server::{Answer, Request, Server};
use shardpack_io::Objects as _;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::{Dataset, DatasetOptions, VerifyOptions, verify};
use shardpack_store::{Remote, StoreOptions, Upload, open};
use std::time::Duration;

fn options() -> StoreOptions {
    StoreOptions { backoff: Duration::from_millis(1), ..StoreOptions::default() }
}

fn opened(server: &Server, options: &StoreOptions) -> Dataset {
    open(&server.url(), &DatasetOptions::new(), options).unwrap()
}

fn loaded(dataset: &Dataset, seed: u64) -> Vec<crate::loader_support::Seen> {
    let options = LoaderOptions::default().batch_size(7).seed(seed).threads(3);
    let mut loader = Loader::open(dataset, options).unwrap();
    let first = epoch(&mut loader);
    loader.set_epoch(1).unwrap();
    [first, epoch(&mut loader)].concat()
}

fn streamed(dataset: &Dataset) -> Vec<Vec<u8>> {
    dataset.iter().unwrap().map(|sample| sample.unwrap().record_bytes().to_vec()).collect()
}

/// Checks that both datasets return the same data, for every way of reading.
pub fn assert_same(local: &Dataset, remote: &Dataset) {
    assert_eq!(streamed(remote), streamed(local));
    assert_eq!(loaded(remote, 3), loaded(local, 3));
    assert_eq!(remote.labels().unwrap(), local.labels().unwrap());
    let last = local.len() - 1;
    for index in [0, last, last / 2] {
        assert_eq!(remote.get(index).unwrap().record_bytes(), local.get(index).unwrap().record_bytes());
        assert_eq!(remote.by_key(&local.key(index).unwrap()).unwrap(), Some(index));
    }
    let many: Vec<u64> = (0..=last).rev().step_by(3).collect();
    let all = |dataset: &Dataset| {
        let samples = dataset.get_many(&many).unwrap();
        samples.iter().map(|sample| sample.record_bytes().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(all(remote), all(local));
}

#[test]
fn a_store_returns_the_same_as_a_disk() {
    let disk = Disk::varied(&[40, 1, 0, 90]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let remote = opened(&server, &options());
    assert_same(&disk.open(), &remote);
    assert_eq!(remote.traffic().retries, 0);
    assert!(remote.traffic().peak_held_bytes <= remote.read_ahead_bytes());
    let (there, here) = (VerifyOptions { digest: true, ..Default::default() }, VerifyOptions::default());
    for (options, threads) in [(&there, 1), (&here, 3)] {
        let options = VerifyOptions { threads, ..options.clone() };
        let report = shardpack_store::verify(&server.url(), &options, &self::options()).unwrap();
        let local = verify(disk.path(), &options).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!((report.samples, report.bytes, report.shards), (local.samples, local.bytes, local.shards));
        assert_eq!(report.notes.len(), 1, "nothing lists files there: {:?}", report.notes);
    }
}

#[test]
fn the_uploaded_objects_are_the_dataset() {
    let disk = Disk::varied(&[40, 1, 0, 90]);
    let store = std::sync::Arc::new(object_store::memory::InMemory::new());
    let upload = Upload::new(store.clone(), "train", &options()).unwrap();
    let entries = std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.extension().is_some_and(|extension| extension == "shard")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = upload.send(name, &mut std::fs::File::open(&path).unwrap(), &|_| {}).unwrap();
        assert_eq!(bytes, path.metadata().unwrap().len());
    }
    assert!(upload.create("manifest.json", &std::fs::read(disk.path().join("manifest.json")).unwrap()).unwrap());
    let remote = || std::sync::Arc::new(Remote::new(store.clone(), "train", &options()).unwrap());
    assert_same(&disk.open(), &DatasetOptions::new().open_in(remote()).unwrap());
    let whole = VerifyOptions { digest: true, ..Default::default() };
    let report = shardpack_reader::verify_in(remote(), None, &whole).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
}

#[test]
fn a_manifest_and_a_shard_can_be_named() {
    let disk = Disk::alike(&[5, 6]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let name = |name: &str| format!("{}/{name}", server.url());
    let whole = open(&name("manifest.json"), &DatasetOptions::new(), &options()).unwrap();
    assert_eq!(whole.len(), 11);
    let shard = open(&name("shard-00001.shard"), &DatasetOptions::new(), &options()).unwrap();
    assert_eq!((shard.len(), streamed(&shard)), (6, streamed(&disk.open())[5..].to_vec()));
    assert_eq!(shard.path().to_str(), Some(name("shard-00001.shard").as_str()));
    let report = shardpack_store::verify(&name("shard-00001.shard"), &VerifyOptions::default(), &options()).unwrap();
    assert_eq!((report.is_whole(), report.samples), (true, 6));
}

#[test]
fn a_manifest_takes_one_request_and_a_shard_two_parallel_requests() {
    let disk = Disk::alike(&[20; 12]);
    let server = Server::start(disk.path(), |_| Answer::Late(30));
    let remote = opened(&server, &options());
    assert_eq!(server.requests().len(), 1);
    remote.labels().unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 1 + 2 * 12, "{requests:?}");
    assert!(server.peak() > 4, "side by side: {}", server.peak());
}

#[test]
fn a_temporary_failure_is_retried() {
    let disk = Disk::varied(&[60, 70]);
    let local = disk.open();
    let faults: [fn(&Request) -> Answer; 6] = [
        |request| if request.again == 0 { Answer::Status(503) } else { Answer::Right },
        |request| if request.number % 3 == 1 { Answer::Cut(30) } else { Answer::Right },
        // A response that is too short can be recognised only if the request has a range.
        |request| if request.range.is_some() && request.again < 2 { Answer::Less(10) } else { Answer::Right },
        |request| if request.again == 0 && request.number % 5 == 4 { Answer::Stall(20) } else { Answer::Right },
        |request| if request.again == 0 && request.number % 7 == 3 { Answer::Silence } else { Answer::Right },
        |request| match request.number % 4 {
            0 => Answer::Status(500),
            1 => Answer::Cut(1000),
            _ => Answer::Right,
        },
    ];
    for (number, rule) in faults.into_iter().enumerate() {
        let server = Server::start(disk.path(), rule);
        let options = StoreOptions {
            first_byte_timeout: Duration::from_millis(200),
            stall_timeout: Duration::from_millis(200),
            max_attempts: 40,
            ..options()
        };
        let remote = opened(&server, &options);
        assert_same(&local, &remote);
        assert!(remote.traffic().retries > 0, "rule {number}");
    }
}

#[test]
fn a_permanent_failure_names_object_range_and_attempt() {
    let disk = Disk::alike(&[30]);
    let of_shard = |answer: Answer| {
        move |request: &Request| match request.path.ends_with(".shard") && request.number > 3 {
            true => answer,
            false => Answer::Right,
        }
    };
    for (answer, expected) in [
        (Answer::Status(503), "status 503"),
        (Answer::Status(404), "no such object"),
        (Answer::Status(403), "denied access"),
        (Answer::Status(400), "status 400"),
        (Answer::Whole, "does not support ranges"),
        (Answer::Silence, "no response within"),
        (Answer::Stall(3), "no data arrived"),
        (Answer::OtherTag, "has changed since"),
    ] {
        let server = Server::start(disk.path(), of_shard(answer));
        let options = StoreOptions {
            first_byte_timeout: Duration::from_millis(300),
            stall_timeout: Duration::from_millis(300),
            max_attempts: 4,
            ..options()
        };
        let remote = opened(&server, &options);
        remote.shard(0).unwrap();
        let error = (0..5).find_map(|index| remote.get(index * 6).err()).expect("an error").to_string();
        assert!(error.contains(expected), "{answer:?}: {error}");
        assert!(error.contains("shard-00000.shard`: cannot read at offset"), "{answer:?}: {error}");
        assert!(error.contains("bytes ") && error.contains("attempt "), "{answer:?}: {error}");
    }
}

#[test]
fn versions_of_a_changed_object_are_never_mixed() {
    let disk = Disk::varied(&[200]);
    let server = Server::start(disk.path(), |request| match request.number {
        0..40 => Answer::Right,
        _ => Answer::OtherTag,
    });
    let remote = opened(&server, &options());
    let mut failed = 0;
    for index in 0..remote.len() {
        match remote.get(index) {
            Ok(sample) => assert_eq!(sample.record_bytes(), disk.open().get(index).unwrap().record_bytes()),
            Err(error) => {
                assert!(error.to_string().contains("has changed since"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn an_absent_server_is_reported_soon() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = open(&format!("http://{closed}/data"), &DatasetOptions::new(), &options()).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to `{closed}`: ")) && error.contains("attempt 3"), "{error}");
    // A custom endpoint is an option and is not part of the URL.
    let mut elsewhere = options();
    for (key, value) in [("aws_endpoint", &*format!("http://{closed}")), ("aws_skip_signature", "true")] {
        elsewhere.set(key, value).unwrap();
    }
    elsewhere.set("aws_allow_http", "true").unwrap();
    let error = open("s3://bucket/train", &DatasetOptions::new(), &elsewhere).unwrap_err().to_string();
    assert!(error.contains("`s3://bucket/train/manifest.json`"), "{error}");
    assert!(error.contains(&format!("cannot connect to `{closed}`: ")), "{error}");
    let disk = Disk::alike(&[3]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let error = open(&format!("{}/nothing", server.url()), &DatasetOptions::new(), &options()).unwrap_err().to_string();
    assert!(error.contains("no manifest.json and no shards"), "{error}");
}

#[test]
fn requests_are_parallel_large_and_within_the_memory() {
    let disk = large();
    let server = Server::start(disk.path(), |_| Answer::Late(20));
    let options = StoreOptions { read_ahead_bytes: 8 << 20, ..options() };
    let remote = opened(&server, &options);
    assert_eq!(streamed(&remote), streamed(&disk.open()));
    let traffic = remote.traffic();
    assert!(traffic.peak_held_bytes <= options.read_ahead_bytes, "{traffic:?}");
    let stored: u64 = remote.shards().map(|shard| shard.bytes).sum();
    let twice = traffic.fetched_bytes.saturating_sub(stored);
    assert!(twice < stored / 8, "{twice} of {stored} bytes were fetched twice");
    assert!(server.peak() > 1, "{}", server.peak());
}

#[test]
fn a_loader_keeps_many_requests_in_flight() {
    let disk = Disk::alike(&[300; 8]);
    let server = Server::start(disk.path(), |_| Answer::Late(30));
    let remote = opened(&server, &options());
    let options = LoaderOptions::default().batch_size(4).threads(2).mode(shardpack_loader::order::Mode::Full);
    let mut loader = Loader::open(&remote, options.clone()).unwrap();
    assert!(loader.predicted_bytes() > remote.read_ahead_bytes());
    let mut local = Loader::open(&disk.open(), options).unwrap();
    assert_eq!(epoch(&mut loader), epoch(&mut local));
    assert!(server.peak() >= 8, "each sample is a read of its own, and two threads read: {}", server.peak());
    assert_eq!(loader.stats().traffic, remote.traffic());
}

/// Returns a dataset of 24 MiB in three shards, with records of about 20 KiB.
fn large() -> Disk {
    let made = |id| crate::loader_support::Made { id, height: 128, width: 128, said_height: 128, half: false };
    Disk::new(&[400, 400, 400], made)
}

#[test]
fn an_epoch_in_random_order_requests_each_byte_once() {
    let disk = large();
    let server = Server::start(disk.path(), |_| Answer::Late(20));
    let remote = opened(&server, &options());
    let options = LoaderOptions::default().threads(2).mode(shardpack_loader::order::Mode::Full);
    let mut loader = Loader::open(&remote, options.clone()).unwrap();
    let before = remote.traffic();
    assert_eq!(epoch(&mut loader), epoch(&mut Loader::open(&disk.open(), options).unwrap()));
    let after = remote.traffic();
    let stored: u64 = remote.shards().map(|shard| shard.bytes).sum();
    let fetched = after.fetched_bytes - before.fetched_bytes;
    assert!(fetched < stored + stored / 50, "{fetched} of {stored}");
    assert!(after.requests - before.requests < remote.len() / 2, "{after:?}");
}

#[test]
fn the_next_epoch_is_requested_before_it_begins_if_an_epoch_has_followed_another() {
    let disk = large();
    let server = Server::start(disk.path(), |_| Answer::Late(5));
    let remote = opened(&server, &StoreOptions { read_ahead_bytes: 8 << 20, ..options() });
    let options = LoaderOptions::default().batch_size(16).threads(2);
    let (mut loader, mut local) =
        (Loader::open(&remote, options.clone()).unwrap(), Loader::open(&disk.open(), options).unwrap());
    let begin = |loader: &mut Loader, local: &mut Loader, number| {
        loader.set_epoch(number).unwrap();
        local.set_epoch(number).unwrap();
    };
    let same = |loader: &mut Loader, local: &mut Loader| assert_eq!(epoch(loader), epoch(local));
    let wait = || std::thread::sleep(Duration::from_millis(100));
    same(&mut loader, &mut local);
    let once = remote.traffic().requests;
    wait();
    assert_eq!(remote.traffic().requests, once, "a single read does not fetch more");
    begin(&mut loader, &mut local, 1);
    same(&mut loader, &mut local);
    wait();
    let stored: u64 = remote.shards().map(|shard| shard.bytes).sum();
    let ahead = remote.traffic().fetched_bytes - 2 * stored;
    assert!(ahead > 4 << 20, "{ahead} bytes of the next epoch");
    begin(&mut loader, &mut local, 2);
    same(&mut loader, &mut local);
    for number in [3, 7, 8, 9] {
        begin(&mut loader, &mut local, number);
        assert!(loader.next_batch().unwrap().is_ok() && local.next_batch().unwrap().is_ok());
        if number != 3 {
            same(&mut loader, &mut local);
        }
    }
    let fetched = remote.traffic().fetched_bytes;
    assert!(fetched < 9 * stored, "{fetched} of {stored}");
    assert!(remote.traffic().peak_held_bytes <= remote.read_ahead_bytes());
}

#[test]
fn readers_that_stop_in_the_middle_leave_room_for_others() {
    let disk = Disk::alike(&[2000, 2000]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let remote = opened(&server, &StoreOptions { read_ahead_bytes: 1 << 20, ..options() });
    for round in 0..5 {
        let mut stream = remote.stream().unwrap();
        for _ in 0..10 * round {
            stream.next_record().unwrap().unwrap();
        }
        drop(stream);
        let mut loader = Loader::open(&remote, LoaderOptions::default().seed(round)).unwrap();
        loader.next_batch().unwrap().unwrap();
    }
    assert_eq!(streamed(&remote), streamed(&disk.open()));
}

#[test]
fn a_slow_request_is_sent_twice_if_hedging_is_on() {
    let disk = Disk::alike(&[400]);
    let rule = |request: &Request| match request.number > 150 && request.number.is_multiple_of(50) {
        true => Answer::Silence,
        false => Answer::Right,
    };
    let server = Server::start(disk.path(), rule);
    let remote = opened(&server, &StoreOptions { hedge: true, ..options() });
    for index in 0..remote.len() {
        assert_eq!(remote.get(index).unwrap().index(), index);
    }
    assert!(remote.traffic().hedges >= 4 && remote.traffic().retries == 0, "{:?}", remote.traffic());
}

#[test]
fn s3_is_signed_listed_and_read() {
    let disk = Disk::varied(&[40, 50]);
    std::fs::write(disk.path().join("extra.shard"), b"x").unwrap();
    let server = Server::start(disk.path(), |_| Answer::Right);
    let endpoint = server.endpoint();
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_ENDPOINT", &endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_NONSENSE", "1"),
    ];
    let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut options = options().environment(variables);
    options.set("aws_region", "eu-west-7").unwrap();
    let remote = open("s3://data", &DatasetOptions::new(), &options).unwrap();
    assert_eq!(remote.path().to_str(), Some("s3://data/manifest.json"));
    assert_same(&disk.open(), &remote);
    for request in server.requests() {
        let signed = request.headers.iter().find(|(name, _)| name == "authorization").expect("a signature");
        assert!(signed.1.contains("AKIDEXAMPLE/") && signed.1.contains("/eu-west-7/s3/"), "{}", signed.1);
        assert!(!format!("{:?}", request.headers).contains("hunter2"));
    }
    let report = shardpack_store::verify("s3://data/", &VerifyOptions::default(), &options).unwrap();
    assert_eq!((report.is_whole(), report.samples), (true, 90));
    assert_eq!(report.notes, ["not verified: `extra.shard` is not in the manifest"]);
    options.set("aws_colour", "blue").unwrap();
    let error = open("s3://data", &DatasetOptions::new(), &options).unwrap_err().to_string();
    assert!(error.contains("`aws_colour`") && !error.contains("hunter2"), "{error}");
}

#[test]
fn azure_without_suffix_ranges_is_read() {
    let disk = Disk::varied(&[40, 0]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let (endpoint, mut options) = (server.endpoint(), options());
    for (key, value) in [
        ("azure_storage_account_name", "account"),
        ("azure_storage_account_key", "aHVudGVyMg=="),
        ("azure_endpoint", &endpoint),
        ("azure_allow_http", "true"),
    ] {
        options.set(key, value).unwrap();
    }
    let remote = open("az://data", &DatasetOptions::new(), &options).unwrap();
    assert_same(&disk.open(), &remote);
}

/// The test server imitates the XML interface of Google Cloud Storage, because no emulator is available.
#[test]
fn google_is_listed_and_read() {
    let disk = Disk::varied(&[40, 50]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let (endpoint, mut options) = (server.endpoint(), options());
    for (key, value) in
        [("google_base_url", &*endpoint), ("google_skip_signature", "true"), ("google_allow_http", "true")]
    {
        options.set(key, value).unwrap();
    }
    let remote = open("gs://data", &DatasetOptions::new(), &options).unwrap();
    assert_same(&disk.open(), &remote);
    let report = shardpack_store::verify("gs://data", &VerifyOptions::default(), &options).unwrap();
    assert_eq!((report.is_whole(), report.samples), (true, 90));
}

#[test]
fn any_object_store_will_do() {
    use object_store::ObjectStoreExt;
    let disk = Disk::varied(&[40, 0, 50]);
    let store = object_store::memory::InMemory::new();
    for entry in std::fs::read_dir(disk.path()).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("some/folder/{}", path.file_name().unwrap().to_str().unwrap());
        let key = key.as_str().into();
        let put = store.put(&key, std::fs::read(&path).unwrap().into());
        futures_util::FutureExt::now_or_never(put).expect("memory waits for nothing").unwrap();
    }
    let remote = shardpack_store::Remote::new(std::sync::Arc::new(store), "some/folder", &options()).unwrap();
    let storage: std::sync::Arc<dyn shardpack_io::Storage> = std::sync::Arc::new(remote);
    assert_same(&disk.open(), &DatasetOptions::new().open_in(std::sync::Arc::clone(&storage)).unwrap());
    let report = shardpack_reader::verify_in(storage, None, &VerifyOptions::default()).unwrap();
    assert!(report.is_whole() && report.notes.is_empty(), "{report:?}");
}

#[test]
fn announced_openings_can_be_dropped() {
    let disk = Disk::alike(&[3]);
    let server = Server::start(disk.path(), |_| Answer::Silence);
    let store = object_store::http::HttpBuilder::new()
        .with_url(server.endpoint())
        .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap();
    let remote = shardpack_store::Remote::new(std::sync::Arc::new(store), "data", &options()).unwrap();
    for number in 0..10_000 {
        shardpack_io::Storage::advise_open(&remote, &format!("shard-{number:05}.shard"));
    }
    drop(remote);
}
