//! Reads the chain of image file directories (IFDs) of a cube file, within limits.

use super::budget::Budget;
use crate::cubes::error::{CubeError, Result};
use crate::cubes::source::CubeFile;
use shardpack_base::tiff::{TiffDirectory, TiffFile, TiffValues};
use std::borrow::Cow;

const MAX_PAGES: usize = 65_536;

/// Maximum size of a tag's value, enough for a table of 2 million chunks.
const MAX_VALUE: u64 = 16 << 20;

/// Maximum size of a value read as metadata. The JSON of a text or list takes tens of times more memory.
const MAX_META: u64 = 1 << 20;

pub(super) type Ifd<'a> = TiffDirectory<'a, TiffSource<'a>>;

#[derive(Debug)]
pub(super) struct TiffSource<'a> {
    source: &'a CubeFile,
    budget: Budget,
}

impl<'a> TiffSource<'a> {
    pub(super) fn new(source: &'a CubeFile) -> Self {
        Self { source, budget: Budget::new(source) }
    }

    pub(super) fn directories(&self) -> Result<Vec<Ifd<'_>>> {
        let mut seen = std::collections::HashSet::new();
        let mut ifds: Vec<Ifd<'_>> = Vec::new();
        let mut next = Some(TiffDirectory::first(self)?);
        while let Some(ifd) = next {
            if !seen.insert(ifd.offset()) {
                let text = format!("the chain of TIFF pages has a loop at offset {}", ifd.offset());
                return Err(self.source.damaged(text));
            }
            if ifds.len() == MAX_PAGES {
                return Err(self.source.damaged(format_args!("the TIFF has more than {MAX_PAGES} pages")));
            }
            next = ifd.next()?;
            ifds.push(ifd);
        }
        Ok(ifds)
    }

    pub(super) fn integers(&self, ifd: &Ifd<'_>, tag: u16) -> Result<Option<Vec<u64>>> {
        let Some(values) = ifd.integers(tag)? else { return Ok(None) };
        // Each value takes 8 bytes in memory, even if the file stores it in a single byte.
        self.budget.take(self.source, (values.len() as u64).saturating_mul(8))?;
        Ok(Some((0..values.len()).filter_map(|at| values.integer(at)).collect()))
    }
}

impl TiffFile for TiffSource<'_> {
    /// Maximum number of entries in a directory, as in classic TIFF.
    const MAX_ENTRIES: u64 = 65_535;

    type Error = CubeError;

    fn bytes(&self) -> u64 {
        self.source.len()
    }

    fn directory(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>> {
        self.budget.take(self.source, len)?;
        self.source.read_at("TIFF directory", offset, len).map(Cow::Owned)
    }

    fn values(&self, tag: u16, offset: u64, len: u64) -> Result<Cow<'_, [u8]>> {
        let most = if is_meta(tag) { MAX_META } else { MAX_VALUE };
        if len > most {
            let text = format!("the value of TIFF tag {tag} has {len} bytes, but at most {most} are allowed");
            return Err(self.source.damaged(text));
        }
        self.budget.take(self.source, len)?;
        self.source.read_at(&format!("value of TIFF tag {tag}"), offset, len).map(Cow::Owned)
    }

    fn broken(&self, what: String, expected: String, found: String) -> CubeError {
        self.source.format(what, expected, found)
    }
}

/// Reads an integer tag that every TIFF must contain.
pub(super) fn required(source: &CubeFile, ifd: &Ifd<'_>, tag: u16, name: &str) -> Result<u64> {
    ifd.integer(tag)?.ok_or_else(|| source.damaged(format_args!("the TIFF directory lacks the tag {name} ({tag})")))
}

pub(super) fn text(ifd: &Ifd<'_>, tag: u16) -> Result<Option<String>> {
    Ok(ifd.values(tag)?.as_ref().and_then(TiffValues::text))
}

/// Returns true if a tag describes the picture rather than the location of its bytes.
const fn is_meta(tag: u16) -> bool {
    matches!(tag, 270 | 306 | 33550 | 33922 | 34264 | 34735..=34737 | 42112 | 42113)
}
