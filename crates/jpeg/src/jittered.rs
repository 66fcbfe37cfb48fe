//! Views that resize a picture to a random size: large-scale jitter, random crops of resized pictures, and whole
//! pictures with a random length of their shorter side.

use super::{Area, DrawKey, Draws, Rect};
use shardpack_format::{Error, Result};
use std::cmp::Ordering;

/// Maximum length of the shorter side after resizing, in pixels. JPEG has the same limit.
const SIDE_MAX: u32 = 65_535;
/// Maximum scale. It limits the work per picture.
const SCALE_MAX: f64 = 16.0;

/// Random size of a picture before it is cropped or padded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rescaled {
    /// A random multiple of the size that just fits into the output. A picture smaller than the output is placed
    /// at the upper left corner.
    Fit {
        /// Range of the multiple, which is drawn uniformly. Default 0.1 to 2.
        scale: (f64, f64),
    },
    /// A random length of the shorter side, in whole pixels. A picture smaller than the output is placed at
    /// random.
    ShortSide {
        /// Inclusive range of the length, which is drawn uniformly.
        range: (u32, u32),
    },
}

/// Random length of a picture's shorter side. The other side follows, so that the picture keeps its proportions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortestSide {
    /// Shortest length, and inclusive limit of the others, in pixels.
    pub range: (u32, u32),
    /// Distance between the lengths, in pixels. All of them are equally likely.
    pub step: u32,
    /// Maximum length of the longer side. A picture with a longer one becomes smaller.
    pub longest: u32,
}

impl ShortestSide {
    pub(crate) fn check(&self) -> Result<()> {
        let Self { range: (low, high), step, longest } = *self;
        if low >= 1 && low <= high && high <= SIDE_MAX && step >= 1 && (1..=SIDE_MAX).contains(&longest) {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the lengths of a shorter side must be an ascending range within 1 to {SIDE_MAX} pixels, with a step of at \
             least 1 and a longest side from 1 to {SIDE_MAX}, but are {low} to {high} with step {step} and longest \
             side {longest}"
        )))
    }

    /// Returns the width and height after resizing a picture with this width and height. Without a key, returns the
    /// largest size that can be drawn.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited by `check`")]
    #[must_use]
    pub fn resized(&self, picture: [u32; 2], key: Option<&DrawKey>) -> [u32; 2] {
        let (low, high) = self.range;
        let last = high.saturating_sub(low) / self.step.max(1);
        let drawn = key.map_or(last, |key| {
            let [draw, _] = key.draws().pair(2);
            ((draw * (f64::from(last) + 1.0)) as u32).min(last)
        });
        let [least, most] = [picture[0].min(picture[1]), picture[0].max(picture[1])].map(|side| f64::from(side.max(1)));
        // As in torchvision, which rounds both sides down.
        let scale = (f64::from(low + drawn * self.step) / least).min(f64::from(self.longest) / most);
        picture.map(|side| ((f64::from(side) * scale) as u32).max(1))
    }
}

/// Position of a picture in its output, before the flip.
pub(crate) struct RescaledPicture {
    pub(crate) area: Area,
    pub(crate) window: Rect,
    pub(crate) inner: Rect,
}

