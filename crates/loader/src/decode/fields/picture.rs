//! Decodes and augments pictures, alone or as the frames of a clip, and loads them as levels or floats.

use super::{FieldDecoder, StageTarget};
use crate::decode::record::RowField;
use crate::decode::tools::Tools;
use crate::fields::{ClipField, CropField, FieldType, JPEG, PictureField};
use crate::options::{Clip, ClipLayout};
use crate::stage::{CropsOfRow, PictureElements, Prepared, RecordValue};
use shardpack_format::{Error, Note, Result, bug};
use shardpack_jpeg::{FRAMES, Frames, PictureDecoder, PixelLayout, Rendering, StoredPicture};

pub(super) struct PictureFieldDecoder(pub(super) PictureField);

/// The row of a clip, and its axes if it is ragged.
struct ClipRow<'a> {
    out: &'a mut [u8],
    dims: &'a mut [u64],
}

impl FieldDecoder for PictureFieldDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some((picture, how)) = self.stored(tools, of)? else { return Ok(false) };
        match self.0.clip {
            None => self.pixels(tools, of, &how, picture, out, dims)?,
            Some(ClipField { clip, .. }) => {
                let frames = Frames::of(picture.media_type, picture.bytes)?;
                self.clip(tools, of, &how, clip, &frames, ClipRow { out, dims })?;
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
        let Some((picture, how)) = self.stored(tools, of)? else { return Ok(false) };
        self.levels(tools, of, &how, picture, out, dims)?;
        Ok(true)
    }

    fn prepare(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        _: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let recipe = of.recipe();
        let PictureField { view, clip, boxes, .. } = self.0;
        let clip = clip.map(|of| of.clip);
        let (picture, how) = match to.resident {
            // The boxes, on which the view depends, are in the record.
            Some(_) if boxes.is_some() => match self.value(tools, of)? {
                Some((_, how)) => (StoredPicture::new(JPEG, &[]), how),
                None => return Ok(None),
            },
            Some(resident) => {
                let orientation = u8::try_from(resident.detail).unwrap_or(1);
                let (key, layout) = (self.0.key(recipe.key(of.at())), self.0.layout(recipe.layout));
                (StoredPicture::new(JPEG, &[]), Rendering { view, key, orientation, layout })
            }
            None => match self.value(tools, of)? {
                Some(stored) => stored,
                None => return Ok(None),
            },
        };
        let crops = self.crop().map(|crop| CropsOfRow {
            all: crop.of(recipe.key(of.at())),
            first_field: shardpack_format::saturating_u32(crop.first),
        });
        let (changes, scaling, limits) =
            (self.0.changes(&recipe.fields.changes), &recipe.fields.scaling, &recipe.limits);
        let (how, dtype) = (&how, of.field.dtype);
        Ok(Some(to.prepare(of, &RecordValue::Picture { picture, how, crops, changes, dtype, scaling, limits, clip })))
    }
}

impl PictureFieldDecoder {
    /// Returns this field's crop if the picture has several. Crops of a clip do not count, because each frame is a
    /// different picture and is decoded separately for each crop.
    fn crop(&self) -> Option<&CropField> {
        self.0.crop.as_ref().filter(|_| self.0.clip.is_none())
    }

