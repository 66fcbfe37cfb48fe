//! The format of a cache file. Each file stores one block: the block's object and range, and its bytes in
//! pages. Every page has its own CRC32, so a small read checks only the pages that it needs.
//!
//! | bytes | |
//! |---|---|
//! | 8 | magic |
//! | 4 | length of the identity |
//! | 4 | CRC32 of the identity and the CRC32s of the pages |
//! | | identity |
//! | 4 per page | CRC32s of the pages |
//! | | the pages; the last one of an object may be shorter |

use sha2::{Digest, Sha256};
use shardpack_format::{bug, to_hex, to_usize};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Size of a page in bytes. Pages are the unit of fetching and checking.
pub(crate) const PAGE: u64 = 64 << 10;
/// Number of pages in the largest block (1 MiB).
pub(crate) const WHOLE: u64 = 16;
const MAGIC: &[u8] = b"SPBLOCK2";
const HEAD: usize = 16;
/// Maximum length of an identity. URLs, keys and ETags are much shorter.
const MOST_IDENTITY: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct CachedObject {
    /// Number of the object among those that the cache has open.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The pages whose CRC32 a read compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCheck {
    /// All pages that contain a byte of the range. They are read as a whole.
    All,
    /// None, because the caller checks the bytes itself. Only the range is read.
    None,
}

/// A run of consecutive pages of an object. Its length is a power of two, and the number of its first page is a
/// multiple of the length. Only a few blocks can therefore contain a given page, and a reader can compute their
/// names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageSpan {
    first: u64,
    pages: u64,
}

impl PageSpan {
    /// Size of the largest block in bytes.
    pub(crate) const MOST_BYTES: u64 = WHOLE * PAGE;

    /// Returns all blocks that can contain a page, from the largest to the smallest.
    pub(crate) fn containing(page: u64) -> impl Iterator<Item = Self> + Clone {
        (0..=WHOLE.ilog2()).rev().map(move |level| Self { first: page >> level << level, pages: 1 << level })
    }

    /// Returns all blocks of the largest size that overlap these pages.
    pub(crate) fn around(pages: &Range<u64>) -> impl Iterator<Item = Self> {
        let numbers = pages.start / WHOLE..pages.end.div_ceil(WHOLE);
        numbers.map(|number| Self { first: number * WHOLE, pages: WHOLE })
    }

    /// Splits the pages into as few blocks as possible.
    pub(crate) fn of(pages: Range<u64>) -> impl Iterator<Item = Self> {
        let mut first = pages.start;
        std::iter::from_fn(move || {
            let rest = pages.end.checked_sub(first).filter(|rest| *rest > 0)?;
            let aligned = 1 << first.trailing_zeros().min(WHOLE.ilog2());
            let span = Self { first, pages: aligned.min(1 << rest.ilog2()) };
            first += span.pages;
            Some(span)
        })
    }

    pub(crate) fn halves(self) -> Option<[Self; 2]> {
        let pages = self.pages / 2;
        (pages > 0).then(|| [self.first, self.first + pages].map(|first| Self { first, pages }))
    }

    pub(crate) fn within(self, pages: &Range<u64>) -> Range<u64> {
        let end = (self.first + self.pages).min(pages.end);
        self.first.max(pages.start).min(end)..end
    }

    pub(crate) fn bytes(self, object: &CachedObject) -> Range<u64> {
        bytes_of(&(self.first..self.first + self.pages), object.size)
    }

    fn identity(self, object: &CachedObject) -> String {
        format!("{} {} {} {}", object.name, object.size, self.first, self.pages)
    }

    pub(crate) fn file_name(self, object: &CachedObject) -> String {
        name_of(&self.identity(object))
    }

    /// Returns the header of the block's file. `bytes` is the content that follows it.
    pub(crate) fn head(self, object: &CachedObject, bytes: &[u8]) -> Vec<u8> {
        let identity = self.identity(object);
        let sums: Vec<u8> = bytes.chunks(to_usize(PAGE)).flat_map(|page| crc32fast::hash(page).to_le_bytes()).collect();
        let mut head = MAGIC.to_vec();
        let identity_len = u32::try_from(identity.len()).unwrap_or_else(|_| bug("an object name of 4 GiB"));
        head.extend_from_slice(&identity_len.to_le_bytes());
        head.extend_from_slice(&sum_of(&identity, &sums).to_le_bytes());
        head.extend_from_slice(identity.as_bytes());
        head.extend_from_slice(&sums);
        head
    }

