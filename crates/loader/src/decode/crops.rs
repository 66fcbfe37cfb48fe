//! Pixels of a row's picture that are decoded once for several crops.

use shardpack_format::Result;
use shardpack_jpeg::{Crops, PictureDecoder, Rendering, SharedPixels, StoredPicture};

#[derive(Default)]
pub(crate) struct CropPixels {
    /// Stored field of the picture whose pixels were decoded, or tried to.
    of: Option<usize>,
    is_there: bool,
    pixels: SharedPixels,
}

impl CropPixels {
    /// Forgets the pixels, because another row begins.
    pub(crate) fn forget(&mut self) {
        if self.of.take().is_some() {
            self.pixels.trim();
        }
    }

    /// Renders one of several crops of stored field `position`. Returns its height and width, or `None` if it must
    /// be decoded alone.
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
            // Pixels that no single crop needs may be damaged, so the crops are then decoded one by one.
            self.is_there = decoder.decode_shared(picture, crops, how, &mut self.pixels).unwrap_or(false);
        }
        if self.is_there { decoder.render_shared(&self.pixels, how, out) } else { Ok(None) }
    }
}
