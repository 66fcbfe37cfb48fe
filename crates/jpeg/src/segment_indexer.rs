//! Creates the segment index of a JPEG.
#![deny(clippy::indexing_slicing)]

use super::SegmentIndex;
use super::baseline::{ScanWalker, Walked};
use super::damage_check::DamageCheck;
use shardpack_format::{Error, Limits, Result, saturating_u32};

/// Reads the entropy-coded data of JPEGs and lists the positions where decoding can begin. Each thread needs
/// its own indexer.
///
/// ```
/// use shardpack_format::Limits;
/// use shardpack_jpeg::{SegmentIndex, SegmentIndexer};
/// let mut index = Vec::new();
/// let error = SegmentIndexer::new().index(b"not a JPEG", &Limits::default(), &mut index).unwrap_err();
/// assert!(error.to_string().contains("it does not begin with FF D8 FF"));
/// ```
pub struct SegmentIndexer {
    walker: ScanWalker,
    damage: DamageCheck,
    index: Vec<u8>,
}

impl std::fmt::Debug for SegmentIndexer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentIndexer").finish_non_exhaustive()
    }
}

impl Default for SegmentIndexer {
    fn default() -> Self {
        Self::new()
    }
}

impl SegmentIndexer {
    /// Creates an indexer with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self { walker: ScanWalker::new(), damage: DamageCheck::new(), index: Vec::new() }
    }

    /// Appends the index of a JPEG to `out`, and returns its number of segments. Returns `None` and appends
    /// nothing if an index would be useless: the picture is small, is already divided by restart markers, or
    /// cannot be decoded in parts (progressive, CMYK, unusual subsampling).
    ///
    /// The whole picture is always checked for damage. A regular picture is checked by reading its
    /// entropy-coded data, without computing pixels. Other pictures are decoded by libjpeg-turbo at an eighth
    /// of their size.
    ///
    /// # Errors
    /// `Format` if the picture is damaged, which includes all warnings of libjpeg-turbo; `Limit` if it has
    /// too many pixels.
    pub fn index(&mut self, jpeg: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<Option<u32>> {
        self.index_by(None, jpeg, limits, out)
    }

    /// Same as [`index`](Self::index), but with segments of `interval` MCUs. If this is `None`, the interval depends on
    /// the picture.
    fn index_by(
        &mut self,
        interval: Option<u32>,
        jpeg: &[u8],
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<Option<u32>> {
        let header = super::shared::parse(jpeg)?;
        let walked = self.walker.walk(jpeg, &header, interval);
        let count = match walked {
            Walked::Listed => {
                self.walker.list.write(out);
                Some(saturating_u32(self.walker.list.lengths.len()))
            }
            Walked::Short | Walked::Other => None,
            Walked::Unknown => {
                self.damage.check(jpeg, limits)?;
                None
            }
        };
        self.walker.trim();
        Ok(count)
    }

    /// Checks that a stored index belongs to the JPEG.
    ///
    /// # Errors
    /// `Format` if the picture is damaged, or if the index differs from a new index with the same number of
    /// MCUs per segment.
    pub fn verify(&mut self, jpeg: &[u8], segments: &[u8], limits: &Limits) -> Result<()> {
        let interval = SegmentIndex::parse(segments)?.interval();
        let mut expected = std::mem::take(&mut self.index);
        expected.clear();
        let result = self.index_by(Some(interval), jpeg, limits, &mut expected);
        let same = expected == segments;
        self.index = expected;
        match result? {
            None => Err(Error::malformed(
                "the segment index does not match its picture, which cannot be decoded in segments",
            )),
            Some(_) if !same => Err(Error::malformed("the segment index does not match its picture")),
            Some(_) => Ok(()),
        }
    }
}
