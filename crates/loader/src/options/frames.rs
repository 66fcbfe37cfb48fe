//! Chooses the frames of a clip to load, for fields whose values are lists of JPEGs.

use super::parse::number;
use shardpack_format::saturating_u32;
use shardpack_jpeg::{DrawKey, Frames, PixelLayout};
use shardpack_reader::{Error, Result};
use std::str::FromStr;

/// Index of the draw pair for a window. Its first draw sets the start of the window.
const DRAWS: u32 = (1 << 31) + 5;
const MOST: u32 = 1 << 16;

/// The frames of a clip to load. All frames of a clip share one view: the same crop, reflection and augmentation.
///
/// ```
/// use shardpack_jpeg::DrawKey;
/// use shardpack_loader::FrameMode;
/// let key = DrawKey { seed: 1, epoch: 0, sample: 7 };
/// let even: FrameMode = "4".parse()?;
/// assert_eq!(even.frames(&key, 12).collect::<Vec<_>>(), [1, 4, 7, 10]);
/// let window: FrameMode = "window4,every=2".parse()?;
/// let frames: Vec<_> = window.frames(&key, 12).collect();
/// assert!(frames[0] < 6 && frames.windows(2).all(|pair| pair[1] == pair[0] + 2));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FrameMode {
    /// All frames. Rows are ragged, because clips differ in length.
    #[default]
    All,
    /// `count` evenly spaced frames: the middle frames of `count` equal parts of the clip. If the clip has
    /// fewer frames, some are repeated.
    Even {
        /// Number of frames, at least 1.
        count: u32,
    },
    /// `count` frames, `every` frames apart. The start is drawn for each sample and epoch. If the clip is too
    /// short, the window starts at the first frame and repeats the last one.
    Window {
        /// Number of frames, at least 1.
        count: u32,
        /// Distance between frames, at least 1. With 2, every second frame is loaded.
        every: u32,
    },
}

impl FrameMode {
    /// Returns the number of frames in a row, or `None` if rows contain all frames of their clips.
    #[must_use]
    pub const fn count(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Even { count } | Self::Window { count, .. } => Some(count),
        }
    }

    /// Returns the indices of the frames to load from a clip of `total` frames. They depend only on seed, epoch,
    /// sample and `total`.
    pub fn frames(self, key: &DrawKey, total: u32) -> impl Iterator<Item = u32> + use<> {
        let total = u64::from(total);
        let last = total.saturating_sub(1);
        let (count, first) = match self {
            Self::All => (total, 0),
            Self::Even { count } => (count.into(), 0),
            Self::Window { count, every } => {
                let span = u64::from(count.saturating_sub(1)) * u64::from(every) + 1;
                let places = total.saturating_sub(span) + 1;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below `places`")]
                let first = (key.draws().pair(DRAWS)[0] * places as f64) as u64;
                (count.into(), first.min(places - 1))
            }
        };
        (0..count).map(move |i| {
            let frame = match self {
                Self::All => i,
                Self::Even { .. } => (2 * i + 1) * total / (2 * count),
                Self::Window { every, .. } => first + i * u64::from(every),
            };
            shardpack_format::saturating_u32(frame.min(last))
        })
    }
}

/// Axis order of a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClipLayout {
    /// The time axis comes first, followed by the axes of a picture: `[time, height, width, channels]` or `[time,
    /// channels, height, width]`.
    #[default]
    TimeFirst,
    /// `[channels, time, height, width]`, regardless of the axis order of single pictures.
    ChannelsFirst,
}

impl ClipLayout {
    /// Returns the layout of a frame, where `pictures` is the layout of single pictures.
    #[must_use]
    pub const fn of_frames(self, pictures: PixelLayout) -> PixelLayout {
        match self {
            Self::TimeFirst => pictures,
            Self::ChannelsFirst => PixelLayout::ChannelsHeightWidth,
        }
    }

    /// Returns the axes of a clip whose frames have the axes `frame`, in the order of [`Self::of_frames`].
    pub(crate) const fn axes<T: Copy>(self, time: T, frame: [T; 3]) -> [T; 4] {
        let [a, b, c] = frame;
        match self {
            Self::TimeFirst => [time, a, b, c],
            Self::ChannelsFirst => [a, time, b, c],
        }
    }