    /// Returns a sample's stored picture or clip, and its rendering. Returns `None` if the sample has no value.
    fn stored<'a>(&self, tools: &mut Tools, of: &RowField<'a>) -> Result<Option<(StoredPicture<'a>, Rendering)>> {
        let stored = self.value(tools, of)?;
        if self.0.clip.is_none() && stored.as_ref().is_some_and(|(picture, _)| picture.media_type == FRAMES) {
            return Err(Error::malformed(format!(
                "the value is a clip, but the index has no column `{}.frames` with its number of frames",
                of.field.name
            )));
        }
        Ok(stored)
    }

    fn value<'a>(&self, tools: &mut Tools, of: &RowField<'a>) -> Result<Option<(StoredPicture<'a>, Rendering)>> {
        let PictureField { position, view, orientation, clip, boxes, .. } = self.0;
        let Some(value) = of.value(position)? else { return Ok(None) };
        let (media_type, how) = of.record.rendering(&value, view, orientation)?;
        let view = match boxes {
            Some(_) => {
                let (height, width) = tools.pictures.size_of(media_type, value.bytes, how.orientation)?;
                of.record.view_of([height, width], view, boxes, &mut tools.objects)?
            }
            None => view,
        };
        let how = Rendering { view, key: self.0.key(how.key), layout: self.0.layout(how.layout), ..how };
        // A segment index describes a single picture.
        let segments = if clip.is_some() { None } else { of.record.segments(position) };
        Ok(Some((StoredPicture { media_type, bytes: value.bytes, segments }, how)))
    }

    /// Decodes frames of a clip in order, each as a picture.
    fn clip(
        &self,
        tools: &mut Tools,
        of: &RowField<'_>,
        how: &Rendering,
        clip: Clip,
        frames: &Frames<'_>,
        row: ClipRow<'_>,
    ) -> Result<()> {
        let ClipRow { out, dims } = row;
        let total = shardpack_format::saturating_u32(frames.len());
        let count = clip.frames.count().unwrap_or(total);
        // In a ragged row, the length of the time axis came from the index, so it must equal the number of decoded
        // frames.
        if let Some(&promised) = dims.get(clip.layout.time())
            && promised != u64::from(count)
        {
            let expected = format!("{promised} (from the index)");
            return Err(Error::format("number of frames in the clip", expected, count));
        }
        let each = out.len() / (count as usize).max(1);
        let is_ragged = !dims.is_empty();
        let mut first_sides = None;
        let mut memory = std::mem::take(&mut tools.frame);
        if clip.layout == ClipLayout::ChannelsFirst {
            memory.resize(each.max(memory.len()), 0);
        }
        for (place, (number, frame)) in clip.chosen(frames, &how.key).enumerate() {
            let here = match clip.layout {
                ClipLayout::TimeFirst => out.get_mut(place * each..(place + 1) * each),
                ClipLayout::ChannelsFirst => memory.get_mut(..each),
            };
            let Some(here) = here else { bug("a clip has more frames than its count") };
            let sides = if is_ragged { &mut [3; 3][..] } else { &mut [] };
            let picture = StoredPicture::new(frames.media_type(), frame);
            self.pixels(tools, of, how, picture, here, sides).map_err(|error| name_frame(number, error))?;
            // Compare the sides too, because a frame rotated by 90° has a different shape but the same number of
            // bytes.
            if is_ragged && *first_sides.get_or_insert_with(|| sides.to_vec()) != *sides {
                let first = first_sides.unwrap_or_default();
                let text = format!("the shape is {sides:?}, but the first loaded frame has the shape {first:?}");
                return Err(name_frame(number, Error::malformed(text)));
            }
            set_clip_sides(dims, sides, clip.layout);
            if clip.layout == ClipLayout::ChannelsFirst {
                put_planes(memory.get(..each).unwrap_or_default(), out, place, count as usize);
            }
        }
        tools.frame = memory;
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
        let position = self.0.position;
        let crops = self.crop().map(|crop| crop.of(of.recipe().key(of.at())));
        let mut decode = |how: &Rendering, out: &mut [u8]| {
            if let Some(crops) = &crops {
                return shared.decode(pictures, position, &picture, crops, how, out);
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
            Error::Usage(Note { text, .. }) => {
                let misfit = if dims.len() == 3 { misfit(pictures, how, picture, room) } else { None };
                misfit.unwrap_or_else(|| {
                    Error::malformed(match dims.is_empty() {
                        // The row has the size of the view, which does not depend on the index.
                        true => format!("the view cannot be applied to this picture: {text}"),
                        false => format!("the size of the picture differs from its size in the index: {text}"),
                    })
                })
            }
            other => other,
        })?;
        set_size(dims, size, how.layout);
        Ok(())
    }
}

/// Returns an error if a picture that is not resized does not fit its view or its slot of `room` bytes.
fn misfit(pictures: &mut PictureDecoder, how: &Rendering, picture: StoredPicture<'_>, room: usize) -> Option<Error> {
    let (height, width) = pictures.size_of(picture.media_type, picture.bytes, how.orientation).ok()?;
    let crop = match how.view.resolve(width, height, &how.key) {
        Ok(crop) => crop,
        Err(error) => return Some(Error::malformed(format!("the view cannot be applied to this picture: {error}"))),
    };
    let (height, width) = (crop.height, crop.width);
    let needed = (u64::from(height) * u64::from(width)).saturating_mul(3);
    (needed != room as u64).then(|| {
        Error::malformed(format!(
            "the picture decodes to {needed} bytes ({height} × {width} × 3), but the index says {room} bytes"
        ))
    })
}

/// Copies frame `place` into a clip of `count` frames with the channels first.
fn put_planes(frame: &[u8], out: &mut [u8], place: usize, count: usize) {
    let plane = (frame.len() / 3).max(1);
    for (planes, from) in out.chunks_exact_mut(plane * count.max(1)).zip(frame.chunks_exact(plane)) {
        let to = planes.get_mut(place * plane..).and_then(|rest| rest.get_mut(..plane));
        to.unwrap_or_default().copy_from_slice(from);
    }
}

/// Corrects the axes of a ragged row that a stage has prepared.
pub(crate) fn set_row_size(of: &RowField<'_>, dims: &mut [u64], size: [u32; 2]) {
    let layout = of.recipe().layout;
    let FieldType::Picture(PictureField { clip: Some(ClipField { clip, .. }), .. }) = of.field.kind else {
        return set_size(dims, size, layout);
    };
    let mut sides = [3; 3];
    set_size(&mut sides, size, clip.layout.of_frames(layout));
    set_clip_sides(dims, &sides, clip.layout);
}

/// Sets the sides of a ragged clip to a frame's sides. The time axis stays unchanged.
fn set_clip_sides(dims: &mut [u64], sides: &[u64], layout: ClipLayout) {
    if let (&[time, ..], &[a, b, c]) = (dims.get(layout.time()..).unwrap_or_default(), sides) {
        dims.copy_from_slice(&layout.axes(time, [a, b, c]));
    }
}

/// Corrects the axes of a ragged picture or mask, because the orientation is known only after decoding. A rotation by
/// 90° swaps height and width but leaves the number of bytes unchanged.
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
