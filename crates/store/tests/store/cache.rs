//! Tests that a cache on a local disk returns correct bytes or none, and changes only its own files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::loader_support::Disk;
use crate::server::{Answer, Server};
use shardpack_io::{CacheStats, Storage as _};
use shardpack_loader::order::Mode;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::{Dataset, DatasetOptions};
use shardpack_store::{CacheFolder, Remote, StoreOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};

fn options(cache: &Path) -> StoreOptions {
    StoreOptions { cache: Some(cache.into()), ..StoreOptions::default() }
}

fn records(dataset: &Dataset) -> Vec<Vec<u8>> {
    dataset.iter().unwrap().map(|sample| sample.unwrap().record_bytes().to_vec()).collect()
}

fn read(url: &str, options: &StoreOptions) -> (Vec<Vec<u8>>, CacheStats) {
    let remote = Arc::new(Remote::at(url, options).unwrap());
    let dataset = DatasetOptions::new().open_in(Arc::clone(&remote) as _).unwrap();
    (records(&dataset), remote.traffic().cache)
}

fn blocks(cache: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|extension| extension == "block")).collect()
}

fn disk() -> Disk {
    Disk::varied(&[2000, 1500])
}

#[test]
fn the_second_read_comes_from_the_cache_except_wrong_blocks() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let (cache, right) = (folder.path().join("cache"), records(&disk.open()));
    let (first, filled) = read(&server.url(), &options(&cache));
    assert!(first == right && filled.misses > 0 && filled.failed_writes == 0, "{filled:?}");
    let (second, stats) = read(&server.url(), &options(&cache));
    assert!(second == right && stats.hits > 0 && stats.misses == 0, "{stats:?}");
    // The last MiB of a shard is stored in several cache files, so a file in the middle of it may be missing.
    let mut missed = 0;
    for path in blocks(&cache) {
        fs::remove_file(&path).unwrap();
        let (again, stats) = read(&server.url(), &options(&cache));
        assert!(again == right && stats.hits > 0, "{stats:?}");
        missed += stats.misses;
    }
    assert!(missed > 0);
    // Three kinds of damage: a truncated file, a flipped bit, and a wrong identity.
    for damage in 0..3 {
        let all = blocks(&cache);
        for path in &all {
            let mut bytes = fs::read(path).unwrap();
            match damage {
                0 => bytes.truncate(bytes.len() / 2),
                1 => *bytes.last_mut().unwrap() ^= 1,
                _ => bytes[20] ^= 1,
            }
            fs::write(path, bytes).unwrap();
        }
        let (again, stats) = read(&server.url(), &options(&cache));
        // Fetching a whole block replaces the smaller blocks inside it, some of them before any reader has opened
        // them.
        assert!(again == right && (1..=all.len() as u64).contains(&stats.dropped), "{stats:?}");
        // If another thread drops a damaged file, the valid pages of the file still count as hits. Therefore it may
        // take a second read to fill the cache.
        let (again, stats) = read(&server.url(), &options(&cache));
        assert!(again == right && stats.dropped == 0, "{stats:?}");
        let (again, stats) = read(&server.url(), &options(&cache));
        assert!(again == right && stats.misses == 0 && stats.dropped == 0, "{stats:?}");
    }
    let precious = folder.path().join("precious");
    fs::write(&precious, "the only copy").unwrap();
    for path in blocks(&cache) {
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
    }
    assert_eq!(read(&server.url(), &options(&cache)).0, right);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "the only copy");
    // Make all writes fail: a file cannot be renamed to the name of a folder.
    for path in blocks(&cache) {
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    // Blocks of other sizes have different names, so some of them may be written before the first write fails.
    let (again, stats) = read(&server.url(), &options(&cache));
    assert!(again == right && stats.failed_writes > 0 && stats.dropped == 0, "{stats:?}");
}