impl Rescaled {
    /// Large-scale jitter as in torchvision.
    pub const FIT: Self = Self::Fit { scale: (0.1, 2.0) };

    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            Self::Fit { scale: (low, high) } if !(low >= 0.001 && low <= high && high <= SCALE_MAX) => {
                Err(Error::usage(format!(
                    "the scale of a jittered view must be an ascending range within 0.001 to {SCALE_MAX}, \
                     but is {low} to {high}"
                )))
            }
            Self::ShortSide { range: (low, high) } if !(low >= 1 && low <= high && high <= SIDE_MAX) => {
                Err(Error::usage(format!(
                    "the shorter side for a random crop must be an ascending range within 1 to {SIDE_MAX} pixels, \
                     but is {low} to {high}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Places a picture in the output. `room` is the width and height of the output, and `support` is the reach of the
/// filter.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited by `check`")]
pub(crate) fn placed(
    size: Rescaled,
    picture: [u32; 2],
    room: [u32; 2],
    support: f64,
    draws: &Draws,
) -> RescaledPicture {
    let [draw, _] = draws.pair(2);
    let [y_draw, x_draw] = draws.pair(3);
    let resized = match size {
        Rescaled::Fit { scale: (low, high) } => {
            let fit = |n: usize| f64::from(room[n]) / f64::from(picture[n]);
            let scale = fit(0).min(fit(1)) * (low + (high - low) * draw);
            picture.map(|side| ((f64::from(side) * scale) as u32).max(1))
        }
        Rescaled::ShortSide { range: (low, high) } => {
            let short = low + ((draw * (f64::from(high - low) + 1.0)) as u32).min(high - low);
            let least = picture[0].min(picture[1]);
            // Like torchvision, round the longer side down.
            picture.map(|side| (u64::from(short) * u64::from(side) / u64::from(least)).min(u32::MAX.into()) as u32)
        }
    };
    let at_start = matches!(size, Rescaled::Fit { .. });
    let axis = |n: usize, draw: f64| RescaledAxis::of(picture[n], resized[n], room[n], draw, at_start, support);
    let (x, y) = (axis(0, x_draw), axis(1, y_draw));
    RescaledPicture {
        area: Area { x: x.start, y: y.start, width: x.extent, height: y.extent },
        window: Rect { x: x.seen.0, y: y.seen.0, width: x.seen.1 - x.seen.0, height: y.seen.1 - y.seen.0 },
        inner: Rect { x: x.first, y: y.first, width: x.count, height: y.count },
    }
}

/// Places the part of a picture that is inside `area`, which the output shows. Returns `None` if no part of the picture
/// is inside it.
pub(crate) fn part(area: Area, picture: [u32; 2], room: [u32; 2]) -> Option<RescaledPicture> {
    let x = RescaledAxis::part([area.x, area.width], picture[0], room[0])?;
    let y = RescaledAxis::part([area.y, area.height], picture[1], room[1])?;
    Some(RescaledPicture {
        area: Area { x: x.start, y: y.start, width: x.extent, height: y.extent },
        window: Rect { x: x.seen.0, y: y.seen.0, width: x.seen.1 - x.seen.0, height: y.seen.1 - y.seen.0 },
        inner: Rect { x: x.first, y: y.first, width: x.count, height: y.count },
    })
}

/// Placement of a picture along one axis.
struct RescaledAxis {
    /// Start and length of the part to show, in pixels of the picture.
    start: f64,
    extent: f64,
    /// Range of the pixels that the filter reads, with an exclusive end.
    seen: (u32, u32),
    /// First pixel and number of pixels in the output.
    first: u32,
    count: u32,
}

impl RescaledAxis {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the side")]
    fn of(side: u32, resized: u32, room: u32, draw: f64, at_start: bool, support: f64) -> Self {
        let place = |rest: u32| ((draw * (f64::from(rest) + 1.0)) as u32).min(rest);
        if resized <= room {
            let first = if at_start { 0 } else { place(room - resized) };
            return Self { start: 0.0, extent: side.into(), seen: (0, side), first, count: resized };
        }
        let scale = f64::from(side) / f64::from(resized);
        let (start, extent) = (f64::from(place(resized - room)) * scale, f64::from(room) * scale);
        Self { start, extent, seen: seen([start, start + extent], scale, side, support), first: 0, count: room }
    }

    /// Places the part of a side that is inside the given range. The picture is cropped before it is resized, so the
    /// filter reads no pixel outside the range.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the side")]
    fn part([start, extent]: [f64; 2], side: u32, room: u32) -> Option<Self> {
        let (low, high) = (start.max(0.0), (start + extent).min(side.into()));
        if high.partial_cmp(&low) != Some(Ordering::Greater) || !extent.is_finite() {
            return None;
        }
        let at = |position: f64| ((position - start) * f64::from(room) / extent).round_ties_even() as u32;
        let first = at(low).min(room.saturating_sub(1));
        let count = at(high).min(room).saturating_sub(first).max(1);
        Some(Self { start: low, extent: high - low, seen: (low.floor() as u32, high.ceil() as u32), first, count })
    }
}

/// Returns the range of pixels that the filter reads for the given part of a side. `scale` is the number of source
/// pixels per output pixel.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the side")]
pub(crate) fn seen([start, end]: [f64; 2], scale: f64, side: u32, support: f64) -> (u32, u32) {
    // Add one pixel to the reach of the filter, because the filter rounds.
    let reach = scale.max(1.0) * support + 1.0;
    ((start - reach).floor().max(0.0) as u32, (end + reach).ceil().min(f64::from(side)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DrawKey, View};

    #[test]
    fn pictures_are_scaled_and_then_cropped_or_padded() {
        let (mut padded, mut cropped) = (0, 0);
        for sample in 0..300 {
            let key = DrawKey { seed: 5, epoch: 0, sample };
            let [draw, _] = key.draws().pair(2);
            let crop = View::scale_jitter((60, 80)).resolve(100, 50, &key).unwrap();
            // The picture just fits into the output at 80 × 40 pixels.
            let scale = 0.8 * (0.1 + 1.9 * draw);
            let [width, height] = [100.0 * scale, 50.0 * scale].map(|side: f64| (side as u32).max(1));
            let inner = Rect { x: 0, y: 0, width: width.min(80), height: height.min(60) };
            assert_eq!((crop.inner, crop.height, crop.width), (inner, 60, 80));
            // The number of picture pixels per output pixel must match the resizing.
            let ratio = [crop.area.width / f64::from(inner.width), crop.area.height / f64::from(inner.height)];
            assert!((ratio[0] - 100.0 / f64::from(width)).abs() < 1e-9, "{ratio:?}");
            assert!((ratio[1] - 50.0 / f64::from(height)).abs() < 1e-9, "{ratio:?}");
            // Crops begin at a whole pixel of the resized picture.
            let first = [crop.area.x / ratio[0], crop.area.y / ratio[1]];
            assert!(first.iter().all(|first| (first - first.round()).abs() < 1e-9), "{first:?}");
            assert!(first[0].round() as u32 + inner.width <= width && first[1].round() as u32 + inner.height <= height);
            assert!(Rect::whole(100, 50).contains(&crop.window));
            let mirrored = View::scale_jitter((60, 80)).with_flip(1.0).resolve(100, 50, &key).unwrap();
            assert_eq!((mirrored.inner.x, mirrored.area), (80 - inner.width, crop.area));
            padded += u32::from(crop.is_padded());
            cropped += u32::from(crop.area.width < 100.0);
        }
        assert!(padded > 100 && cropped > 100, "{padded} {cropped}");
    }

    #[test]
    fn the_shorter_side_is_drawn_in_whole_pixels() {
        let mut lengths = [0; 3];
        let mut places = [0; 2];
        for sample in 0..300 {
            let key = DrawKey { seed: 6, epoch: 1, sample };
            let crop = View::random_crop((40, 40), (20, 22)).resolve(300, 100, &key).unwrap();
            assert_eq!((crop.inner.width, crop.inner.x), (40, 0), "60 to 66 columns are cropped");
            lengths[crop.inner.height as usize - 20] += 1;
            places[usize::from(crop.inner.y > 9)] += 1;
            assert!(crop.inner.bottom() <= 40 && crop.area.height == 100.0);
        }
        assert!(lengths.iter().all(|count| (60..140).contains(count)), "{lengths:?}");
        assert!(places.iter().all(|count| (100..200).contains(count)), "{places:?}");
    }

    /// The expected sizes come from torchvision 0.20's `RandomShortestSize`.
    #[test]
    fn whole_pictures_keep_their_proportions() {
        let short = ShortestSide { range: (480, 800), step: 32, longest: 1333 };
        let of = |short, picture| ShortestSide { range: (short, short), step: 1, longest: 1333 }.resized(picture, None);
        assert_eq!(of(800, [640, 480]), [1066, 800]);
        assert_eq!(of(800, [500, 333]), [1201, 800]);
        assert_eq!(of(800, [1000, 100]), [1333, 133]);
        assert_eq!(of(480, [4000, 3000]), [640, 480]);
        assert_eq!(of(3, [1, 60_000]), [1, 1333]);
        let mut lengths = [0; 11];
        for sample in 0..1_100 {
            let key = DrawKey { seed: 6, epoch: 1, sample };
            let crop = View::shortest(short).resolve(640, 480, &key).unwrap();
            assert_eq!([crop.width, crop.height], short.resized([640, 480], Some(&key)));
            assert_eq!((crop.area.rect(), crop.is_padded()), (Some(Rect::whole(640, 480)), false));
            lengths[(crop.height as usize - 480) / 32] += 1;
            assert_eq!(crop.height % 32, 0);
            // A picture on its side gets the same size on its side.
            assert_eq!(short.resized([480, 640], Some(&key)), [crop.height, crop.width]);
        }
        assert!(lengths.iter().all(|count| (60..150).contains(count)), "{lengths:?}");
        assert_eq!(short.resized([640, 480], None), [1066, 800], "the largest size");
        for (range, step, longest) in
            [((0, 5), 1, 9), ((6, 5), 1, 9), ((5, 70_000), 1, 9), ((5, 6), 0, 9), ((5, 6), 1, 0)]
        {
            let said = View::shortest(ShortestSide { range, step, longest }).check().unwrap_err().to_string();
            assert!(said.contains("the lengths of a shorter side must be an ascending range within 1 to"), "{said}");
        }
    }

    #[test]
    fn invalid_ranges_are_refused() {
        let said = |view: View| view.resolve(9, 9, &DrawKey::default()).unwrap_err().to_string();
        let scaled = |scale| View {
            framing: crate::Framing::Rescaled { size: 8.into(), rescaled: Rescaled::Fit { scale }, fill: [0; 3] },
            ..View::whole()
        };
        for scale in [(0.0, 1.0), (2.0, 1.0), (0.5, 17.0), (f64::NAN, 1.0)] {
            assert!(
                said(scaled(scale)).contains("scale of a jittered view must be an ascending range within 0.001 to"),
                "{scale:?}"
            );
        }
        for range in [(0, 5), (6, 5), (5, 70_000)] {
            assert!(said(View::random_crop(8, range)).contains("random crop must be an ascending range within 1 to"));
        }
    }
}