    /// Reads `wanted` into `out`, which must have the same length. Returns `None` if one of the pages is
    /// damaged. Each page is checked right after reading, while it is still in the CPU cache.
    pub(crate) fn read(self, object: &CachedObject, file: &File, wanted: &Range<u64>, out: &mut [u8]) -> Option<()> {
        let all = self.bytes(object);
        let (first, sums) = self.sums(object, file)?;
        let (mut rest, mut scratch) = (out, Vec::new());
        for (page, sum) in (self.first..).zip(sums.chunks_exact(4)).filter(|(page, _)| pages_of(wanted).contains(page))
        {
            let whole = bytes_of(&(page..page + 1), object.size);
            let part = whole.start.max(wanted.start)..whole.end.min(wanted.end);
            let (to, after) = rest.split_at_mut_checked(to_usize(part.end - part.start))?;
            rest = after;
            let len = to_usize(whole.end - whole.start);
            let bytes = if to.len() == len {
                &mut *to
            } else {
                scratch.resize(len, 0);
                &mut scratch[..]
            };
            file.read_exact_at(bytes, first + (whole.start - all.start)).ok()?;
            if crc32fast::hash(bytes).to_le_bytes() != sum {
                return None;
            }
            if to.len() < len {
                let from = to_usize(part.start - whole.start);
                to.copy_from_slice(scratch.get(from..from + to.len())?);
            }
        }
        rest.is_empty().then_some(())
    }

    /// Returns the name of the block's file, and the length of its header.
    pub(crate) fn file(self, object: &CachedObject) -> (String, u64) {
        let identity = self.identity(object);
        (name_of(&identity), self.head_len(object, &identity))
    }

    fn head_len(self, object: &CachedObject, identity: &str) -> u64 {
        let all = self.bytes(object);
        (HEAD + identity.len()) as u64 + (all.end - all.start).div_ceil(PAGE) * 4
    }

    /// Returns the offset of the first page and the CRC32s of all pages, or `None` if the file belongs to a
    /// different block.
    fn sums(self, object: &CachedObject, file: &File) -> Option<(u64, Vec<u8>)> {
        let identity = self.identity(object);
        let all = self.bytes(object);
        let mut head = vec![0; to_usize(self.head_len(object, &identity))];
        if file.metadata().ok()?.len() != head.len() as u64 + (all.end - all.start) {
            return None;
        }
        file.read_exact_at(&mut head, 0).ok()?;
        let rest = head.strip_prefix(MAGIC)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (found, sums) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        let right = found == identity.as_bytes() && sum_of(&identity, sums) == u32::from_le_bytes(*sum);
        right.then(|| (head.len() as u64, sums.to_vec()))
    }
}

/// The header of a cache file, for readers that do not know which block it contains.
#[derive(Debug)]
pub(crate) struct BlockHead {
    pub(crate) store: String,
    pub(crate) key: String,
    object: CachedObject,
    span: PageSpan,
}

impl BlockHead {
    /// Reads the header. Returns `None` if it is damaged.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut fixed = [0; HEAD];
        file.read_exact_at(&mut fixed, 0).ok()?;
        let (len, _) = fixed.strip_prefix(MAGIC)?.split_first_chunk()?;
        let len = u64::from(u32::from_le_bytes(*len));
        if len > MOST_IDENTITY || len > file.metadata().ok()?.len() {
            return None;
        }
        let mut identity = vec![0; to_usize(len)];
        file.read_exact_at(&mut identity, HEAD as u64).ok()?;
        let identity = String::from_utf8(identity).ok()?;
        let [pages, first, size, name] = identity.rsplitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
        let (store, rest) = counted(name)?;
        let (key, _) = counted(rest.strip_prefix(' ')?)?;
        let object = CachedObject { id: 0, name: name.to_owned(), size: size.parse().ok()? };
        let span = PageSpan { first: first.parse().ok()?, pages: pages.parse().ok()? };
        let is_span = span.pages.is_power_of_two() && span.pages <= WHOLE && span.first <= u64::MAX / PAGE - WHOLE;
        is_span.then(|| Self { store: store.to_owned(), key: key.to_owned(), object, span })
    }

    /// Returns true if the block belongs to the dataset at `url`.
    pub(crate) fn is_of(&self, url: &str) -> bool {
        let (store, url) = (self.store.trim_end(), url.trim_end().trim_end_matches('/'));
        store == url || store.split(' ').next() == Some(url)
    }

    /// Returns true if the file has the name of this block, and all its pages have correct checksums.
    pub(crate) fn is_whole(&self, name: &str, file: &File) -> bool {
        let wanted = self.span.bytes(&self.object);
        let mut bytes = vec![0; to_usize(wanted.end - wanted.start)];
        self.span.file_name(&self.object) == name && self.span.read(&self.object, file, &wanted, &mut bytes).is_some()
    }
}

