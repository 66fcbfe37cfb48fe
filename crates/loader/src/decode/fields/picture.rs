//! Pictures, single or as frames of a clip: augmented, as levels or floats.

use super::{FieldDecoder, StageTarget};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::{JPEG, PictureField};
use crate::options::FrameMode;
use crate::stage::{CropsOfRow, PictureElements, Prepared, RecordValue};
use shardpack_format::{Error, Result, bug};
use shardpack_jpeg::{FRAMES, Frames, PictureDecoder, PixelLayout, Rendering, StoredPicture};

pub(super) struct PictureFieldDecoder(pub(super) PictureField);

struct Clip<'a> {
    mode: FrameMode,
    frames: Frames<'a>,
}

impl FieldDecoder for PictureFieldDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some((picture, how)) = self.stored(of)? else { return Ok(false) };
        match self.0.clip {
            None => self.pixels(tools, of, &how, picture, out, dims)?,
            Some(mode) => {
                let clip = Clip { mode, frames: Frames::of(picture.media_type, picture.bytes)? };
                self.clip(tools, of, &how, &clip, out, dims)?;
            }
        }
        Ok(true)
    }

    fn elements(&self, of: &RowField<'_>) -> Option<PictureElements> {
        let recipe = of.recipe();
        let elements = PictureElements { dtype: of.field.dtype, layout: recipe.layout, scaling: recipe.fields.scaling };
        self.0.clip.is_none().then_some(elements)
    }

    fn decode_levels(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<bool> {
        let Some((picture, how)) = self.stored(of)? else { return Ok(false) };
        self.levels(tools, of, &how, picture, out, dims)?;
        Ok(true)
    }

    fn prepare(
        &mut self,
        _: &mut Tools,
        of: &RowField<'_>,
        _: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let recipe = of.recipe();
        let PictureField { position, view, orientation, .. } = self.0;
        let key = self.0.key(recipe.key(of.at()));
        let (picture, how) = match to.resident {
            Some(resident) => {
                let orientation = u8::try_from(resident.detail).unwrap_or(1);
                let how = Rendering { view, key, orientation, layout: recipe.layout };
                (StoredPicture::new(JPEG, &[]), how)
            }
            None => {
                let Some(value) = of.value(position)? else { return Ok(None) };
                let (media_type, how) = of.record.rendering(&value, view, orientation)?;
                let segments = of.record.segments(position);
                (StoredPicture { media_type, bytes: value.bytes, segments }, Rendering { key, ..how })
            }
        };
        let crops = self.0.crop.as_ref().map(|crop| CropsOfRow {
            all: crop.of(recipe.key(of.at())),
            first_field: shardpack_format::saturating_u32(crop.first),
        });
        let (changes, scaling, limits) =
            (self.0.changes(&recipe.fields.changes), &recipe.fields.scaling, &recipe.limits);
        let (how, dtype) = (&how, of.field.dtype);
        Ok(Some(to.prepare(of, &RecordValue::Picture { picture, how, crops, changes, dtype, scaling, limits })))
    }

    fn on_host(&self) -> Option<&'static str> {
        self.0.clip.map(|_| "the host decodes lists of pictures")
    }
}

