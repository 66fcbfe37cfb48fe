//! Pictures from a program: files in memory, or pixels.

use super::value::Value;
use crate::pack::SampleError;
use crate::pack::clip_maker::ClipMaker;
use crate::pack::picture_maker::{self, Look, PictureMaker, PictureNote, Stored};
use crate::pack::picture_totals::PictureFigures;
use shardpack_array::Array;
use shardpack_format::{Codec, Dtype};
use shardpack_recipe::PictureOptions;
use shardpack_sources::pictures::probe_picture;

/// Pixels as an array: uint8, grey or RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pixels {
    width: u32,
    height: u32,
    channels: u8,
}

impl Pixels {
    /// The pixels in `array`, if it can be a picture.
    pub(super) fn of(array: &Array) -> Option<Self> {
        let (height, width, channels) = match (array.dtype(), array.shape()) {
            (Dtype::U8, &[height, width]) => (height, width, 1),
            (Dtype::U8, &[height, width, channels @ (1 | 3)]) => (height, width, channels),
            _ => return None,
        };
        let side = |side: u64| u32::try_from(side).ok().filter(|side| *side > 0);
        Some(Self { width: side(width)?, height: side(height)?, channels: u8::try_from(channels).ok()? })
    }
}

/// A picture, ready for the record.
pub(super) struct Picture {
    pub(super) codec: Codec,
    pub(super) media_type: &'static str,
    pub(super) bytes: Vec<u8>,
    pub(super) size: Size,
    pub(super) icc: Option<Vec<u8>>,
    pub(super) figures: PictureFigures,
    pub(super) note: PictureNote,
    /// Whether it has more than 8 bits per sample and decodes to 8.
    pub(super) deep: bool,
    /// Whether it has bands beside its colours, which are not decoded.
    pub(super) banded: bool,
    /// What decoders pass over, if there is something.
    pub(super) oddity: Option<String>,
}

/// What the columns say of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) orientation: u8,
    pub(super) gpu_jpeg: bool,
}

/// Why a value is not a picture.
pub(super) enum NoPicture {
    /// Not something that a picture can be made from: what was found, and a next step.
    Misfit(String, &'static str),
    Refused(SampleError),
}

/// Makes the stored form of the picture `value`. `icc` tells whether the record has a field for a
/// profile.
pub(super) fn make(
    maker: &mut PictureMaker,
    value: Value,
    options: &PictureOptions,
    icc: bool,
    look: Look,
) -> Result<Picture, NoPicture> {
    match value {
        Value::Bytes(source) => of_file(maker, source, options, icc, look),
        Value::Array(array) | Value::Pixels(array) => {
            let Some(pixels) = Pixels::of(&array) else {
                let found = format!("{:?} of {}", array.shape(), array.dtype());
                let hint = "a field of kind `array` holds any shape and type";
                return Err(NoPicture::Misfit(found, hint));
            };
            let Pixels { width, height, channels } = pixels;
            let pixels = picture_maker::Pixels { bytes: array.bytes(), width, height, channels };
            let stored = maker.make_of_pixels(pixels, options, look).map_err(NoPicture::Refused)?;
            let media_type = if options.reencodes() { "image/jpeg" } else { "image/png" };
            Ok(owned(stored, media_type))
        }
        Value::Text(_) => Err(NoPicture::Misfit("text".into(), "give the bytes of a file, not its name")),
        other => Err(NoPicture::Misfit(other.found(), "")),
    }
}

fn of_file(
    maker: &mut PictureMaker,
    source: Vec<u8>,
    options: &PictureOptions,
    icc: bool,
    look: Look,
) -> Result<Picture, NoPicture> {
    let picture = match probe_picture(&source) {
        Ok(Some(picture)) => picture,
        Ok(None) => {
            let head = source.get(..8).unwrap_or(&source);
            let found = format!("{} bytes that begin with `{}`", source.len(), head.escape_ascii());
            return Err(NoPicture::Misfit(found, ""));
        }
        Err(flaw) => return Err(NoPicture::Misfit(flaw.detail, "")),
    };
    let stored = maker.make(&source, &picture, options, icc, look).map_err(NoPicture::Refused)?;
    let (deep, banded) = (picture.deep, picture.beside.is_some());
    Ok(Picture { deep, banded, ..owned(stored, picture.media_type) })
}

/// Makes the stored form of a clip of these files.
pub(super) fn make_clip(
    maker: &mut PictureMaker,
    frames: &[Vec<u8>],
    options: &PictureOptions,
    icc: bool,
    look: Look,
) -> Result<Picture, NoPicture> {
    if frames.is_empty() {
        return Err(NoPicture::Misfit("an empty list".into(), "None is a clip that the sample does not have"));
    }
    let mut clip = ClipMaker::default();
    for (number, source) in frames.iter().enumerate() {
        let misfit = |found: String| NoPicture::Misfit(format!("{found}, as frame {number}"), "");
        let picture = match probe_picture(source) {
            Ok(Some(picture)) if picture.jpeg.is_some() => picture,
            Ok(Some(picture)) => return Err(misfit(picture.media_type.into())),
            Ok(None) => return Err(misfit(format!("{} bytes that are no picture", source.len()))),
            Err(flaw) => return Err(misfit(flaw.detail)),
        };
        let stored = maker.make(source, &picture, options, icc, look).map_err(NoPicture::Refused)?;
        clip.add(stored).map_err(NoPicture::Refused)?;
    }
    let mut list = Vec::new();
    let stored = clip.finish(&mut list).map_err(NoPicture::Refused)?;
    Ok(Picture { codec: Codec::Raw, ..owned(stored, ClipMaker::MEDIA_TYPE) })
}

fn owned(stored: Stored<'_>, media_type: &'static str) -> Picture {
    let note = stored.note();
    let Stored { bytes, width, height, orientation, gpu_jpeg, icc, figures, oddity, .. } = stored;
    let codec = if media_type == "image/jpeg" { Codec::Jpeg } else { Codec::Raw };
    let size = Size { height, width, orientation, gpu_jpeg };
    let bytes = bytes.to_vec();
    Picture { codec, media_type, bytes, size, icc, figures, note, deep: false, banded: false, oddity }
}
