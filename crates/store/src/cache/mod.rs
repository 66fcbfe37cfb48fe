//! A cache of object blocks in a local folder, which all processes on this machine may share.
//!
//! Each block is one file ([`block`]). Files are written under a temporary name and then renamed, so no locks
//! are needed: readers find only complete files, and check their CRC32s at every hit. All files are opened
//! relative to the folder, and symlinks are not followed.

mod block;
mod contents;
mod locks;
mod open_blocks;

pub(crate) use block::{CachedObject, PAGE, PageCheck, WHOLE, bytes_of, pages_of};
pub use contents::{BlockCount, CacheCheck, CacheFolder, CachedDataset};
pub(crate) use locks::BlockLocks;

use block::{PageSpan, is_block};
use bytes::Bytes;
use open_blocks::{OpenBlock, OpenBlocks};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, mkdir, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use shardpack_format::to_usize;
use shardpack_io::{CacheStats, Error, Result, advise_soon, is_cached};
use std::fs::{File, Metadata};
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name of the file that marks a folder as a cache.
const MARKER: &str = "shardpack-cache";
const MARK: &[u8] = b"shardpack cache of blocks, version 2\n";
/// A hit updates a block's modification time at most once in this period. Temporary files of killed processes are
/// removed at this age.
const HOUR: Duration = Duration::from_secs(3600);
/// A process scans the folder again each time it has written 1/`PART` of the cache size.
const PART: u64 = 32;

#[derive(Debug)]
pub(crate) struct Cache {
    folder: OwnedFd,
    /// Name of the store, including its endpoint.
    store: String,
    most: u64,
    stats: Mutex<CacheStats>,
    allowance: Mutex<WriteAllowance>,
    writes: Mutex<Writes>,
    /// Notified at the end of each write.
    written: Condvar,
    next: AtomicU64,
    is_off: AtomicBool,
    open: OpenBlocks,
}

#[derive(Debug, Default)]
struct WriteAllowance {
    left: u64,
    /// Number of bytes that are reserved for blocks and may not have been written yet.
    underway: u64,
}

#[derive(Debug, Default)]
struct Writes {
    /// Number of [`CacheWrite`]s.
    begun: usize,
    is_closed: bool,
}

/// Permission to write to the cache. [`Cache::close`] waits until it is dropped.
#[derive(Debug)]
pub(crate) struct CacheWrite(Arc<Cache>);