impl PictureFieldDecoder {
    /// The stored picture or clip of a sample, and its rendering; `None` if the sample has none.
    fn stored<'a>(&self, of: &RowField<'a>) -> Result<Option<(StoredPicture<'a>, Rendering)>> {
        let PictureField { position, view, orientation, clip, .. } = self.0;
        let Some(value) = of.value(position)? else { return Ok(None) };
        let (media_type, how) = of.record.rendering(&value, view, orientation)?;
        if clip.is_none() && media_type == FRAMES {
            let expected = format!("one picture, or a column `{}.frames` in the index", of.field.name);
            return Err(Error::format("value", expected, "a list of pictures"));
        }
        let segments = of.record.segments(position);
        let how = Rendering { key: self.0.key(how.key), ..how };
        Ok(Some((StoredPicture { media_type, bytes: value.bytes, segments }, how)))
    }

    /// Decodes frames of a clip in order, each as a picture.
    fn clip(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        how: &Rendering,
        clip: &Clip<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<()> {
        let Clip { mode, frames } = clip;
        let total = shardpack_format::saturating_u32(frames.len());
        let count = mode.count().unwrap_or(total);
        // The index promised the first axis of a ragged row.
        if let Some(&promised) = dims.first()
            && promised != u64::from(count)
        {
            let expected = format!("{promised}, as in the index");
            return Err(Error::format("number of frames in the clip", expected, count));
        }
        let each = out.len() / (count as usize).max(1);
        let mut rest = out;
        let mut wanted = mode.frames(&how.key, total).peekable();
        // Both lists ascend, so one pass finds all frames.
        for (number, frame) in (0..).zip(frames.iter()) {
            while wanted.next_if_eq(&number).is_some() {
                let Some((row, after)) = std::mem::take(&mut rest).split_at_mut_checked(each) else {
                    bug("a clip has more frames than its count");
                };
                rest = after;
                let sides = dims.get_mut(1..).unwrap_or_default();
                let picture = StoredPicture::new(frames.media_type(), frame);
                let decoded = self.pixels(tools, of, how, picture, row, sides);
                decoded.map_err(|error| name_frame(number, error))?;
            }
        }
        Ok(())
    }

    fn pixels(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        how: &Rendering,
        picture: StoredPicture<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<()> {
        let Some(table) = &self.0.floats else { return self.levels(tools, of, how, picture, out, dims) };
        let mut memory = std::mem::take(&mut tools.levels);
        let wanted = out.len() / table.element_bytes();
        if memory.len() < wanted {
            memory.resize(wanted, 0);
        }
        let decoded = memory.get_mut(..wanted).unwrap_or_default();
        let result = self.levels(tools, of, how, picture, decoded, dims);
        let result = result.and_then(|()| table.convert(decoded, how.layout, out));
        tools.levels = memory;
        result
    }

    fn levels(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        how: &Rendering,
        picture: StoredPicture<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<()> {
        let room = out.len();
        let Tools { pictures, changes, crops: shared, .. } = tools;
        let PictureField { position, clip, .. } = self.0;
        // Each frame of a clip is another picture.
        let crop = self.0.crop.as_ref().filter(|_| clip.is_none());
        let crops = crop.map(|crop| crop.of(of.recipe().key(of.at())));
        let mut decode = |how: &Rendering, out: &mut [u8]| {
            if let Some(crops) = &crops
                && let Some(size) = shared.render(pictures, (position, &picture), crops, how, out)?
            {
                return Ok(size);
            }
            let decoded = pictures.decode_into(&picture, how, out)?;
            Ok([decoded.height, decoded.width])
        };
        let decoded = match self.0.changes(&of.recipe().fields.changes) {
            [] => decode(how, out),
            augmentations => changes.decode(augmentations, how, out, decode),
        };
        let size = decoded.map_err(|error| match error {
            // The slot's size comes from the index, so a mismatch is damage, not the caller's error.
            Error::Usage { text, .. } => {
                let misfit = if dims.len() == 3 { misfit(pictures, how, picture, room) } else { None };
                misfit.unwrap_or_else(|| Error::format("picture", "a picture that can be decoded into its slot", text))
            }
            other => other,
        })?;
        set_size(dims, size, how.layout);
        Ok(())
    }
}

/// Returns the error for a picture that is not resized if its size does not fit its view or its slot of `room` bytes.
fn misfit(pictures: &mut PictureDecoder, how: &Rendering, picture: StoredPicture<'_>, room: usize) -> Option<Error> {
    let (height, width) = pictures.size_of(picture.media_type, picture.bytes, how.orientation).ok()?;
    let Ok(crop) = how.view.resolve(width, height, &how.key) else {
        return Some(Error::format("picture", "a size that contains the view", format!("{height} × {width}")));
    };
    let (height, width) = (crop.height, crop.width);
    let needed = (u64::from(height) * u64::from(width)).saturating_mul(3);
    (needed != room as u64).then(|| {
        let expected = format!("{room} bytes, by height and width in the index");
        Error::format("picture", expected, format!("{needed} bytes, {height} × {width} × 3"))
    })
}

/// Corrects the axes of a ragged picture or mask, because the orientation is known only after decoding. A turn by
/// 90° swaps height and width, and does not change the number of bytes.
pub(crate) fn set_size(dims: &mut [u64], size: [u32; 2], layout: PixelLayout) {
    let [height, width] = size.map(u64::from);
    match (dims, layout) {
        ([a, b] | [a, b, _], PixelLayout::HeightWidthChannels)
        | ([a, b] | [_, a, b], PixelLayout::ChannelsHeightWidth) => (*a, *b) = (height, width),
        _ => {}
    }
}

fn name_frame(number: u32, error: Error) -> Error {
    match error {
        Error::Format { place, what, expected, found, hint } => {
            Error::Format { place, what: format!("frame {number}: {what}"), expected, found, hint }
        }
        other => other,
    }
}