#[test]
fn a_cache_is_listed_checked_and_cleared_while_it_is_used() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let [first, second] = [0, 1].map(|_| Server::start(disk.path(), |_| Answer::Right));
    let cache = folder.path().join("cache");
    assert!(CacheFolder::open(folder.path()).is_err());
    let right = records(&disk.open());
    for server in [&first, &second] {
        assert_eq!(read(&server.url(), &options(&cache)).0, right);
    }
    let opened = CacheFolder::open(&cache).unwrap();
    let datasets = opened.datasets().unwrap();
    let urls: Vec<&str> = datasets.iter().map(|dataset| dataset.url.as_str()).collect();
    let mut expected = [first.url(), second.url()];
    expected.sort();
    assert_eq!(urls, expected);
    let size = |paths: &[PathBuf]| paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let all = blocks(&cache);
    assert_eq!(datasets.iter().map(|dataset| dataset.blocks).sum::<u64>(), all.len() as u64);
    assert_eq!(datasets.iter().map(|dataset| dataset.bytes).sum::<u64>(), size(&all));
    assert!(datasets.iter().all(|dataset| dataset.objects >= 2));
    // Three kinds of damage follow: a damaged page, a damaged header, and a block with the name of another block.
    let check = opened.verify().unwrap();
    assert_eq!((check.whole.blocks, check.damaged.blocks), (all.len() as u64, 0));
    let flip = |path: &Path, at: fn(usize) -> usize| {
        let mut bytes = fs::read(path).unwrap();
        let at = at(bytes.len());
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    flip(&all[0], |len| len - 1);
    flip(&all[1], |_| 20);
    fs::copy(&all[2], &all[3]).unwrap();
    let check = opened.verify().unwrap();
    assert_eq!((check.whole.blocks, check.damaged.blocks), (all.len() as u64 - 3, 3));
    assert_eq!(opened.verify().unwrap().damaged.blocks, 0);
    // First remove only the blocks of one dataset, then all others.
    let removed = opened.clear(Some(&first.url())).unwrap();
    assert!(removed.blocks > 0);
    let left = opened.datasets().unwrap();
    assert_eq!(left.iter().map(|dataset| &dataset.url).collect::<Vec<_>>(), [&second.url()]);
    let removed = opened.clear(None).unwrap();
    assert_eq!((removed.blocks, blocks(&cache).len()), (left[0].blocks, 0));
    assert_eq!(read(&first.url(), &options(&cache)).0, right);
}

/// Reads two epochs in random order, with a cache of `halves` times half the dataset's size. Returns the size of the
/// dataset in MiB and the number of files in the cache.
fn random_order(halves: u64) -> (u64, u64) {
    // Each record has about 20 KiB, so a page can contain three. All records together have 24 MiB.
    let made = |id| crate::loader_support::Made { id, height: 128, width: 128, said_height: 128, half: false };
    let (disk, folder) = (Disk::new(&[1200], made), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Late(2));
    let stored: u64 = disk.open().shards().map(|shard| shard.bytes).sum();
    let cache = folder.path().join("cache");
    // The read-ahead window of 4 MiB is a sixth of the dataset.
    let options = StoreOptions { read_ahead_bytes: 4 << 20, cache_bytes: halves * stored / 2, ..options(&cache) };
    let remote = Arc::new(Remote::at(&server.url(), &options).unwrap());
    let dataset = DatasetOptions::new().open_in(Arc::clone(&remote) as _).unwrap();
    let options = LoaderOptions::default().threads(2).mode(Mode::Full);
    let mut loader = Loader::open(&dataset, options).unwrap();
    let mut epoch = |number: u32| {
        let before = remote.traffic();
        loader.set_epoch(number).unwrap();
        while let Some(batch) = loader.next_batch() {
            batch.unwrap();
        }
        let after = remote.traffic();
        (after.fetched_bytes - before.fetched_bytes, after.cache.hit_bytes - before.cache.hit_bytes)
    };
    let (fetched, _) = epoch(0);
    assert!(fetched < stored + stored / 10, "{fetched} of {stored}");
    // Some blocks are written only after the epoch has ended, so a few bytes may be fetched again.
    let (fetched, hit) = epoch(1);
    assert!(fetched < stored / 10, "{fetched} of {stored}");
    // A record of 20 KiB overlaps about two pages of 64 KiB, so up to six times its bytes are read from the cache.
    assert!(hit < 6 * stored, "{hit} of {stored}");
    (stored >> 20, blocks(&cache).len() as u64)
}

