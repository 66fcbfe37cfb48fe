//! Lossless tiling: turns almost any JPEG into a baseline JPEG with one scan, divided into independent segments by
//! restart markers.
//!
//! The DCT coefficients do not change. They are only encoded again. Every decoder therefore computes exactly the same
//! pixels from both JPEGs. In most pictures the segments form a grid of tiles, and rectangles can be cut out by copying
//! bytes ([`cut`](super::cut)).
#![deny(clippy::indexing_slicing)]

use super::baseline::BaselineTranscoder;
use super::damage_check::DamageCheck;
use super::interval::Interval;
use super::keep::KeepReason;
use super::kinds::checked_header;
use super::mcu_grid::{BLOCK, McuGrid};
use super::metadata;
use super::shared::parse;
use super::turbo::{Bounds, Operation, Transcoder, Transcoding};
use super::{JpegHeader, end_of_image};
use shardpack_base::parts::split_mut;
use shardpack_format::{Error, Limits, Result};

/// Options for tiling.
///
/// ```
/// use shardpack_jpeg::{Interval, TileOptions};
/// let rows_only = TileOptions { interval: Interval::Row, ..Default::default() };
/// assert!(!rows_only.keep_metadata);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TileOptions {
    /// Restart interval, which determines the size of tiles. Default [`Interval::Auto`].
    pub interval: Interval,
    /// Keeps the metadata segments (Exif, ICC profile, XMP, comments…) in the stored JPEG. By default they
    /// are dropped. To keep the important ones, read them with [`Metadata`](super::Metadata) first.
    pub keep_metadata: bool,
    /// Turns a picture upright by rotating its coefficients, if its Exif orientation requires a turn, and all edges
    /// that this would move to the left or top are on the MCU grid. Otherwise the orientation is applied after
    /// decoding. No coefficient is lost, but the decoded pixels may differ by one or two levels, because decoders
    /// round a rotated picture differently. Default false.
    pub upright: bool,
    /// Maximum growth of the tiled picture, as a fraction of the source. If tiles exceed it,
    /// [`Interval::Auto`] tries whole rows before giving up and keeping the source. Default 0.15, which few
    /// progressive sources exceed.
    pub max_growth: f64,
    /// Limits for a picture. `max_decoded_bytes` also determines the limits on pixels and on the memory for
    /// coefficients.
    pub limits: Limits,
}

impl Default for TileOptions {
    fn default() -> Self {
        Self {
            interval: Interval::Auto,
            keep_metadata: false,
            upright: false,
            max_growth: 0.15,
            limits: Limits::default(),
        }
    }
}

/// How a picture was stored: tiled, or unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileOutcome {
    /// A baseline JPEG with one scan.
    Tiled {
        /// MCUs between restart markers.
        interval: u16,
        /// Number of segments per MCU row, rounded up. This is the number of tiles if the interval divides
        /// the row.
        tiles_per_row: u32,
        /// Number of segments of the picture.
        segments: u32,
    },
    /// The source, byte for byte, including metadata and bytes after the end of the image.
    Kept(KeepReason),
}

impl TileOutcome {
    /// Returns the outcome for a tiled picture with the given MCU grid and MCUs between restart markers.
    pub(super) fn tiled(grid: McuGrid, interval: u16) -> Self {
        Self::Tiled {
            interval,
            tiles_per_row: grid.columns.div_ceil(u32::from(interval)),
            segments: grid.mcus().div_ceil(u32::from(interval)),
        }
    }
}

/// Result of [`JpegTiler::tile`], and of re-encoding a picture with a `JpegReencoder`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tiled {
    /// How the picture was stored: tiled, or unchanged.
    pub outcome: TileOutcome,
    /// Width of the stored picture in pixels. `orientation` is not applied to it.
    pub width: u32,
    /// Height of the stored picture in pixels. `orientation` is not applied to it.
    pub height: u32,
    /// Exif orientation to apply after decoding, 1..=8 (1 is upright). Apply it even if the stored bytes also contain
    /// an Exif segment. Always 1 for a re-encoded picture, because it is upright.
    pub orientation: u8,
    /// Exif orientation that was applied to the coefficients of the source, or 1 for none.
    pub applied: u8,
    /// Quality and score of a re-encoded picture, or `None` if the source itself is stored, tiled or unchanged.
    pub reencoded: Option<Reencoding>,
}

