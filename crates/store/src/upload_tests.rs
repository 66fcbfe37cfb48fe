use super::*;
use async_trait::async_trait;
use object_store::PutResult;
use object_store::memory::InMemory;
use shardpack_io::{Objects as _, Storage as _};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Fails the requests of parts that `fails` names by their number, from 0.
struct Faulty {
    store: Arc<InMemory>,
    asked: AtomicU64,
    aborted: Arc<AtomicU64>,
    fails: fn(u64) -> bool,
    /// Parts that are on their way, and the most of them.
    under_way: Arc<(AtomicU64, AtomicU64)>,
}

impl Faulty {
    fn next(&self) -> object_store::Result<()> {
        if (self.fails)(self.asked.fetch_add(1, Ordering::Relaxed)) {
            return Err(object_store::Error::Generic { store: "test", source: "hunter2 broke".into() });
        }
        Ok(())
    }
}

#[async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, path: &Key) -> object_store::Result<MultipartId> {
        self.next()?;
        self.store.create_multipart(path).await
    }

    async fn put_part(
        &self,
        path: &Key,
        id: &MultipartId,
        part: usize,
        data: PutPayload,
    ) -> object_store::Result<PartId> {
        let now = self.under_way.0.fetch_add(1, Ordering::Relaxed) + 1;
        self.under_way.1.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.under_way.0.fetch_sub(1, Ordering::Relaxed);
        self.next()?;
        self.store.put_part(path, id, part, data).await
    }

    async fn complete_multipart(
        &self,
        path: &Key,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> object_store::Result<PutResult> {
        self.next()?;
        self.store.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &Key, id: &MultipartId) -> object_store::Result<()> {
        self.aborted.fetch_add(1, Ordering::Relaxed);
        self.store.abort_multipart(path, id).await
    }
}

fn upload(fails: fn(u64) -> bool) -> (Upload, Arc<InMemory>, Arc<AtomicU64>) {
    watched(fails, &Arc::default())
}

fn watched(fails: fn(u64) -> bool, under_way: &Arc<(AtomicU64, AtomicU64)>) -> (Upload, Arc<InMemory>, Arc<AtomicU64>) {
    let (store, aborted) = (Arc::new(InMemory::new()), Arc::new(AtomicU64::new(0)));
    let under_way = Arc::clone(under_way);
    let (asked, gone) = (AtomicU64::new(0), Arc::clone(&aborted));
    let parts = Faulty { store: Arc::clone(&store), asked, aborted: gone, fails, under_way };
    let mut options = StoreOptions { backoff: Duration::from_millis(1), max_attempts: 3, ..StoreOptions::default() };
    options.set("aws_secret_access_key", "hunter2").unwrap();
    let both: Writable = (Arc::clone(&store) as Arc<dyn ObjectStore>, Arc::new(parts));
    (Upload::start(both, Key::from("train"), "s3://bucket/train", &options).unwrap(), store, aborted)
}

fn stored(upload: &Upload, store: &InMemory, name: &str) -> Option<Bytes> {
    let get = async { store.get(&Key::from(format!("train/{name}"))).await?.bytes().await };
    upload.client.wait(get).unwrap().ok()
}

fn content(bytes: usize) -> Vec<u8> {
    (0..=250_u8).rev().cycle().take(bytes).collect()
}

#[test]
fn objects_of_all_sizes_arrive_though_each_second_request_fails() {
    for bytes in [0, 5, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 7] {
        let (upload, store, aborted) = upload(|number| number % 2 == 0);
        let source = content(bytes);
        assert_eq!(upload.send("a.shard", &mut source.as_slice()).unwrap(), bytes as u64);
        assert!(stored(&upload, &store, "a.shard").unwrap() == source, "{bytes}");
        assert_eq!((upload.traffic().retries > 0, aborted.load(Ordering::Relaxed)), (bytes >= PART_BYTES, 0));
    }
}

#[test]
fn some_parts_are_on_their_way_at_once_and_arrive_in_order() {
    let under_way = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let (upload, store, _) = watched(|number| number % 3 == 0, &under_way);
    let source = content(6 * PART_BYTES + 5);
    assert_eq!(upload.send("a.shard", &mut source.as_slice()).unwrap(), source.len() as u64);
    assert!(stored(&upload, &store, "a.shard").unwrap() == source);
    assert_eq!(under_way.1.load(Ordering::Relaxed), PARTS_AT_A_TIME as u64);
}

#[test]
fn what_fails_for_good_leaves_no_object_and_tells_no_secret() {
    // The first part, the second, the end.
    for fails in [|number| number >= 1, |number| number >= 2, |number| number >= 3] as [fn(u64) -> bool; 3] {
        let (upload, store, aborted) = upload(fails);
        let error = upload.send("a.shard", &mut content(PART_BYTES + 1).as_slice()).unwrap_err();
        let text = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(text.contains("s3://bucket/train/a.shard") && text.contains("attempt 3"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!((stored(&upload, &store, "a.shard"), aborted.load(Ordering::Relaxed)), (None, 1));
    }
}

#[test]
fn a_source_that_breaks_leaves_no_object() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let (upload, store, aborted) = upload(|_| false);
    let error = upload.send("a.shard", &mut content(PART_BYTES).as_slice().chain(Broken)).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("the disk is gone"), "{error}");
    assert_eq!((stored(&upload, &store, "a.shard"), aborted.load(Ordering::Relaxed)), (None, 1));
}

#[test]
fn what_is_created_is_never_replaced() {
    let (upload, store, _) = upload(|_| false);
    assert!(upload.create("manifest.json", b"one").unwrap());
    assert!(upload.create("manifest.json", b"one").unwrap(), "the same is as good");
    assert!(!upload.create("manifest.json", b"two").unwrap());
    assert!(!upload.create("manifest.json", b"longer").unwrap());
    assert_eq!(stored(&upload, &store, "manifest.json").unwrap(), "one");
}

#[test]
fn places_that_cannot_be_written_to_are_refused() {
    for url in ["http://host/train", "file:///train", "train", "s3://bucket/train/a.shard"] {
        let error = Upload::at(url, &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Usage { .. }), "{url}: {error}");
    }
    let (upload, ..) = upload(|_| false);
    assert!(upload.send("../a.shard", &mut &b""[..]).is_err());
}
