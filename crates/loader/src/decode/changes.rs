//! Applies picture augmentations to the levels of a row right after decoding.

use shardpack_augment::{Augmentation, ChangeScratch, Picture};
use shardpack_format::{Error as FormatError, bug};
use shardpack_jpeg::{PixelLayout, Rendering};
use shardpack_reader::Result;

#[derive(Default)]
pub(crate) struct Changes {
    scratch: ChangeScratch,
    pixels: Vec<u8>,
}

impl Changes {
    /// Decodes a picture with `decode` and augments it. Returns its height and width.
    pub(crate) fn decode(
        &mut self,
        changes: &[Augmentation],
        how: &Rendering,
        out: &mut [u8],
        decode: impl FnOnce(&Rendering, &mut [u8]) -> Result<[u32; 2], FormatError>,
    ) -> Result<[u32; 2], FormatError> {
        let draws = how.key.draws();
        let mut change = |levels: &mut [u8], size: [u32; 2]| -> Result<(), FormatError> {
            let [height, width] = size.map(|side| side as usize);
            let bytes = height * width * 3;
            let Some(levels) = levels.get_mut(..bytes) else {
                bug("a decoded picture is larger than its memory");
            };
            let mut picture = Picture::new(levels, height, width)?;
            for (place, change) in (0..).zip(changes) {
                for operation in change.resolve(&draws, place, height, width) {
                    operation.apply(&mut picture, &mut self.scratch);
                }
            }
            Ok(())
        };
        if how.layout == PixelLayout::HeightWidthChannels {
            let size = decode(how, out)?;
            change(out, size)?;
            return Ok(size);
        }
        if self.pixels.len() < out.len() {
            self.pixels.resize(out.len(), 0);
        }
        let pixels = self.pixels.get_mut(..out.len()).unwrap_or_default();
        let size = decode(&Rendering { layout: PixelLayout::HeightWidthChannels, ..*how }, pixels)?;
        change(pixels, size)?;
        let area = size.iter().map(|&side| side as usize).product::<usize>();
        for (channel, plane) in out.chunks_exact_mut(area.max(1)).enumerate() {
            let levels = pixels.iter().skip(channel).step_by(3);
            plane.iter_mut().zip(levels).for_each(|(to, &level)| *to = level);
        }
        Ok(size)
    }
}
