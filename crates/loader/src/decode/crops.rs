//! Pixels of a row's picture, decoded once for several crops.

use shardpack_format::Result;
use shardpack_jpeg::{Crops, PictureDecoder, Rendering, SharedPixels, StoredPicture};

#[derive(Default)]
pub(crate) struct CropPixels {
    /// Stored field of the picture whose pixels were last decoded, successfully or not.
    of: Option<usize>,
    is_there: bool,
    pixels: SharedPixels,
}

impl CropPixels {
    /// Discards the pixels at the start of another row.
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
            // The error may come from damaged pixels that no crop needs. Decoding the crops one by one avoids them.
            self.is_there = decoder.decode_shared(picture, crops, how, &mut self.pixels).unwrap_or(false);
        }
        if self.is_there { decoder.render_shared(&self.pixels, how, out) } else { Ok(None) }
    }
}
