//! Decodes a row's picture once for all of its crops.

use shardpack_format::Result;
use shardpack_jpeg::{Crops, PictureDecoder, Rendering, SharedPixels, StoredPicture};

#[derive(Default)]
pub(crate) struct CropPixels {
    /// Index of the stored picture field that was decoded last, even if decoding failed.
    of: Option<usize>,
    is_there: bool,
    pixels: SharedPixels,
}

impl CropPixels {
    /// Discards the pixels. Called at the start of each row.
    pub(crate) fn forget(&mut self) {
        if self.of.take().is_some() {
            self.pixels.trim();
        }
    }

    /// Renders one of several crops of stored field `position`. Returns its height and width, or `None` if
    /// the crop must be decoded on its own.
    pub(crate) fn render(
        &mut self,
        decoder: &mut PictureDecoder,
        position: usize,
        picture: &StoredPicture<'_>,
        crops: &Crops<'_>,
        how: &Rendering,
        out: &mut [u8],
    ) -> Result<Option<[u32; 2]>> {
        if self.of != Some(position) {
            self.of = Some(position);
            // The error may come from damaged pixels that no crop needs. Each crop is then decoded on its own, without
            // those pixels.
            self.is_there = decoder.decode_shared(picture, crops, how, &mut self.pixels).unwrap_or(false);
        }
        if self.is_there { decoder.render_shared(&self.pixels, how, out) } else { Ok(None) }
    }
}