#[test]
fn a_random_order_fetches_each_byte_once_and_reads_little_more_than_it_wants() {
    let (size, files) = random_order(6);
    // There is one file per MiB, except for the last pages.
    assert!((size..=size + 8).contains(&files), "{files} files of {size} MiB");
    // If the cache may be too small for all blocks, it stores only the pages that were read.
    let (size, files) = random_order(3);
    assert!(files > 2 * size, "{files} files of {size} MiB");
}

#[test]
fn a_folder_that_is_not_a_cache_is_refused() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let refused = |cache: &Path| Remote::at(&server.url(), &options(cache)).unwrap_err().to_string();
    let before = fs::read_dir(disk.path()).unwrap().count();
    let error = refused(disk.path());
    assert!(error.contains("cannot be used as a cache, because it contains the file `"), "{error}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), before);
    let cache = folder.path().join("cache");
    Remote::at(&server.url(), &options(&cache)).unwrap();
    let (link, marker) = (folder.path().join("link"), cache.join("shardpack-cache"));
    std::os::unix::fs::symlink(&cache, &link).unwrap();
    refused(&link);
    let moved = folder.path().join("moved");
    fs::rename(&marker, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &marker).unwrap();
    assert!(refused(&cache).contains("its file `shardpack-cache` is damaged or unreadable"));
}

#[test]
fn the_bound_holds() {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let size = |cache: &Path| blocks(cache).iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>();
    let all = folder.path().join("all");
    read(&server.url(), &options(&all));
    let most = size(&all) * 2 / 3;
    let cache = folder.path().join("cache");
    let small = StoreOptions { cache_bytes: most, ..options(&cache) };
    let mut evicted = 0;
    for _ in 0..3 {
        let (found, stats) = read(&server.url(), &small);
        assert_eq!(found, records(&disk.open()));
        evicted += stats.evicted;
        assert!(size(&cache) <= most, "{} of {most}", size(&cache));
    }
    assert!(evicted > 0 && StoreOptions::default().set("cache_bytes", "1000").is_err());
}

/// Not a test itself. The tests below start processes that run this function.
#[test]
fn one_process_of_several() {
    let Ok(cache) = env::var("CACHE_OF_TEST") else { return };
    let found = digest(&read(&env::var("URL_OF_TEST").unwrap(), &options(Path::new(&cache))).0);
    assert_eq!(found.to_string(), env::var("DIGEST_OF_TEST").unwrap());
}

fn digest(records: &[Vec<u8>]) -> u32 {
    records.iter().fold(0, |crc: u32, bytes| crc.rotate_left(1) ^ crc32fast::hash(bytes))
}

fn start(url: &str, cache: &Path, right: &[Vec<u8>]) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "cache::one_process_of_several"]).stdout(Stdio::null());
    command
        .env("CACHE_OF_TEST", cache)
        .env("DIGEST_OF_TEST", digest(right).to_string())
        .env("URL_OF_TEST", url)
        .spawn()
        .unwrap()
}