impl Cache {
    /// Opens the cache in a folder, or creates a new cache if the folder is empty.
    pub(crate) fn open(path: &Path, most: u64, store: String) -> Result<Self> {
        let fail = |source: io::Error| Error::io(path, "open the cache", source);
        match mkdir(path, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
            Err(error) => return Err(fail(error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).map_err(|error| fail(error.into()))?;
        let cache = Self {
            folder,
            store,
            most,
            stats: Mutex::default(),
            allowance: Mutex::default(),
            writes: Mutex::default(),
            written: Condvar::new(),
            next: AtomicU64::new(0),
            is_off: AtomicBool::new(false),
            open: OpenBlocks::new(most / PART),
        };
        let foreign = |name: &String| name != MARKER && !is_block(name) && !is_unfinished(name);
        let names = cache.names().map_err(fail)?;
        // Another process may be creating the marker right now.
        let is_new = names.iter().all(|name| is_unfinished(name)) && !names.iter().any(|name| name == MARKER);
        if is_new {
            cache.write(MARKER, &[MARK]).map_err(fail)?;
        }
        let refuse = |why: String| {
            Error::usage(format!("`{}` cannot be used as a cache, because {why}", path.display()))
                .with_hint("choose an empty folder for the cache")
        };
        if let Some(name) = names.iter().find(|name| foreign(name)) {
            return Err(refuse(format!("it contains the file `{name}`")));
        }
        let mut mark = Vec::new();
        let read = cache.file(MARKER).and_then(|(file, _)| file.take(1 << 10).read_to_end(&mut mark));
        if read.is_err() || mark != MARK {
            return Err(refuse(format!("its file `{MARKER}` is damaged or unreadable")));
        }
        Ok(cache)
    }

    pub(crate) fn stats(&self) -> CacheStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut CacheStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns true if `bytes` bytes fill at most half of the cache, which leaves the other half for other data.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        !self.is_off.load(Ordering::Relaxed) && bytes <= self.most / 2
    }

    pub(crate) fn object(&self, id: u64, key: &str, e_tag: &str, size: u64) -> CachedObject {
        let store = &self.store;
        let name = format!("{}:{store} {}:{key} {}:{e_tag}", store.len(), key.len(), e_tag.len());
        CachedObject { id, name, size }
    }

    /// Splits the pages into ranges, in order. Each range has its bytes, or `None` if they are missing or
    /// damaged.
    pub(crate) fn find(&self, object: &CachedObject, pages: &Range<u64>) -> Vec<(Range<u64>, Option<Bytes>)> {
        let mut found: Vec<(Range<u64>, Option<Bytes>)> = Vec::new();
        PageSpan::around(pages).for_each(|span| self.find_in(object, span, pages, &mut found));
        let holes = found.iter().filter(|(_, bytes)| bytes.is_none());
        let misses: usize = holes.map(|(range, _)| PageSpan::of(pages_of(range)).count()).sum();
        self.count(|stats| stats.misses += misses as u64);
        found
    }

    fn find_in(
        &self,
        object: &CachedObject,
        span: PageSpan,
        pages: &Range<u64>,
        found: &mut Vec<(Range<u64>, Option<Bytes>)>,
    ) {
        let wanted = span.within(pages);
        let bytes = bytes_of(&wanted, object.size);
        if bytes.is_empty() {
            return;
        }
        if let Some(hit) = self.get(object, span, &wanted) {
            found.push((bytes, Some(hit)));
        } else if let Some(halves) = span.halves() {
            halves.into_iter().for_each(|half| self.find_in(object, half, pages, found));
        } else if let Some((before, None)) = found.last_mut() {
            before.end = bytes.end;
        } else {
            found.push((bytes, None));
        }
    }

    fn get(&self, object: &CachedObject, span: PageSpan, pages: &Range<u64>) -> Option<Bytes> {
        let block = self.open_block(object, span)?;
        let wanted = bytes_of(pages, object.size);
        let mut bytes = vec![0; usize::try_from(wanted.end - wanted.start).ok()?];
        self.read_block(object, &block, &wanted, &mut bytes)?;
        Some(bytes.into())
    }

    fn open_block(&self, object: &CachedObject, span: PageSpan) -> Option<OpenBlock> {
        let (name, head_len) = span.file(object);
        let (file, meta) = self.file(&name).ok()?;
        Some(OpenBlock { span, file, meta, head_len })
    }

    fn read_block(&self, object: &CachedObject, block: &OpenBlock, wanted: &Range<u64>, out: &mut [u8]) -> Option<()> {
        let OpenBlock { span, file, .. } = block;
        if span.read(object, file, wanted, out).is_none() {
            self.open.close(object.id, *span);
            if self.drop_block(&span.file_name(object), file) {
                self.count(|stats| stats.dropped += 1);
            }
            return None;
        }
        self.count_hit(object, block, out.len());
        Some(())
    }

    /// Reads a block without comparing CRC32s. Returns `None` if the file does not have the length of the block.
    fn read_unchecked(
        &self,
        object: &CachedObject,
        block: &OpenBlock,
        wanted: &Range<u64>,
        out: &mut [u8],
    ) -> Option<()> {
        let OpenBlock { span, file, meta, head_len } = block;
        let all = span.bytes(object);
        if meta.len() != head_len + (all.end - all.start) {
            return None;
        }
        file.read_exact_at(out, head_len + wanted.start.checked_sub(all.start)?).ok()?;
        self.count_hit(object, block, out.len());
        Some(())
    }

    fn count_hit(&self, object: &CachedObject, block: &OpenBlock, bytes: usize) {
        if block.meta.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > HOUR)) {
            // In a read-only folder, this fails and the block keeps its old age.
            let _ = block.file.set_modified(SystemTime::now());
            // The next hit opens the file again, and learns its new age.
            self.open.close(object.id, block.span);
        }
        self.count(|stats| {
            stats.hits += 1;
            stats.hit_bytes += bytes as u64;
        });
    }

    /// Removes a damaged block. Returns false if another reader has already removed it. A new block with the same
    /// name is kept.
    fn drop_block(&self, name: &str, file: &File) -> bool {
        let aside = self.unfinished();
        // Renaming never follows a symlink.
        if let Err(error) = renameat(&self.folder, name, &self.folder, &aside) {
            // In a read-only folder, the damaged block cannot be removed, so every process checks it again.
            return error != Errno::NOENT;
        }
        let found = statat(&self.folder, &aside, AtFlags::SYMLINK_NOFOLLOW);
        let is_same = found.and_then(|found| Ok((found, fstat(file)?)));
        if is_same.is_ok_and(|(found, read)| (found.st_dev, found.st_ino) != (read.st_dev, read.st_ino)) {
            let _ = renameat(&self.folder, &aside, &self.folder, name);
            return false;
        }
        let _ = unlinkat(&self.folder, &aside, AtFlags::empty());
        true
    }

    /// Fills `buffer` up to the first byte that is not cached, and returns the number of bytes read. Runs on the
    /// reader's own thread, which avoids waking up another thread.
    pub(crate) fn read(&self, object: &CachedObject, check: PageCheck, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            let Some(block) = self.block_at(object, at) else { break };
            let wanted = at..block.span.bytes(object).end.min(at.saturating_add(rest.len() as u64));
            let len = to_usize(wanted.end.saturating_sub(wanted.start));
            let Some(out) = rest.get_mut(..len).filter(|out| !out.is_empty()) else { break };
            let is_read = check == PageCheck::None && self.read_unchecked(object, &block, &wanted, out).is_some();
            if !is_read && self.read_block(object, &block, &wanted, out).is_none() {
                break;
            }
            done += len;
        }
        done
    }

    /// Returns whether a byte of the cache is in the page cache. Returns `None` if the byte is not in the cache.
    pub(crate) fn is_in_memory(&self, object: &CachedObject, offset: u64) -> Option<bool> {
        let block = self.block_at(object, offset)?;
        is_cached(&block.file, block.head_len + offset.checked_sub(block.span.bytes(object).start)?)
    }

    /// Asks the operating system to read a range of the cache in advance. Returns false if a part of the range seems
    /// to be missing from the cache.
    pub(crate) fn advise(&self, object: &CachedObject, range: &Range<u64>) -> bool {
        let end = range.end.min(object.size);
        let mut at = range.start;
        while at < end {
            let Some(block) = self.block_at(object, at) else { return false };
            let all = block.span.bytes(object);
            let bytes = all.end.min(end).saturating_sub(at);
            // Add one page for the header, which is shorter than a page.
            advise_soon(&block.file, at - all.start, bytes.saturating_add(PAGE));
            at = all.end;
        }
        true
    }

    /// Returns an open block that contains this byte, or else the largest block. Looks only at file names.
    fn block_at(&self, object: &CachedObject, offset: u64) -> Option<Arc<OpenBlock>> {
        let spans = PageSpan::containing(offset / PAGE);
        if let Some(block) = self.open.find(object.id, spans.clone()) {
            return Some(block);
        }
        let block = Arc::new(spans.into_iter().find_map(|span| self.open_block(object, span))?);
        self.open.keep(object.id, &block);
        Some(block)
    }

    /// Returns `None` if the cache is closed.
    pub(crate) fn begin_write(self: &Arc<Self>) -> Option<CacheWrite> {
        let mut writes = self.writes();
        if writes.is_closed {
            return None;
        }
        writes.begun += 1;
        Some(CacheWrite(Arc::clone(self)))
    }

    /// Begins no more writes, and waits until those that have begun are done. Afterwards a caller can rely on the
    /// content of the folder, or delete it.
    pub(crate) fn close(&self) {
        let mut writes = self.writes();
        writes.is_closed = true;
        drop(self.written.wait_while(writes, |writes| writes.begun > 0).unwrap_or_else(PoisonError::into_inner));
    }

    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `pages`, whose content is `all`, to the cache. After a failed write, counts the error and never writes
    /// to the cache again from this process.
    fn put(&self, object: &CachedObject, pages: Range<u64>, all: &[u8]) {
        let mut rest = all;
        for span in PageSpan::of(pages) {
            if self.is_off.load(Ordering::Relaxed) {
                return;
            }
            let range = span.bytes(object);
            let len = to_usize(range.end - range.start);
            let Some((bytes, after)) = rest.split_at_checked(len) else { return };
            rest = after;
            let head = span.head(object, bytes);
            let whole = (head.len() + bytes.len()) as u64;
            let written = self.make_room(whole).and_then(|()| {
                let written = self.write(&span.file_name(object), &[&head, bytes]);
                self.allowance().underway -= whole;
                written
            });
            if written.is_err() {
                self.is_off.store(true, Ordering::Relaxed);
                self.count(|stats| stats.failed_writes += 1);
            }
        }
    }

    fn file(&self, name: &str) -> io::Result<(File, Metadata)> {
        // Opening a pipe would block without `NONBLOCK`.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(&self.folder, name, flags, Mode::empty())?);
        let meta = file.metadata()?;
        if meta.is_file() { Ok((file, meta)) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn unfinished(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{:x}-{number:x}.unfinished", std::process::id(), std::ptr::from_ref(self).addr())
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let unfinished = self.unfinished();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match openat(&self.folder, &unfinished, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => File::from(file),
            Err(error) => return Err(error.into()),
        };
        let written = write_together(&mut file, parts);
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

    /// Reserves space for `bytes` bytes. Scans the folder again each time this process has written 1/`PART` of the
    /// cache size, because other processes write too.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut allowance = self.allowance();
        if let Some(left) = allowance.left.checked_sub(bytes) {
            *allowance = WriteAllowance { left, underway: allowance.underway + bytes };
            return Ok(());
        }
        let mut blocks = Vec::new();
        for name in self.names()? {
            let is_block = is_block(&name);
            if !is_block && !is_unfinished(&name) {
                continue;
            }
            // Another process may have removed the file already, here and below.
            let Ok(stat) = statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let modified = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
            if is_block {
                blocks.push((modified, u64::try_from(stat.st_size).unwrap_or(0), name));
            } else if modified.elapsed().is_ok_and(|age| age > HOUR) {
                let _ = unlinkat(&self.folder, &name, AtFlags::empty());
            }
        }
        blocks.sort();
        // A file that is open keeps its space on disk.
        self.open.close_all();
        let part = (self.most / PART).max(bytes);
        let mut total = allowance.underway + blocks.iter().map(|(_, len, _)| len).sum::<u64>();
        for (_, len, name) in blocks {
            if total.saturating_add(part) <= self.most {
                break;
            }
            if unlinkat(&self.folder, &name, AtFlags::empty()).is_ok() {
                self.count(|stats| stats.evicted += 1);
            }
            total = total.saturating_sub(len);
        }
        *allowance = WriteAllowance { left: part - bytes, underway: allowance.underway + bytes };
        Ok(())
    }

    fn allowance(&self) -> MutexGuard<'_, WriteAllowance> {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheWrite {
    /// Writes `pages` of the object, whose content is `bytes`.
    pub(crate) fn put(&self, object: &CachedObject, pages: Range<u64>, bytes: &[u8]) {
        self.0.put(object, pages, bytes);
    }
}

impl Drop for CacheWrite {
    fn drop(&mut self) {
        self.0.writes().begun -= 1;
        self.0.written.notify_all();
    }
}

/// Writes all parts with one system call, if possible. Linux then keeps a block in few large pages, from which reading
/// is 5 % faster.
fn write_together(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut done = file.write_vectored(&slices)?;
    for part in parts {
        let (_, rest) = part.split_at(done.min(part.len()));
        done -= part.len() - rest.len();
        file.write_all(rest)?;
    }
    Ok(())
}

fn is_unfinished(name: &str) -> bool {
    let is_ours = |stem: &str| stem.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    name.strip_suffix(".unfinished").is_some_and(is_ours)
}
