//! Tests multipart uploads to an in-memory store with failing requests.

use crate::faulty::{Fault, Faulty};
use object_store::memory::InMemory;
use shardpack_io::{Error, Objects as _, Storage as _};
use shardpack_store::{StoreOptions, Upload};
use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PART_BYTES: usize = 16 << 20;
const PARTS_AT_A_TIME: usize = 4;

fn upload(fails: fn(u64) -> bool) -> (Upload, Arc<Faulty>) {
    let store = Arc::new(Faulty::new(&Arc::new(InMemory::new()), Fault::Parts(fails)));
    let mut options = StoreOptions { backoff: Duration::from_millis(1), max_attempts: 3, ..StoreOptions::default() };
    options.set("aws_secret_access_key", "hunter2").unwrap();
    (Upload::new(Arc::clone(&store), "train", &options).unwrap(), store)
}

fn stored(upload: &Upload, name: &str) -> Option<Vec<u8>> {
    match upload.read(name, u64::MAX) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            assert!(error.is_not_found(), "{error}");
            None
        }
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..=250_u8).rev().cycle().take(bytes).collect()
}

#[test]
fn objects_of_all_sizes_arrive_though_each_second_request_fails() {
    for bytes in [0, 5, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 7] {
        let (upload, store) = upload(|number| number % 2 == 0);
        let source = content(bytes);
        let parts = RefCell::new(Vec::new());
        let on_sent = |part: u64| parts.borrow_mut().push(part);
        assert_eq!(upload.send("a.shard", &mut source.as_slice(), &on_sent).unwrap(), bytes as u64);
        assert!(stored(&upload, "a.shard").unwrap() == source, "{bytes}");
        // A part counts once, though it is sent twice. The last part may arrive first.
        let mut expected: Vec<u64> = source.chunks(PART_BYTES).map(|part| part.len() as u64).collect();
        expected.resize(expected.len().max(1), 0);
        expected.sort_unstable();
        parts.borrow_mut().sort_unstable();
        assert_eq!(parts.into_inner(), expected);
        assert_eq!(
            (upload.traffic().retries > 0, store.parts.aborted.load(Ordering::Relaxed)),
            (bytes >= PART_BYTES, 0)
        );
    }
}

#[test]
fn some_parts_are_sent_in_parallel_and_arrive_in_order() {
    let (upload, store) = upload(|number| number % 3 == 0);
    let source = content(6 * PART_BYTES + 5);
    assert_eq!(upload.send("a.shard", &mut source.as_slice(), &|_| {}).unwrap(), source.len() as u64);
    assert!(stored(&upload, "a.shard").unwrap() == source);
    assert_eq!(store.parts.most_under_way.load(Ordering::Relaxed), PARTS_AT_A_TIME as u64);
}

#[test]
fn a_permanent_failure_leaves_no_object_and_shows_no_secret() {
    for fails in [|number| number >= 1, |number| number >= 2, |number| number >= 3] as [fn(u64) -> bool; 3] {
        let (upload, store) = upload(fails);
        let error = upload.send("a.shard", &mut content(PART_BYTES + 1).as_slice(), &|_| {}).unwrap_err();
        let text = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(text.contains("`train/a.shard`") && text.contains("attempt 3"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!((stored(&upload, "a.shard"), store.parts.aborted.load(Ordering::Relaxed)), (None, 1));
    }
}

#[test]
fn a_failing_source_leaves_no_object() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let (upload, store) = upload(|_| false);
    let error = upload.send("a.shard", &mut content(PART_BYTES).as_slice().chain(Broken), &|_| {}).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("the disk is gone"), "{error}");
    assert_eq!((stored(&upload, "a.shard"), store.parts.aborted.load(Ordering::Relaxed)), (None, 1));
}

#[test]
fn a_created_object_is_never_replaced() {
    let (upload, _) = upload(|_| false);
    assert!(upload.create("manifest.json", b"one").unwrap());
    assert!(upload.create("manifest.json", b"one").unwrap(), "an equal object counts as created");
    assert!(!upload.create("manifest.json", b"two").unwrap());
    assert!(!upload.create("manifest.json", b"longer").unwrap());
    assert_eq!(stored(&upload, "manifest.json").unwrap(), b"one");
}

#[test]
fn places_that_cannot_be_written_to_are_refused() {
    for url in ["http://host/train", "file:///train", "train", "s3://bucket/train/a.shard"] {
        let error = Upload::at(url, &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Usage { .. }), "{url}: {error}");
    }
    let (upload, ..) = upload(|_| false);
    assert!(upload.send("../a.shard", &mut &b""[..], &|_| {}).is_err());
}
