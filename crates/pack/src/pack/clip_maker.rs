//! Makes the stored form of a clip out of those of its frames.

use super::SampleError;
use super::picture_maker::Stored;
use super::picture_totals::PictureFigures;
use shardpack_format::Error;
use shardpack_jpeg::{FRAMES, Frames};

/// A clip whose frames come one after the other.
#[derive(Default)]
pub(crate) struct ClipMaker {
    frames: Vec<Vec<u8>>,
    /// What is known of all frames so far; without bytes.
    all: Option<Stored<'static>>,
}

impl ClipMaker {
    /// Media type of what it makes.
    pub(crate) const MEDIA_TYPE: &str = FRAMES;

    /// Adds a frame.
    pub(crate) fn add(&mut self, frame: Stored<'_>) -> Result<(), SampleError> {
        let number = self.frames.len();
        self.frames.push(frame.bytes.to_vec());
        let Some(all) = &mut self.all else {
            let oddity = frame.oddity.map(|what| format!("frame {number}: {what}"));
            // A device decodes one picture of a value.
            self.all = Some(Stored { bytes: &[], gpu_jpeg: false, oddity, ..frame });
            return Ok(());
        };
        if frame.orientation != all.orientation {
            let what = format!("Exif orientation of frame {number}");
            let expected = format!("{}, as of the first frame", all.orientation);
            return Err(SampleError::Picture { error: Error::format(what, expected, frame.orientation) });
        }
        all.figures = together(&all.figures, &frame.figures);
        all.kept_because = all.kept_because.or(frame.kept_because);
        all.profile_dropped |= frame.profile_dropped;
        all.oddity = all.oddity.take().or_else(|| Some(format!("frame {number}: {}", frame.oddity?)));
        Ok(())
    }

    /// The list of all frames in `out`. Height, width and profile are those of the first.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<Stored<'_>, SampleError> {
        *out = Frames::join(&self.frames)?;
        match self.all {
            Some(all) => Ok(Stored { bytes: out, ..all }),
            None => Err(Error::internal("frames of a clip", "at least one", "none").into()),
        }
    }
}

/// The figures of two frames as one: bytes are added up, of all else the worst counts.
fn together(a: &PictureFigures, b: &PictureFigures) -> PictureFigures {
    let mut both = *a;
    both.source_bytes = a.source_bytes.saturating_add(b.source_bytes);
    both.tiles_per_row = a.tiles_per_row.min(b.tiles_per_row);
    both.pixels_checked = a.pixels_checked && b.pixels_checked;
    if let (Some(both), Some(b)) = (&mut both.reencoded, &b.reencoded) {
        both.quality = both.quality.min(b.quality);
        // Of a number and NaN the number: not all frames may be scored.
        both.score = both.score.min(b.score);
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::picture_totals::ReencodedFigures;

    fn figures(source_bytes: u64, tiles_per_row: u16, quality: u8, score: f32) -> PictureFigures {
        let reencoded = Some(ReencodedFigures { quality, score });
        PictureFigures { source_bytes, tiles_per_row, pixels_checked: quality > 50, reencoded }
    }

    #[test]
    fn the_figures_of_a_clip_are_the_worst_of_its_frames() {
        let both = together(&figures(10, 4, 90, f32::NAN), &figures(5, 0, 40, 71.5));
        assert_eq!(both, PictureFigures { source_bytes: 15, ..figures(0, 0, 40, 71.5) });
        let first = together(&figures(1, 3, 60, 80.0), &figures(2, 5, 70, f32::NAN));
        assert_eq!(first, figures(3, 3, 60, 80.0));
    }

    #[test]
    fn a_clip_has_one_orientation() {
        let frame = |orientation| Stored {
            bytes: b"frame",
            oddity: (orientation == 6).then(|| "odd".to_owned()),
            width: 8,
            height: 8,
            orientation,
            gpu_jpeg: true,
            icc: None,
            figures: figures(1, 1, 90, 0.0),
            kept_because: None,
            profile_dropped: false,
        };
        let mut clip = ClipMaker::default();
        clip.add(frame(6)).unwrap();
        clip.add(frame(6)).unwrap();
        let error = clip.add(frame(1)).unwrap_err().to_string();
        assert!(
            error.starts_with("Exif orientation of frame 2: expected 6, as of the first frame, found 1"),
            "{error}"
        );
        let mut out = Vec::new();
        let mut clip = ClipMaker::default();
        clip.add(frame(1)).unwrap();
        let stored = clip.finish(&mut out).unwrap();
        assert_eq!(Frames::of(ClipMaker::MEDIA_TYPE, stored.bytes).unwrap().first(), b"frame");
        assert!(!stored.gpu_jpeg);
        assert!(ClipMaker::default().finish(&mut out).is_err());
    }
}