    /// Returns the index of the time axis in the shape of a clip.
    pub(crate) const fn time(self) -> usize {
        match self {
            Self::TimeFirst => 0,
            Self::ChannelsFirst => 1,
        }
    }
}

/// Frames of a clip to load into a row, and their axis order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clip {
    /// Frames to load.
    pub frames: FrameMode,
    /// Order of the axes, which determines the position of the time axis.
    pub layout: ClipLayout,
}

impl Clip {
    /// Returns the index and the bytes of each chosen frame, in ascending order. A frame that is chosen several times
    /// is repeated.
    pub fn chosen<'f>(&self, frames: &Frames<'f>, key: &DrawKey) -> impl Iterator<Item = (u32, &'f [u8])> {
        let mut wanted = self.frames.frames(key, saturating_u32(frames.len())).peekable();
        // Both lists ascend, so one pass finds all frames.
        (0..).zip(frames.iter()).flat_map(move |(number, frame)| {
            let times = std::iter::from_fn(|| wanted.next_if_eq(&number)).count();
            std::iter::repeat_n((number, frame), times)
        })
    }
}

/// Parses `all`, `8` for eight evenly spaced frames, and `window8` or `window8,every=2` for a window.
impl FromStr for FrameMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = || {
            let expected = format!(
                "`all`, a number such as `8`, or a window such as `window16` or `window16,every=2`, with numbers from \
                 1 to {MOST}"
            );
            Error::usage(format!("invalid clip frames `{}`: expected {expected}", text.escape_debug()))
        };
        let some = |digits: &str| number(digits).filter(|count| (1..=MOST).contains(count));
        if text == "all" {
            return Ok(Self::All);
        }
        let Some(window) = text.strip_prefix("window") else {
            return some(text).map(|count| Self::Even { count }).ok_or_else(fail);
        };
        let (count, every) = window.split_once(",every=").unwrap_or((window, "1"));
        some(count).zip(some(every)).map(|(count, every)| Self::Window { count, every }).ok_or_else(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(sample: u64) -> DrawKey {
        DrawKey { seed: 3, epoch: 1, sample }
    }

    fn of(mode: &str, sample: u64, total: u32) -> Vec<u32> {
        mode.parse::<FrameMode>().unwrap().frames(&key(sample), total).collect()
    }

    #[test]
    fn frames_are_evenly_spaced() {
        assert_eq!(of("all", 0, 3), [0, 1, 2]);
        assert_eq!(of("1", 0, 9), [4]);
        assert_eq!(of("3", 0, 3), [0, 1, 2]);
        assert_eq!(of("3", 0, 10), [1, 5, 8]);
        assert_eq!(of("4", 0, 2), [0, 0, 1, 1], "a short clip shows some twice");
    }

    #[test]
    fn windows_begin_anywhere_and_stay_within() {
        let mut firsts = [0; 7];
        for sample in 0..7_000 {
            let frames = of("window4", sample, 10);
            assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 1) && frames[3] < 10);
            firsts[frames[0] as usize] += 1;
        }
        assert!(firsts.iter().all(|&count| (850..1_150).contains(&count)), "{firsts:?}");
        assert_eq!(of("window4", 5, 10), of("window4", 5, 10));
        let apart = of("window3,every=4", 1, 9);
        assert_eq!(apart, [0, 4, 8], "there is one place");
        assert_eq!(of("window4", 1, 2), [0, 1, 1, 1]);
        assert_eq!(of("window2,every=5", 1, 3), [0, 2]);
    }

    #[test]
    fn words_say_which() {
        assert_eq!("8".parse::<FrameMode>().unwrap(), FrameMode::Even { count: 8 });
        assert_eq!("window8".parse::<FrameMode>().unwrap(), FrameMode::Window { count: 8, every: 1 });
        for bad in ["", "0", "-1", "8.5", "window", "window0", "window8,every=0", "window8,each=2", "70000", "even8"] {
            let error = bad.parse::<FrameMode>().unwrap_err().to_string();
            assert!(error.contains("such as `window16` or `window16,every=2`"), "{error}");
        }
    }
}
