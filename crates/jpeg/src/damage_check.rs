//! Checks a JPEG for damage with libjpeg-turbo, at little cost.
#![deny(clippy::indexing_slicing)]

use super::turbo::{Bounds, Decompressor, Scale, Warnings};
use shardpack_base::parts::grow;
use shardpack_format::{Limits, Result};

pub(super) struct DamageCheck {
    decoder: Decompressor,
    pixels: Vec<u8>,
}

impl DamageCheck {
    pub(super) fn new() -> Self {
        Self { decoder: Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse), pixels: Vec::new() }
    }

    /// Fails if libjpeg-turbo warns about the picture or cannot decode it.
    pub(super) fn check(&mut self, jpeg: &[u8], limits: &Limits) -> Result<()> {
        self.decoder.set_bounds(Bounds::of(limits));
        let picture = self.decoder.open(jpeg)?;
        let frame = picture.frame();
        // Decoding at an eighth of the size is much less work, but still reads all entropy-coded data.
        let (scale, format) = (Scale::Eighth, frame.color.format());
        let pitch = scale.of(frame.width) as usize * format.bytes();
        let pixels = grow(&mut self.pixels, pitch * scale.of(frame.height) as usize);
        let result = picture.decode(scale, format, pixels, pitch);
        super::trim([&mut self.pixels]);
        result
    }
}