/// Lets four processes fill an empty cache in parallel. Kills each process at a random moment while the cache is
/// being filled, unless the process ends first.
fn killed(rounds: u64) {
    let (disk, folder) = (disk(), tempfile::tempdir().unwrap());
    let server = Server::start(disk.path(), |_| Answer::Right);
    let (url, right) = (server.url(), records(&disk.open()));
    let cache = folder.path().join("cache");
    fs::write(folder.path().join("beside.block"), "not ours").unwrap();
    let begun = Instant::now();
    assert!(start(&url, &cache, &right).wait().unwrap().success());
    let whole = begun.elapsed();
    let (mut chance, mut unfinished) = (0x9E37_79B9_7F4A_7C15_u64, 0);
    for _ in 0..rounds {
        blocks(&cache).iter().for_each(|path| fs::remove_file(path).unwrap());
        let begun = Instant::now();
        let mut all: Vec<(Duration, Child)> = (0..4)
            .map(|_| {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                (whole.mul_f64((chance >> 11) as f64 / (1_u64 << 53) as f64), start(&url, &cache, &right))
            })
            .collect();
        all.sort_by_key(|(moment, _)| *moment);
        for (moment, child) in &mut all {
            std::thread::sleep(moment.saturating_sub(begun.elapsed()));
            child.kill().unwrap();
            unfinished += u64::from(!child.wait().unwrap().success());
        }
        let (found, stats) = read(&url, &options(&cache));
        assert!(found == right && stats.dropped == 0, "{stats:?}");
    }
    assert!(unfinished > 0, "all had ended before");
    let mut all: Vec<Child> = (0..4).map(|_| start(&url, &cache, &right)).collect();
    assert!(all.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(read(&url, &options(&cache)).1.misses, 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the cache folder has no other files");
    assert_eq!(fs::read_to_string(folder.path().join("beside.block")).unwrap(), "not ours");
}

#[test]
fn killed_processes_leave_no_wrong_block() {
    killed(5);
}

#[test]
#[ignore = "takes minutes: scripts/check.sh --long"]
fn processes_that_are_killed_500_times_leave_no_wrong_block() {
    killed(125);
}

/// An in-memory file system of fixed size, which a test can fill up.
#[cfg(target_os = "linux")]
struct Small(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl Small {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        Self(folder).run(&["mount", "-t", "tmpfs", "-o", &format!("size={size}"), "none"])
    }

    fn remount(self, how: &str) -> Option<Self> {
        self.run(&["mount", "-o", &format!("remount,{how}")])
    }

    fn run(self, command: &[&str]) -> Option<Self> {
        let done = Command::new(command[0]).args(&command[1..]).arg(self.0.path()).stderr(Stdio::null()).status();
        done.is_ok_and(|done| done.success()).then_some(self)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).stderr(Stdio::null()).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
fn a_full_disk_keeps_earlier_blocks_and_a_read_only_disk_is_read() {
    let disk = Disk::varied(&[2000, 1500]);
    let server = Server::start(disk.path(), |_| Answer::Right);
    let right = records(&disk.open());
    let Some(full) = Small::mount("1200k") else {
        eprintln!("skipped: this user may not mount a file system");
        return;
    };
    let cache = full.0.path().join("cache");
    let (first, filled) = read(&server.url(), &options(&cache));
    assert!(first == right && filled.failed_writes > 0, "{filled:?}");
    let mut all: Vec<Child> = (0..4).map(|_| start(&server.url(), &cache, &right)).collect();
    assert!(all.iter_mut().all(|child| child.wait().unwrap().success()));
    let kept = blocks(&cache);
    let unfinished = fs::read_dir(&cache)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "unfinished"));
    assert!(!kept.is_empty() && unfinished.count() == 0);
    let (second, stats) = read(&server.url(), &options(&cache));
    assert!(second == right && stats.hits > 0 && stats.misses > 0 && stats.dropped == 0, "{stats:?}");
    let Some(_read_only) = full.remount("ro") else { panic!("what was mounted cannot be mounted again") };
    let (third, stats) = read(&server.url(), &options(&cache));
    assert!(third == right && stats.hits > 0 && stats.misses > 0 && stats.dropped == 0, "{stats:?}");
    assert_eq!(blocks(&cache), kept);
}
