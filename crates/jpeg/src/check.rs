//! Checks that a stored picture has the same pixels as its source.
#![deny(clippy::indexing_slicing)]

use super::shared::trim;
use super::tile::operation;
use super::turbo::{Bounds, Decompressor, Frame, Scale, Transcoder, Transcoding, Warnings};
use shardpack_format::{Limits, Result};

/// Compares the pixels of two JPEGs bit for bit. libjpeg-turbo decodes both with the same settings. Each
/// thread needs its own `PixelCheck`.
///
/// ```
/// use shardpack_jpeg::PixelCheck;
/// let mut check = PixelCheck::new();
/// assert!(check.same(b"not a JPEG", b"nor this", 1, &Default::default()).is_err());
/// ```
pub struct PixelCheck {
    transcoder: Transcoder,
    decoder: Decompressor,
    source: Vec<u8>,
    stored: Vec<u8>,
    turned_back: Vec<u8>,
}

impl std::fmt::Debug for PixelCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PixelCheck").finish_non_exhaustive()
    }
}

impl Default for PixelCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl PixelCheck {
    /// Creates a check with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        let bounds = Bounds::of(&Limits::default());
        Self {
            transcoder: Transcoder::new(bounds),
            decoder: Decompressor::new(bounds, Warnings::Refuse),
            source: Vec::new(),
            stored: Vec::new(),
            turned_back: Vec::new(),
        }
    }

    /// Returns true if `stored` decodes to exactly the pixels of `source`. Identical files are not decoded.
    ///
    /// `applied` is the Exif orientation that tiling applied to the coefficients
    /// ([`Tiled::applied`](super::Tiled::applied)), or 1 for none. A rotated picture is turned back before decoding.
    /// Otherwise its pixels could differ by one or two levels although nothing was lost, because decoders round rows
    /// and columns differently.
    ///
    /// # Errors
    /// `Format` if a picture does not decode without a warning, `Limit` if its pixels exceed
    /// `limits.max_decoded_bytes`.
    pub fn same(&mut self, source: &[u8], stored: &[u8], applied: u8, limits: &Limits) -> Result<bool> {
        let same = self.try_same(source, stored, applied, limits);
        trim([&mut self.source, &mut self.stored, &mut self.turned_back]);
        same
    }

    fn try_same(&mut self, source: &[u8], stored: &[u8], applied: u8, limits: &Limits) -> Result<bool> {
        if source == stored {
            return Ok(true);
        }
        let bounds = Bounds::of(limits);
        self.decoder.set_bounds(bounds);
        let stored = match applied {
            2..=8 => {
                self.transcoder.set_bounds(bounds);
                // The opposite quarter turn undoes a quarter turn. Every other operation undoes itself.
                let back = match applied {
                    6 => 8,
                    8 => 6,
                    same => same,
                };
                let how = Transcoding { operation: operation(back), restart_interval: 0, keep_metadata: false };
                self.turned_back.clear();
                if !self.transcoder.transcode(stored, how, &mut self.turned_back)? {
                    return Ok(false);
                }
                self.turned_back.as_slice()
            }
            _ => stored,
        };
        let source = decode(&self.decoder, source, &mut self.source)?;
        let stored = decode(&self.decoder, stored, &mut self.stored)?;
        let shape = |frame: Frame| (frame.width, frame.height, frame.color.format());
        Ok(shape(source) == shape(stored) && self.source == self.stored)
    }
}

/// Decodes the whole picture without converting its channels.
pub(super) fn decode(decoder: &Decompressor, jpeg: &[u8], pixels: &mut Vec<u8>) -> Result<Frame> {
    let picture = decoder.open(jpeg)?;
    let frame = picture.frame();
    let format = frame.color.format();
    let pitch = frame.width as usize * format.bytes();
    pixels.resize(pitch * frame.height as usize, 0);
    picture.decode(Scale::Full, format, pixels, pitch)?;
    Ok(frame)
}
