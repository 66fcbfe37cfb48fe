//! Blocks of objects in a folder of this machine, which all its processes may share.
//!
//! A block is one file: magic, length and CRC32, then which block it is, then its bytes. It is
//! written under another name and renamed, so no lock is needed: who finds it, finds it whole, and
//! the CRC32 of every hit says if not. All files are opened relative to the folder, and no link is
//! followed.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdir, openat, renameat, statat, unlinkat};
use sha2::{Digest, Sha256};
use shardpack_reader::{CacheStats, Error, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 1 << 20;
/// The file that says that the folder is a cache, and what it holds.
const MARKER: &str = "shardpack-cache";
const MARK: &[u8] = b"shardpack cache of blocks, version 1\n";
const MAGIC: &[u8] = b"SPBLOCK1";
/// Magic, length of the identity, CRC32.
const HEAD: usize = 16;
/// A file that is longer is none of ours.
const MOST: u64 = BLOCK + (1 << 16);
/// A hit moves a block to the young ones at most this often, and what is left of a process that
/// was killed goes after this time.
const HOUR: Duration = Duration::from_secs(3600);
/// Part of the bound that one process writes before it looks at the whole folder again.
const PART: u64 = 32;

#[derive(Debug)]
pub(crate) struct Cache {
    folder: OwnedFd,
    /// Which store and endpoint.
    store: String,
    most: u64,
    stats: Mutex<CacheStats>,
    room: Mutex<Room>,
    next: AtomicU64,
    is_off: AtomicBool,
}

/// What this process may write.
#[derive(Debug, Default)]
struct Room {
    /// Bytes before the folder is looked at again.
    left: u64,
    /// Bytes of blocks that have their room, and may not be in the folder yet.
    underway: u64,
}

impl Cache {
    /// Opens the cache in a folder, or begins one in an empty folder.
    pub(crate) fn open(path: &Path, most: u64, store: String) -> Result<Self> {
        let fail = |source: io::Error| Error::Io { path: path.into(), action: "open the cache", offset: None, source };
        match mkdir(path, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::ROFS) => {}
            Err(error) => return Err(fail(error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).map_err(|error| fail(error.into()))?;
        let cache = Self {
            folder,
            store,
            most,
            stats: Mutex::default(),
            room: Mutex::default(),
            next: AtomicU64::new(0),
            is_off: AtomicBool::new(false),
        };
        let foreign = |name: &String| name != MARKER && !is_block(name) && !is_unfinished(name);
        let names = cache.names().map_err(fail)?;
        // Before the marker comes, another process may see its unfinished file.
        let is_new = names.iter().all(|name| is_unfinished(name)) && !names.iter().any(|name| name == MARKER);
        if is_new {
            cache.write(MARKER, &[MARK]).map_err(fail)?;
        }
        let refuse = |found: String| {
            let expected = "an empty folder, or one that holds nothing but a cache";
            Error::usage(format!("cache `{}`", path.display()), expected, found)
        };
        if let Some(name) = names.iter().find(|name| foreign(name)) {
            return Err(refuse(format!("`{name}` in it\nhint: name a folder of its own")));
        }
        let mut mark = Vec::new();
        let read = cache.file(MARKER).and_then(|file| file.take(MOST).read_to_end(&mut mark));
        if read.is_err() || mark != MARK {
            return Err(refuse(format!("no right `{MARKER}` in it\nhint: name a folder of its own")));
        }
        Ok(cache)
    }

    pub(crate) fn stats(&self) -> CacheStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut CacheStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Which block it is, as its file says it.
    pub(crate) fn identity(&self, key: &str, e_tag: &str, size: u64, number: u64) -> String {
        let store = &self.store;
        format!("{}:{store} {}:{key} {}:{e_tag} {size} {number}", store.len(), key.len(), e_tag.len())
    }

    /// The bytes of a block, if they are there, and right.
    pub(crate) fn get(&self, identity: &str) -> Option<Vec<u8>> {
        let name = name(identity);
        let Ok(file) = self.file(&name) else {
            self.count(|stats| stats.misses += 1);
            return None;
        };
        let modified = file.metadata().and_then(|meta| meta.modified());
        let mut bytes = Vec::new();
        let read = (&file).take(MOST + 1).read_to_end(&mut bytes);
        if read.is_err() || !is_right(&bytes, identity) {
            // The name, never what a link leads to; its absence is as good.
            let _ = unlinkat(&self.folder, &name, AtFlags::empty());
            self.count(|stats| (stats.dropped, stats.misses) = (stats.dropped + 1, stats.misses + 1));
            return None;
        }
        if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > HOUR)) {
            // In a folder that is read only, it stays old.
            let _ = file.set_modified(SystemTime::now());
        }
        bytes.drain(..HEAD + identity.len());
        self.count(|stats| {
            stats.hits += 1;
            stats.hit_bytes += bytes.len() as u64;
        });
        Some(bytes)
    }

    /// Keeps a block. What fails is counted, and nothing more is written.
    pub(crate) fn put(&self, identity: &str, bytes: &[u8]) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let whole = (HEAD + identity.len() + bytes.len()) as u64;
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&u32::try_from(identity.len()).unwrap_or(u32::MAX).to_le_bytes());
        head.extend_from_slice(&crc(identity.as_bytes(), bytes).to_le_bytes());
        let parts: [&[u8]; 3] = [&head, identity.as_bytes(), bytes];
        let written = self.make_room(whole).and_then(|()| {
            let written = self.write(&name(identity), &parts);
            self.room().underway -= whole;
            written
        });
        if written.is_err() {
            self.is_off.store(true, Ordering::Relaxed);
            self.count(|stats| stats.failed_writes += 1);
        }
    }

    fn file(&self, name: &str) -> io::Result<File> {
        // A pipe would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(&self.folder, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{:x}-{:x}-{number:x}", std::process::id(), std::ptr::from_ref(self).addr());
        let unfinished = format!("{unique}.unfinished");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match openat(&self.folder, &unfinished, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => File::from(file),
            Err(error) => return Err(error.into()),
        };
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        let done = written.and_then(|()| Ok(renameat(&self.folder, &unfinished, &self.folder, name)?));
        if done.is_err() {
            let _ = unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        done
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Makes room for `bytes`: a process looks at all blocks whenever it has written a part of the
    /// bound, because others write too.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut room = self.room();
        if let Some(left) = room.left.checked_sub(bytes) {
            *room = Room { left, underway: room.underway + bytes };
            return Ok(());
        }
        let mut blocks = Vec::new();
        for name in self.names()? {
            let is_block = is_block(&name);
            if !is_block && !is_unfinished(&name) {
                continue;
            }
            // Another process may have been faster, here and below.
            let Ok(stat) = statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
            if is_block {
                blocks.push((modified, u64::try_from(stat.st_size).unwrap_or(0), name));
            } else if modified.elapsed().is_ok_and(|age| age > HOUR) {
                let _ = unlinkat(&self.folder, &name, AtFlags::empty());
            }
        }
        blocks.sort();
        let part = (self.most / PART).max(bytes);
        let mut total = room.underway + blocks.iter().map(|(_, len, _)| len).sum::<u64>();
        for (_, len, name) in blocks {
            if total.saturating_add(part) <= self.most {
                break;
            }
            if unlinkat(&self.folder, &name, AtFlags::empty()).is_ok() {
                self.count(|stats| stats.evicted += 1);
            }
            total = total.saturating_sub(len);
        }
        *room = Room { left: part - bytes, underway: room.underway + bytes };
        Ok(())
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_right(bytes: &[u8], identity: &str) -> bool {
    let parse = || {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (found, payload) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        Some(found == identity.as_bytes() && crc(found, payload) == u32::from_le_bytes(*sum))
    };
    parse().unwrap_or(false)
}

fn crc(identity: &[u8], bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(identity);
    crc.update(bytes);
    crc.finalize()
}

fn name(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.block")
}

fn is_block(name: &str) -> bool {
    let is_hex = |stem: &str| stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_suffix(".block").is_some_and(is_hex)
}

fn is_unfinished(name: &str) -> bool {
    let is_ours = |stem: &str| stem.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    name.strip_suffix(".unfinished").is_some_and(is_ours)
}