/// Quality and score of a re-encoded picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reencoding {
    /// libjpeg's quality.
    pub quality: u8,
    /// SSIMULACRA2 score relative to the decoded, upright and resized source, or `None` if no score was requested.
    /// For a large picture, this is the score of its centre (`SCORE_MAX_PIXELS`).
    pub score: Option<f64>,
}

/// Tiles pictures. Each thread needs its own tiler.
///
/// ```
/// use shardpack_jpeg::{JpegTiler, TileOptions};
/// let mut tiler = JpegTiler::new();
/// let mut out = Vec::new();
/// let error = tiler.tile(b"not a JPEG", &TileOptions::default(), &mut out).unwrap_err();
/// assert!(error.to_string().contains("JPEG"), "{error}");
/// assert!(out.is_empty());
/// ```
pub struct JpegTiler {
    own: BaselineTranscoder,
    transcoder: Transcoder,
    damage: DamageCheck,
}

impl std::fmt::Debug for JpegTiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JpegTiler").finish_non_exhaustive()
    }
}

impl Default for JpegTiler {
    fn default() -> Self {
        Self::new()
    }
}

impl JpegTiler {
    /// Creates a tiler with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        let bounds = Bounds::of(&Limits::default());
        Self { own: BaselineTranscoder::new(), transcoder: Transcoder::new(bounds), damage: DamageCheck::new() }
    }

    /// Appends the tiled picture to `out`, or the source if it cannot be tiled or would grow by more than
    /// `max_growth`.
    ///
    /// Tiling drops all bytes after the end of the image, such as padding or the other pictures of a phone's
    /// MPO file.
    ///
    /// # Errors
    /// `Format` if the picture is damaged, which includes all warnings of libjpeg-turbo; `Limit` if it has
    /// too many pixels; `Usage` if the interval is 0 or the maximum growth is not a number. After an error,
    /// `out` is unchanged and the tiler stays usable.
    pub fn tile(&mut self, jpeg: &[u8], options: &TileOptions, out: &mut Vec<u8>) -> Result<Tiled> {
        let start = out.len();
        self.try_tile(jpeg, options, out).inspect_err(|_| out.truncate(start))
    }

    fn try_tile(&mut self, jpeg: &[u8], options: &TileOptions, out: &mut Vec<u8>) -> Result<Tiled> {
        if options.interval == Interval::Mcus(0) {
            return Err(Error::usage("the restart interval must be at least one MCU, not 0"));
        }
        if options.max_growth.is_nan() {
            return Err(Error::usage(format!("`max_growth` must be a number, not {}", options.max_growth)));
        }
        let header = parse(jpeg)?;
        let orientation = header.orientation.unwrap_or(1);
        let kept = |reason| Tiled {
            outcome: TileOutcome::Kept(reason),
            width: header.width.into(),
            height: header.height.into(),
            orientation,
            applied: 1,
            reencoded: None,
        };
        if let Some(reason) = KeepReason::of(&header) {
            self.check_kept(jpeg, &header, reason, &options.limits)?;
            out.extend_from_slice(jpeg);
            return Ok(kept(reason));
        }
        let source = header.mcu_grid();
        let operation = match options.upright {
            true => upright(orientation, &header, source),
            false => Operation::None,
        };
        let applied = if operation == Operation::None { 1 } else { orientation };
        let turned = swaps_axes(applied);
        let grid = if turned { source.transposed() } else { source };
        match self.code(jpeg, options, operation, grid, out)? {
            Ok(interval) => Ok(Tiled {
                outcome: TileOutcome::tiled(grid, interval),
                width: if turned { header.height } else { header.width }.into(),
                height: if turned { header.width } else { header.height }.into(),
                orientation: if applied == 1 { orientation } else { 1 },
                applied,
                reencoded: None,
            }),
            Err(reason) => {
                out.extend_from_slice(jpeg);
                Ok(kept(reason))
            }
        }
    }

    /// Encodes the coefficients again and returns the restart interval. If the source must be kept, appends
    /// nothing and returns the reason.
    fn code(
        &mut self,
        jpeg: &[u8],
        options: &TileOptions,
        operation: Operation,
        grid: McuGrid,
        out: &mut Vec<u8>,
    ) -> Result<Result<u16, KeepReason>> {
        let start = out.len();
        let row = Interval::Row.of(grid, jpeg.len());
        let chosen = options.interval.of(grid, jpeg.len());
        // A picture that grows too much with the best tiles may grow less if each segment is a whole row. If the
        // caller has chosen the interval, it is not replaced.
        let fallback = (options.interval == Interval::Auto && chosen != row).then_some(row);
        for interval in [Some(chosen), fallback].into_iter().flatten() {
            let how = Transcoding { operation, restart_interval: interval, keep_metadata: options.keep_metadata };
            if !self.transcode(jpeg, options, how, out)? {
                self.damage.check(jpeg, &options.limits)?;
                return Ok(Err(KeepReason::Coefficients));
            }
            let (_, tiled) = split_mut(out, start, "picture before a tiled one")?;
            if operation != Operation::None {
                metadata::set_upright(tiled)?;
            }
            let header = parse(tiled)?;
            if !header.is_baseline() {
                out.truncate(start);
                return Ok(Err(KeepReason::Quantisation));
            }
            if !exceeds(tiled.len(), jpeg.len(), options.max_growth) {
                return Ok(Ok(interval));
            }
            out.truncate(start);
        }
        Ok(Err(KeepReason::Larger))
    }

    /// Appends the rewritten picture. Returns `false` and appends nothing if libjpeg-turbo cannot write one
    /// of its coefficients.
    fn transcode(&mut self, jpeg: &[u8], options: &TileOptions, how: Transcoding, out: &mut Vec<u8>) -> Result<bool> {
        let bounds = Bounds::of(&options.limits);
        let header = checked_header(jpeg, bounds)?;
        if self.own.transcode(jpeg, &header, how, out).is_some() {
            return Ok(true);
        }
        self.transcoder.set_bounds(bounds);
        self.transcoder.transcode(jpeg, how, out)
    }

    /// Fails if a picture that will be kept unchanged has damage.
    fn check_kept(&mut self, jpeg: &[u8], header: &JpegHeader, reason: KeepReason, limits: &Limits) -> Result<()> {
        if matches!(reason, KeepReason::Cmyk | KeepReason::Arithmetic) && header.precision == 8 {
            self.damage.check(jpeg, limits)?;
        } else if end_of_image(jpeg, header.scan_offset).is_none() {
            // The 8-bit decoder does not support this picture, so only look for the end-of-image marker.
            return Err(Error::malformed("the JPEG is truncated: it has no end-of-image marker (FF D9)"));
        }
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a margin of some percent")]
fn exceeds(tiled: usize, source: usize, max_growth: f64) -> bool {
    tiled as f64 > source as f64 * (1.0 + max_growth)
}

pub(super) const fn swaps_axes(orientation: u8) -> bool {
    matches!(orientation, 5..=8)
}

/// Returns the operation that turns a picture upright, if its edges make this possible without loss.
fn upright(orientation: u8, header: &JpegHeader, grid: McuGrid) -> Operation {
    let operation = operation(orientation);
    // Partial MCUs are possible only at the right and bottom. An edge that moves to the left or top must therefore
    // consist of whole MCUs.
    let width = u32::from(header.width).is_multiple_of(BLOCK * grid.h);
    let height = u32::from(header.height).is_multiple_of(BLOCK * grid.v);
    let possible = match operation {
        Operation::None | Operation::Transpose => true,
        Operation::FlipHorizontal | Operation::Rotate270 => width,
        Operation::FlipVertical | Operation::Rotate90 => height,
        Operation::Rotate180 | Operation::Transverse => width && height,
    };
    if possible { operation } else { Operation::None }
}

/// Returns the operation that turns a picture with the given Exif orientation upright.
pub(super) const fn operation(orientation: u8) -> Operation {
    match orientation {
        2 => Operation::FlipHorizontal,
        3 => Operation::Rotate180,
        4 => Operation::FlipVertical,
        5 => Operation::Transpose,
        6 => Operation::Rotate90,
        7 => Operation::Transverse,
        8 => Operation::Rotate270,
        _ => Operation::None,
    }
}

#[cfg(test)]
#[path = "tile_tests.rs"]
mod tests;
