//! Rows of pictures: one, or the frames of a clip, changed at random, as levels or as floats.

use super::bench::Bench;
use super::clips::{self, FrameMode};
use super::fields::{Axis, Col, From, Parts, Size, axes};
use super::options::LoaderOptions;
use shardpack_augment::Augmentation;
use shardpack_format::{Dtype, ElementType, Error as FormatError, Schema};
use shardpack_jpeg::{FloatTable, Frames, PixelLayout, Rendering, Scaling, View};
use shardpack_reader::{Error, Result};

/// Plans a field of pictures, or of clips.
pub(super) fn plan(
    schema: &Schema,
    (position, name): (usize, &str),
    view: View,
    options: &LoaderOptions,
) -> Result<Parts> {
    view.check()?;
    let dtype = options.dtype.of_pictures(name, options.scaling.is_some());
    let floats = match dtype {
        ElementType::Dtype(Dtype::U8) => None,
        _ => Some(Box::new(FloatTable::new(options.scaling.unwrap_or(Scaling::UNIT), dtype)?)),
    };
    let layout = options.layout;
    let counted = clips::column(schema, name);
    let clip = counted.map(|_| options.frames);
    let from = From::Picture { position, view, orientation: Col::find(schema, "orientation"), floats, clip };
    // Before the axes of a picture that of time, if there is one.
    let time = counted.map(|column| options.frames.count().map_or(Axis::Column(column), |n| Axis::Fixed(n.into())));
    let fixed = |axis: &Axis| if let Axis::Fixed(length) = axis { Some(*length) } else { None };
    let sides = match view.size() {
        Some((height, width)) => [height, width].map(|side| Axis::Fixed(side.into())),
        None => match (Col::find(schema, "height"), Col::find(schema, "width")) {
            (Some(height), Some(width)) => [height, width].map(Axis::Column),
            _ => {
                let expected = "scalar fields `height` and `width`, to make room for them";
                let hint = "choose a view of fixed size, or raw pictures";
                return Err(Error::usage("whole pictures", expected, "a dataset without them").with_hint(hint));
            }
        },
    };
    let [height, width] = sides;
    let axes: Vec<Axis> = time.into_iter().chain(axes(layout, height, width, Axis::Fixed(3))).collect();
    let Some(shape) = axes.iter().map(fixed).collect::<Option<Vec<u64>>>() else {
        return Ok((from, dtype, vec![0; axes.len()], Size::Columns(axes)));
    };
    let bytes = dtype.array_bytes(&shape)?;
    let bytes = usize::try_from(bytes).map_err(|_| Error::usage("size of a view", "one that fits memory", bytes))?;
    Ok((from, dtype, shape, Size::Dense { bytes }))
}

/// How pictures of a row are shown.
pub(super) struct Shown<'a> {
    pub(super) rendering: &'a Rendering,
    pub(super) changed: &'a [Augmentation],
    pub(super) floats: Option<&'a FloatTable>,
}

impl Bench {
    /// Decodes frames of a clip, one after the other, each as a picture.
    pub(super) fn clip(
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
    pub(super) fn pixels(
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
pub(super) fn set_size(dims: &mut [u64], [height, width]: [u64; 2], layout: PixelLayout) {
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
