//! Decodes a row's picture once for all of its crops.

use shardpack_format::Result;
use shardpack_jpeg::{Crops, PictureDecoder, Rendering, SharedPixels, StoredPicture};

#[derive(Default)]
pub(crate) struct CropPixels {
    /// Index of the stored picture field that was decoded last, even if decoding failed.
    of: Option<usize>,
    is_there: bool,
    /// True if the segment index of the picture is wrong. The other crops then ignore the index, and the loader
    /// counts the wrong index only once.
    is_index_wrong: bool,
    pixels: SharedPixels,
}

impl CropPixels {
    /// Discards the pixels. Called at the start of each row.
    pub(crate) fn forget(&mut self) {
        if self.of.take().is_some() {
            self.pixels.trim();
        }
    }

    /// Decodes one of several crops of stored field `position`, either from the shared pixels or separately. Returns
    /// its height and width.
    pub(crate) fn decode(
        &mut self,
        decoder: &mut PictureDecoder,
        position: usize,
        picture: &StoredPicture<'_>,
        crops: &Crops<'_>,
        how: &Rendering,
        out: &mut [u8],
    ) -> Result<[u32; 2]> {
        let before = decoder.wrong_indexes();
        if self.of != Some(position) {
            (self.of, self.is_index_wrong) = (Some(position), false);
            // The error may come from damaged pixels that no crop needs. Each crop is then decoded separately,
            // without the damaged pixels.
            self.is_there = decoder.decode_shared(picture, crops, how, &mut self.pixels).unwrap_or(false);
        }
        let shared = if self.is_there { decoder.render_shared(&self.pixels, how, out)? } else { None };
        self.is_index_wrong |= decoder.wrong_indexes() > before;
        if let Some(size) = shared {
            return Ok(size);
        }
        let segments = picture.segments.filter(|_| !self.is_index_wrong);
        let decoded = decoder.decode_into(&StoredPicture { segments, ..*picture }, how, out)?;
        self.is_index_wrong |= decoder.wrong_indexes() > before;
        Ok([decoded.height, decoded.width])
    }
}