/// Returns the name of the file with this identity.
fn name_of(identity: &str) -> String {
    to_hex(&Sha256::digest(identity.as_bytes())) + ".block"
}

/// Splits `5:store rest` into `store` and ` rest`.
fn counted(text: &str) -> Option<(&str, &str)> {
    let (len, rest) = text.split_once(':')?;
    rest.split_at_checked(len.parse().ok()?)
}

pub(crate) const fn pages_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / PAGE..bytes.end.div_ceil(PAGE)
}

pub(crate) fn bytes_of(pages: &Range<u64>, size: u64) -> Range<u64> {
    let end = pages.end.saturating_mul(PAGE).min(size);
    pages.start.saturating_mul(PAGE).min(end)..end
}

pub(crate) fn is_block(name: &str) -> bool {
    let is_hex = |stem: &str| stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_suffix(".block").is_some_and(is_hex)
}

fn sum_of(identity: &str, sums: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(identity.as_bytes());
    crc.update(sums);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(size: u64) -> CachedObject {
        CachedObject { id: 0, name: "5:store 3:key 3:tag".into(), size }
    }

    proptest! {
        #[test]
        fn blocks_hold_exactly_the_pages_and_each_page_is_found_from_above(first in 0_u64..100, count in 0_u64..100) {
            let pages = first..first + count;
            let spans: Vec<PageSpan> = PageSpan::of(pages.clone()).collect();
            let all: Vec<u64> = spans.iter().flat_map(|span| span.first..span.first + span.pages).collect();
            prop_assert_eq!(&all, &pages.clone().collect::<Vec<_>>());
            for span in &spans {
                prop_assert!(span.pages.is_power_of_two() && span.first % span.pages == 0 && span.pages <= WHOLE);
                let mut at = PageSpan::around(&span.within(&pages)).next().unwrap();
                while at != *span {
                    at = at.halves().unwrap().into_iter().find(|half| !half.within(&span.within(&pages)).is_empty()).unwrap();
                }
            }
            // At each end of the range, there is at most one block of each of the four smaller sizes. All other
            // blocks have the largest size.
            prop_assert!(spans.len() as u64 <= 8 + count / WHOLE);
        }
    }

    #[test]
    fn a_block_file_returns_its_pages_and_no_changed_bytes() {
        let object = object(3 * PAGE + 100);
        let [low, high] =
            PageSpan::around(&(0..1)).next().unwrap().halves().unwrap().map(|half| half.halves().unwrap()[0]);
        assert_eq!((low.bytes(&object), high.bytes(&object).is_empty()), (0..3 * PAGE + 100, true));
        let bytes: Vec<u8> = (0..3 * PAGE + 100).map(|at| (at % 251) as u8).collect();
        let whole = [low.head(&object, &bytes), bytes.clone()].concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("block");
        let read = |content: &[u8], object: &CachedObject, pages: Range<u64>| {
            std::fs::write(&path, content).unwrap();
            let wanted = bytes_of(&pages, object.size);
            let mut out = vec![0; to_usize(wanted.end - wanted.start)];
            low.read(object, &File::open(&path).unwrap(), &wanted, &mut out).map(|()| out)
        };
        for (pages, range) in [(0..4, 0..bytes.len()), (1..2, 65_536..131_072), (3..4, 196_608..196_708)] {
            assert_eq!(read(&whole, &object, pages).unwrap(), bytes[range]);
        }
        assert!(read(&whole[..whole.len() - 1], &object, 0..1).is_none());
        assert!(read(&[&whole[..], b"x"].concat(), &object, 0..1).is_none());
        assert!(read(&whole, &self::object(3 * PAGE + 99), 0..1).is_none());
        let first = whole.len() - bytes.len();
        for at in [0, 9, 13, 17, first - 1, first, first + 65_535] {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert!(read(&wrong, &object, 0..1).is_none(), "byte {at}");
        }
        let mut elsewhere = whole.clone();
        elsewhere[first + 65_536] ^= 1;
        assert!(read(&elsewhere, &object, 0..1).is_some() && read(&elsewhere, &object, 1..2).is_none());
    }
}
