//! In the place of libjpeg-turbo, where this crate is built without C: our own decoder, and errors for
//! pictures that it does not take.

pub use super::kinds::Scale;
pub(crate) use super::kinds::{Bounds, Color, Frame, PixelFormat, Warnings};

use super::baseline::BaselineDecoder;
use super::kinds::checked_header;
use super::{JpegHeader, Rect};
use shardpack_format::{Error, Result};

/// How pictures are decoded. Holds no data of a picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decompressor {
    bounds: Bounds,
}

impl Decompressor {
    /// Our own decoder gets past no damage: `warnings` are refused either way.
    pub(crate) const fn new(bounds: Bounds, _warnings: Warnings) -> Self {
        Self { bounds }
    }

    /// Changes what the next picture may ask for.
    pub(crate) const fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Reads the header of `jpeg`.
    ///
    /// # Errors
    /// `Format` if there is none; `Limit` if it asks for too many pixels.
    pub(crate) fn open<'a>(&self, jpeg: &'a [u8]) -> Result<Picture<'a>> {
        let header = checked_header(jpeg, self.bounds)?;
        let color = match header.components().len() {
            1 => Color::Gray,
            3 if header.is_rgb() => Color::Rgb,
            3 => Color::YCbCr,
            4 if header.adobe_transform == Some(2) => Color::Ycck,
            4 => Color::Cmyk,
            other => return Err(Error::format("JPEG components", "1, 3 or 4", other)),
        };
        let frame =
            Frame { width: header.width.into(), height: header.height.into(), color, lossless: header.sof == 3 };
        Ok(Picture { jpeg, header, frame })
    }
}

/// A picture whose header was read, to be decoded once.
pub(crate) struct Picture<'a> {
    jpeg: &'a [u8],
    header: JpegHeader,
    frame: Frame,
}

impl Picture<'_> {
    pub(crate) const fn frame(&self) -> Frame {
        self.frame
    }

    pub(crate) const fn header(&self) -> &JpegHeader {
        &self.header
    }

    /// Decodes all of it into `out`, rows of `pitch` bytes.
    ///
    /// # Errors
    /// `Usage` if the picture is one that only libjpeg-turbo decodes; `Format` if it is damaged.
    pub(crate) fn decode(self, scale: Scale, format: PixelFormat, out: &mut [u8], pitch: usize) -> Result<()> {
        let whole = Rect::whole(self.frame.width, self.frame.height);
        self.decode_region(scale, whole, format, out, pitch)
    }

    /// Decodes `region` of it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub(crate) fn decode_region(
        self,
        scale: Scale,
        region: Rect,
        format: PixelFormat,
        out: &mut [u8],
        pitch: usize,
    ) -> Result<()> {
        region.check(self.frame.width, self.frame.height)?;
        let ours = matches!(self.frame.color, Color::Gray | Color::YCbCr) && self.header.is_plain();
        if !ours || scale != Scale::Full || format == PixelFormat::Cmyk {
            return Err(self.refused());
        }
        let (width, height) = (region.width as usize, region.height as usize);
        if pitch != width * format.bytes() || out.len() < pitch * height {
            return Err(Error::internal("room for a JPEG", format!("{height} rows of {width} pixels"), out.len()));
        }
        let mut decoder = BaselineDecoder::new();
        let decoded = match format {
            PixelFormat::Gray => {
                let mut pixels = vec![0; width * height * 3];
                let decoded = decoder.decode(self.jpeg, &self.header, region, &mut pixels);
                pixels.as_chunks::<3>().0.iter().zip(out).for_each(|(&[level, ..], to)| *to = level);
                decoded
            }
            _ => decoder.decode(self.jpeg, &self.header, region, out),
        };
        match decoded {
            Some(_) => Ok(()),
            None => Err(Error::format("JPEG", "a picture that decodes", "damage, or a kind that is rare")
                .with_hint("with the feature `turbo` of shardpack-jpeg, libjpeg-turbo decodes the rare kinds")),
        }
    }

    fn refused(&self) -> Error {
        let JpegHeader { sof, precision, .. } = self.header;
        let found = match (sof, self.frame.color) {
            (0 | 1, Color::Cmyk | Color::Ycck) => "four colours".to_owned(),
            (0 | 1, Color::Rgb) => "RGB".to_owned(),
            (0 | 1, _) if precision != 8 => format!("{precision} bits"),
            (0 | 1, _) => "several scans".to_owned(),
            (2 | 6 | 10 | 14, _) => "a progressive one".to_owned(),
            (3 | 7 | 11 | 15, _) => "a lossless one".to_owned(),
            _ => format!("one of SOF{sof}"),
        };
        Error::usage("JPEG", "a baseline one, gray or YCbCr, of 8 bits in one scan: this build has no more", found)
            .with_hint(
                "build with the feature `turbo` of shardpack-jpeg, for which libjpeg-turbo and a C compiler are needed",
            )
    }
}
