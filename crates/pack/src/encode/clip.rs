//! Builds the stored form of a clip from its stored frames.

use super::picture_encoder::StoredPicture;
use super::picture_figures::PictureFigures;
use super::sample_error::SampleError;
use shardpack_jpeg::{FRAMES, Frames};
use shardpack_sources::pictures::PictureInfo;
use std::borrow::Cow;

pub(crate) struct FrameFile<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) info: PictureInfo,
}

pub(super) struct ClipDraft {
    frames: Vec<Vec<u8>>,
    /// Properties of all frames added so far. Its `bytes` are empty.
    all: StoredPicture<'static>,
}

impl ClipDraft {
    pub(super) fn new(first: StoredPicture<'_>) -> Self {
        let frames = vec![first.bytes.into_owned()];
        let oddity = first.oddity.map(|what| format!("frame 0: {what}"));
        let all = StoredPicture { bytes: Cow::default(), media_type: FRAMES, oddity, ..first };
        Self { frames, all }
    }

    pub(super) fn add(&mut self, frame: StoredPicture<'_>) -> Result<(), SampleError> {
        let (number, all) = (self.frames.len(), &mut self.all);
        if frame.orientation != all.orientation {
            let text = format!(
                "the Exif orientation is {}, but frame 0 has orientation {}",
                frame.orientation, all.orientation
            );
            return Err(SampleError::Frame { number, text });
        }
        self.frames.push(frame.bytes.into_owned());
        // A device can decode a clip only if it can decode every frame.
        all.gpu_jpeg &= frame.gpu_jpeg;
        all.figures = together(&all.figures, &frame.figures);
        all.note.kept_because = all.note.kept_because.or(frame.note.kept_because);
        all.note.profile_dropped |= frame.note.profile_dropped;
        all.oddity = all.oddity.take().or_else(|| Some(format!("frame {number}: {}", frame.oddity?)));
        Ok(())
    }

    /// Joins the frames into one value. Height, width and profile come from the first frame.
    pub(super) fn finish(self) -> Result<StoredPicture<'static>, SampleError> {
        Ok(StoredPicture { bytes: Frames::join(&self.frames)?.into(), ..self.all })
    }
}

/// Merges the figures of two frames. Adds the byte counts, and keeps the worse of any other value.
fn together(a: &PictureFigures, b: &PictureFigures) -> PictureFigures {
    let mut both = *a;
    both.source_bytes = a.source_bytes.saturating_add(b.source_bytes);
    both.tiles_per_row = a.tiles_per_row.min(b.tiles_per_row);
    both.pixels_checked = a.pixels_checked && b.pixels_checked;
    if let (Some(both), Some(b)) = (&mut both.reencoded, &b.reencoded) {
        both.quality = both.quality.min(b.quality);
        // The score of an unscored frame is NaN, for which `min` returns the other frame's score.
        both.score = both.score.min(b.score);
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::picture_encoder::PictureNote;
    use crate::encode::picture_figures::ReencodedFigures;

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
        let frame = |orientation| StoredPicture {
            bytes: b"frame".into(),
            media_type: "image/jpeg",
            oddity: (orientation == 6).then(|| "odd".to_owned()),
            width: 8,
            height: 8,
            orientation,
            gpu_jpeg: true,
            icc: None,
            segments: None,
            figures: figures(1, 1, 90, 0.0),
            note: PictureNote::default(),
        };
        let mut clip = ClipDraft::new(frame(6));
        clip.add(frame(6)).unwrap();
        let error = clip.add(frame(1)).unwrap_err().to_string();
        assert!(error.starts_with("frame 2: the Exif orientation is 1, but frame 0 has orientation 6"), "{error}");
        let mut clip = ClipDraft::new(frame(1));
        clip.add(frame(1)).unwrap();
        assert!(clip.all.gpu_jpeg);
        clip.add(StoredPicture { gpu_jpeg: false, ..frame(1) }).unwrap();
        clip.add(frame(1)).unwrap();
        let stored = clip.finish().unwrap();
        assert_eq!(Frames::of(stored.media_type, &stored.bytes).unwrap().first(), b"frame");
        assert!(!stored.gpu_jpeg, "one of the frames is not for devices");
    }
}
