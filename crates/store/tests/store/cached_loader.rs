//! Tests that a loader reads single records from the cache on the local disk, and gets right bytes from a damaged one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::loader_support::{Disk, Made, Seen, epoch};
use crate::server::{Answer, Server};
use shardpack_io::is_cached;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Loader, LoaderOptions, LoaderStats};
use shardpack_reader::{Dataset, DatasetOptions};
use shardpack_store::{StoreOptions, open};
use std::fs;
use std::path::{Path, PathBuf};

/// Makes records of about 40 kB, which are large enough to be read one by one.
fn disk() -> Disk {
    Disk::new(&[70, 50], |id| Made { id, height: 80, width: 80, said_height: 80, half: false })
}

fn options() -> LoaderOptions {
    LoaderOptions::default().batch_size(8).threads(2).mode(Mode::Full).end(End::Uneven)
}

/// Opens the dataset with a cache so small that only two of its blocks stay open.
fn remote(server: &Server, cache: &Path) -> Dataset {
    let options = StoreOptions { cache: Some(cache.into()), cache_bytes: 64 << 20, ..StoreOptions::default() };
    open(&server.url(), &DatasetOptions::new(), &options).unwrap()
}

/// Opens the dataset, and runs `between` before the loader reads its first batch.
fn load(server: &Server, cache: &Path, between: impl FnOnce()) -> (Vec<Seen>, LoaderStats) {
    let mut loader = Loader::open(&remote(server, cache), options()).unwrap();
    between();
    let seen = epoch(&mut loader);
    (seen, loader.stats())
}

fn blocks(cache: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|extension| extension == "block")).collect()
}

/// Changes every block: cuts it in half, or flips all bits of a byte in each 4 KiB after the header.
fn damage(cache: &Path, is_cut: bool) {
    for path in blocks(cache) {
        let mut bytes = fs::read(&path).unwrap();
        if is_cut {
            bytes.truncate(bytes.len() / 2);
        } else {
            bytes.iter_mut().skip(4096).step_by(4096).for_each(|byte| *byte = !*byte);
        }
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_loader_keeps_no_window_of_a_cached_dataset() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let cache = folder.path().join("cache");
    let right = epoch(&mut Loader::open(&disk.open(), options()).unwrap());
    let (first, stats) = load(&server, &cache, || ());
    assert!(first == right && stats.traffic.cache.misses > 0);
    let (second, stats) = load(&server, &cache, || ());
    assert!(second == right && stats.traffic.cache.misses == 0, "{:?}", stats.traffic);
    // Some file systems do not report the state of the page cache.
    let file = fs::File::open(&blocks(&cache)[0]).unwrap();
    assert_eq!(stats.window_in_page_cache, is_cached(&file, 0).is_some());
    // A record is read without the pages around it, which would double the bytes. Opening reads a few records.
    let stored: u64 = disk.open().shards().map(|shard| shard.bytes).sum();
    assert!(stats.traffic.cache.hit_bytes <= stored + stored / 4, "{:?} of {stored}", stats.traffic);
}

#[test]
fn a_loader_gets_right_bytes_from_a_cache_that_is_damaged_or_emptied_while_it_runs() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let cache = folder.path().join("cache");
    let right = epoch(&mut Loader::open(&disk.open(), options()).unwrap());
    for is_cut in [false, true] {
        assert!(load(&server, &cache, || ()).0 == right);
        let (seen, stats) = load(&server, &cache, || damage(&cache, is_cut));
        assert!(seen == right && stats.skipped == 0);
        assert!(stats.traffic.cache.dropped > 0, "{:?}", stats.traffic);
    }
    assert!(load(&server, &cache, || ()).0 == right);
    let remove = || blocks(&cache).iter().for_each(|path| fs::remove_file(path).unwrap());
    let (seen, stats) = load(&server, &cache, remove);
    assert!(seen == right && stats.traffic.cache.misses > 0, "{:?}", stats.traffic);
    // Without the CRC32 of records, the cache checks its pages.
    assert!(load(&server, &cache, || ()).0 == right);
    let unchecked = DatasetOptions::new().verify_crc(false);
    let options = StoreOptions { cache: Some(cache.clone()), ..StoreOptions::default() };
    let dataset = open(&server.url(), &unchecked, &options).unwrap();
    let mut loader = Loader::open(&dataset, self::options()).unwrap();
    damage(&cache, false);
    assert!(epoch(&mut loader) == right && loader.stats().traffic.cache.dropped > 0);
}
