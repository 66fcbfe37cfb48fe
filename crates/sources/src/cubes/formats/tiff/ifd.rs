//! The header and the chain of image file directories (IFD), classic and Big, in both byte orders.

use super::budget::Budget;
use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use shardpack_base::tiff::{TiffEntry, TiffWords, value_width};
use shardpack_format::to_usize;
use std::rc::Rc;

/// Most pages that are followed.
const MAX_PAGES: usize = 65_536;

/// Most entries of one directory; the classic format cannot count further.
const MAX_ENTRIES: u64 = 65_535;

/// Longest value of one tag: a table of 2 million chunks.
const MAX_VALUE: u64 = 16 << 20;

/// Longest text or list of metadata: in JSON it takes tens of times as much.
const MAX_META: u64 = 1 << 20;

/// All directories of a file.
pub(super) struct Directories {
    pub(super) ifds: Vec<Ifd>,
}

/// One directory: its entries as in the file.
pub(super) struct Ifd {
    order: TiffWords,
    entries: Vec<IfdEntry>,
    budget: Rc<Budget>,
}

struct IfdEntry {
    tag: u16,
    kind: u16,
    count: u64,
    /// The field that holds the value, or its offset if it is longer than the field; 4 bytes or 8.
    field: [u8; 8],
}

impl Directories {
    pub(super) fn open(source: &CubeFile) -> Result<Self> {
        let head = source.prefix(16)?;
        let bad = || source.format("TIFF header", "a whole one", format_args!("`{}`", head.escape_ascii()));
        let order = TiffWords::of(&head).ok_or_else(bad)?;
        let mut next = order.first(&head).ok_or_else(bad)?;
        if order.big_tiff && order.uint(head.get(4..6).ok_or_else(bad)?) != 8 {
            return Err(source.format("BigTIFF offset size", 8, order.uint(head.get(4..6).ok_or_else(bad)?)));
        }
        let mut seen = std::collections::HashSet::new();
        let mut ifds = Vec::new();
        let budget = Rc::new(Budget::new(source));
        while next != 0 {
            if !seen.insert(next) {
                return Err(source.format("chain of TIFF pages", "an end", format_args!("a loop at offset {next}")));
            }
            if ifds.len() == MAX_PAGES {
                return Err(source.format("TIFF pages", format_args!("at most {MAX_PAGES}"), "more"));
            }
            let (ifd, after) = Ifd::read(source, order, next, &budget)?;
            ifds.push(ifd);
            next = after;
        }
        Ok(Self { ifds })
    }
}

impl Ifd {
    /// The directory at `offset`, and the offset of the next.
    fn read(source: &CubeFile, order: TiffWords, offset: u64, budget: &Rc<Budget>) -> Result<(Self, u64)> {
        let (count_bytes, stride) = (order.count_bytes(), order.entry_bytes());
        let count = order.uint(&source.read_at("TIFF directory", offset, count_bytes)?);
        if count > MAX_ENTRIES {
            return Err(source.format("entries of a TIFF directory", format_args!("at most {MAX_ENTRIES}"), count));
        }
        let start = offset + count_bytes;
        let table_bytes = count * stride as u64;
        budget.take(source, count_bytes + table_bytes)?;
        let table = source.read_at("TIFF directory", start, table_bytes)?;
        let entries = table.chunks_exact(stride).filter_map(|entry| {
            let TiffEntry { tag, kind, count, field } = order.entry(entry)?;
            let mut value = [0; 8];
            value.iter_mut().zip(field).for_each(|(to, from)| *to = *from);
            Some(IfdEntry { tag, kind, count, field: value })
        });
        let entries = entries.collect();
        // Some writers omit the last link at the end of the file.
        let link = start + table_bytes;
        let next = if link + order.offset_bytes() <= source.len() {
            order.uint(&source.read_at("TIFF directory", link, order.offset_bytes())?)
        } else {
            0
        };
        Ok((Self { order, entries, budget: Rc::clone(budget) }, next))
    }

    pub(super) const fn big_endian(&self) -> bool {
        self.order.big_endian
    }

    /// The bytes of a tag's value and the size of one of its elements.
    fn value(&self, source: &CubeFile, tag: u16) -> Result<Option<(u16, Vec<u8>)>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.tag == tag) else { return Ok(None) };
        // Unknown types have no bytes, and so no value.
        let size = value_width(entry.kind).unwrap_or(0);
        let most = if is_meta(tag) { MAX_META } else { MAX_VALUE };
        let bytes = entry.count.checked_mul(size).filter(|&bytes| bytes <= most).ok_or_else(|| {
            source.format(
                format_args!("TIFF tag {tag}"),
                format_args!("at most {most} bytes"),
                format_args!("{} elements", entry.count),
            )
        })?;
        if bytes <= self.order.offset_bytes() {
            let field = entry.field.iter().copied().take(to_usize(bytes));
            return Ok(Some((entry.kind, field.collect())));
        }
        let (offset, _) = entry.field.split_at(if self.order.big_tiff { 8 } else { 4 });
        let offset = self.order.uint(offset);
        self.budget.take(source, bytes)?;
        Ok(Some((entry.kind, source.read_at("value of a TIFF tag", offset, bytes)?)))
    }

    /// The integers of a tag; `None` if it is absent.
    pub(super) fn uints(&self, source: &CubeFile, tag: u16) -> Result<Option<Vec<u64>>> {
        let Some((kind, bytes)) = self.value(source, tag)? else { return Ok(None) };
        if !matches!(kind, 1 | 3 | 4 | 13 | 16 | 18) {
            return Err(source.format(format_args!("type of TIFF tag {tag}"), "an unsigned integer", kind));
        }
        let size = value_width(kind).map_or(1, to_usize);
        // Each of them becomes 8 bytes, also where it is stored in one.
        self.budget.take(source, (bytes.len() / size).saturating_mul(8) as u64)?;
        Ok(Some(bytes.chunks_exact(size).map(|element| self.order.uint(element)).collect()))
    }

    /// The first integer of a tag, or `default` if the tag is absent.
    pub(super) fn uint(&self, source: &CubeFile, tag: u16, default: u64) -> Result<u64> {
        Ok(self.uints(source, tag)?.and_then(|values| values.first().copied()).unwrap_or(default))
    }

    /// An integer that every TIFF has.
    pub(super) fn required(&self, source: &CubeFile, tag: u16, name: &str) -> Result<u64> {
        let values = self.uints(source, tag)?.unwrap_or_default();
        values
            .first()
            .copied()
            .ok_or_else(|| source.format("TIFF directory", format_args!("the tag {name} ({tag})"), "none"))
    }

    /// The float64 of a tag.
    pub(super) fn doubles(&self, source: &CubeFile, tag: u16) -> Result<Option<Vec<f64>>> {
        Ok(self.value(source, tag)?.filter(|(kind, _)| *kind == 12).map(|(_, bytes)| {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|&value| if self.big_endian() { f64::from_be_bytes(value) } else { f64::from_le_bytes(value) })
                .collect()
        }))
    }

    /// The text of a tag, up to the first zero.
    pub(super) fn text(&self, source: &CubeFile, tag: u16) -> Result<Option<String>> {
        Ok(self.value(source, tag)?.filter(|(kind, _)| matches!(kind, 1 | 2 | 7)).map(|(_, bytes)| {
            let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).trim().to_owned()
        }))
    }
}

/// Whether a tag describes the picture, and not where its bytes are.
const fn is_meta(tag: u16) -> bool {
    matches!(tag, 270 | 306 | 33550 | 33922 | 34264 | 34735..=34737 | 42112 | 42113)
}
