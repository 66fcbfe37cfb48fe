//! Prepares the frames of a clip. Each frame is a picture, and all have the same view and the same changes.
//!
//! The host keeps these tables of a clip whose frames stay on the device:
//!
//! ```text
//! frames  4   number of frames
//! starts  …   where the tables of each frame begin, after the starts: 4 bytes each
//! tables  …   the tables of each frame (`kept.rs`)
//! ```

use super::Reason;
use super::kept::keep;
use super::options::{Output, StagingOptions};
use super::prepared::{PreparedPicture, Shown};
use shardpack_jpeg::{Frames, JpegHeader, StoredPicture};
use shardpack_loader::ClipLayout;
use shardpack_loader::stage::Clip;

/// The frames of a clip that a row contains, in order.
struct Choice {
    total: u32,
    options: StagingOptions,
}

impl Choice {
    fn new(clip: Clip, total: usize, options: &StagingOptions) -> Result<Self, Reason> {
        let total = u32::try_from(total).map_err(|_| Reason::Full)?;
        let count = clip.frames.count().unwrap_or(total);
        let planes_between = match clip.layout {
            ClipLayout::TimeFirst => 0,
            ClipLayout::ChannelsFirst => count.saturating_sub(1),
        };
        Ok(Self { total, options: StagingOptions { output: Output { planes_between, ..options.output }, ..*options } })
    }
}

impl<'a> PreparedPicture<'a> {
    /// Prepares the chosen frames of a stored list of pictures, in order.
    ///
    /// # Errors
    /// The reason why the kernels do not accept this view of a chosen frame.
    pub(crate) fn of_clip(
        list: &StoredPicture<'a>,
        clip: Clip,
        how: &Shown<'_>,
        options: &StagingOptions,
    ) -> Result<Vec<Self>, Reason> {
        let frames = Frames::of(list.media_type, list.bytes).map_err(|_| Reason::Header)?;
        let Choice { options, .. } = Choice::new(clip, frames.len(), options)?;
        let chosen = clip.chosen(&frames, &how.how.key);
        chosen.map(|(_, frame)| Self::of(&StoredPicture::new(frames.media_type(), frame), how, &options)).collect()
    }

    /// Prepares the chosen frames of a clip from the tables written by [`keep_clip`].
    ///
    /// # Errors
    /// The reason why the kernels do not accept this view of a chosen frame.
    pub(crate) fn of_kept_clip(
        kept: &'a [u8],
        clip: Clip,
        how: &Shown<'_>,
        options: &StagingOptions,
    ) -> Result<Vec<Self>, Reason> {
        let (total, rest) = kept.split_first_chunk().ok_or(Reason::Header)?;
        let total = u32::from_le_bytes(*total) as usize;
        let (starts, tables) = rest.split_at_checked(total.saturating_mul(4)).ok_or(Reason::Header)?;
        let starts = starts.as_chunks::<4>().0;
        let Choice { total, options, .. } = Choice::new(clip, total, options)?;
        let frame = |number: u32| {
            let start = u32::from_le_bytes(*starts.get(number as usize)?);
            tables.get(start as usize..)
        };
        let frames = clip.frames.frames(&how.how.key, total);
        frames.map(|n| Self::of_kept(frame(n).ok_or(Reason::Header)?, how, &options)).collect()
    }
}

/// Appends to `out` the tables that the host keeps for a clip. Returns the bytes that the caller must store at
/// offset `at` of the kept memory: the whole list.
///
/// # Errors
/// The reason why the kernels accept no view of one of the frames. Some tables may have been appended by then.
pub(crate) fn keep_clip<'a>(
    list: &StoredPicture<'a>,
    options: &StagingOptions,
    at: u64,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Reason> {
    let frames = Frames::of(list.media_type, list.bytes).map_err(|_| Reason::Header)?;
    out.extend(u32::try_from(frames.len()).map_err(|_| Reason::Full)?.to_le_bytes());
    let starts = out.len();
    let tables = starts + 4 * frames.len();
    out.resize(tables, 0);
    // The frames are at the end of the list.
    let mut frame_at = at + (list.bytes.len() - frames.iter().map(<[u8]>::len).sum::<usize>()) as u64;
    for (number, frame) in frames.iter().enumerate() {
        let start = u32::try_from(out.len() - tables).map_err(|_| Reason::Full)?;
        let entry = out.get_mut(starts + 4 * number..).and_then(|rest| rest.first_chunk_mut());
        *entry.ok_or(Reason::Full)? = start.to_le_bytes();
        let scan = JpegHeader::parse(frame).map_err(|_| Reason::Header)?.scan_offset;
        keep(&StoredPicture::new(frames.media_type(), frame), options, frame_at + scan, out)?;
        frame_at += frame.len() as u64;
    }
    Ok(list.bytes)
}
