//! Rows of pictures: one, or the frames of a clip, changed at random, as levels or as floats.

use super::bench::Bench;
use crate::options::FrameMode;
use shardpack_augment::Augmentation;
use shardpack_format::Error as FormatError;
use shardpack_jpeg::{FloatTable, Frames, PixelLayout, Rendering};
use shardpack_reader::Result;

/// Why the host decodes clips in place of a device.
pub(crate) const ON_HOST: &str = "the host decodes lists of pictures";

/// How pictures of a row are shown.
pub(crate) struct Shown<'a> {
    pub(crate) rendering: &'a Rendering,
    pub(crate) changed: &'a [Augmentation],
    pub(crate) floats: Option<&'a FloatTable>,
}

impl Bench {
    /// Decodes frames of a clip, one after the other, each as a picture.
    pub(crate) fn clip(
        &mut self,
        mode: FrameMode,
        how: &Shown<'_>,
        frames: &Frames<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<(), FormatError> {
        let total = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let count = mode.count().unwrap_or(total);
        // Of a ragged row the first axis was made by what the index says.
        if let Some(&promised) = dims.first()
            && promised != u64::from(count)
        {
            let expected = format!("{promised}, by the index");
            return Err(FormatError::format("frames of the clip", expected, count));
        }
        let each = out.len() / (count as usize).max(1);
        let mut rest = out;
        let mut wanted = mode.frames(&how.rendering.key, total).peekable();
        // Both go up: each frame is looked for once.
        for (number, frame) in (0..).zip(frames.iter()) {
            while wanted.next_if_eq(&number).is_some() {
                let Some((row, after)) = std::mem::take(&mut rest).split_at_mut_checked(each) else {
                    return Err(FormatError::internal("bytes of a row of frames", each, "fewer"));
                };
                rest = after;
                let sides = dims.get_mut(1..).unwrap_or_default();
                let decoded = self.pixels(how, (frames.media_type(), frame), row, sides);
                decoded.map_err(|error| name_frame(number, error))?;
            }
        }
        Ok(())
    }

    /// Decodes a picture, and makes floats of it if these are wanted.
    pub(crate) fn pixels(
        &mut self,
        how: &Shown<'_>,
        picture: (&str, &[u8]),
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<(), FormatError> {
        let Some(table) = how.floats else { return self.picture(how, picture, out, dims) };
        let mut levels = std::mem::take(&mut self.levels);
        let wanted = out.len() / table.element_bytes();
        if levels.len() < wanted {
            levels.resize(wanted, 0);
        }
        let decoded = levels.get_mut(..wanted).unwrap_or_default();
        let layout = how.rendering.layout;
        let result = self.picture(how, picture, decoded, dims).and_then(|()| table.convert(decoded, layout, out));
        self.levels = levels;
        result
    }

    fn picture(
        &mut self,
        how: &Shown<'_>,
        (media_type, bytes): (&str, &[u8]),
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<(), FormatError> {
        let room = out.len();
        let pictures = &mut self.pictures;
        let mut decode = |how: &Rendering, out: &mut [u8]| {
            let decoded = pictures.decode_into(media_type, bytes, how, out)?;
            Ok([decoded.height, decoded.width])
        };
        let decoded = match how.changed {
            [] => decode(how.rendering, out),
            changed => self.changes.decode(changed, how.rendering, out, decode),
        };
        let size = decoded.map_err(|error| match error {
            // The slot was made by what the index says: it is not the caller who is wrong.
            FormatError::Usage { what, expected, .. } if dims.len() == 3 => FormatError::format(
                what,
                format!("{room} bytes, by height and width in the index"),
                format!("{expected}, by the picture itself"),
            ),
            FormatError::Usage { what, expected, found, .. } => FormatError::format(what, expected, found),
            other => other,
        })?;
        set_size(dims, size.map(u64::from), how.rendering.layout);
        Ok(())
    }
}

/// Only when a picture is decoded it is known whether the upright one is the stored one turned by
/// 90°; the bytes are as many.
pub(crate) fn set_size(dims: &mut [u64], [height, width]: [u64; 2], layout: PixelLayout) {
    if let [a, b, c] = dims {
        (*a, *b, *c) = match layout {
            PixelLayout::HeightWidthChannels => (height, width, 3),
            PixelLayout::ChannelsHeightWidth => (3, height, width),
        };
    }
}

fn name_frame(number: u32, error: FormatError) -> FormatError {
    match error {
        FormatError::Format { place, what, expected, found, hint } => {
            FormatError::Format { place, what: format!("frame {number}: {what}"), expected, found, hint }
        }
        other => other,
    }
}
