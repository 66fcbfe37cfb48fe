//! Views: the part of a picture that a sample shows, and its size.
//!
//! The rules are the same as in torchvision 0.20 (`Resize`, `CenterCrop`, `RandomResizedCrop`,
//! `RandomHorizontalFlip`), so a model that was trained with torchvision sees the same geometry. All coordinates refer
//! to the upright picture.

use super::jittered::{self, Rescaled, RescaledPicture, ShortestSide};
use super::shown_part::{Centre, fitted, random_part};
use super::{Area, DrawKey, Interpolation, IouCrop, Rect};
use shardpack_format::{Error, Result};

/// Default colour of the padding, which is common in detector training.
const GREY: [u8; 3] = [114; 3];

/// View of a picture: the part to show, its size, and a possible flip.
///
/// ```
/// use shardpack_jpeg::{DrawKey, View};
/// let view = View::random_resized_crop(224).with_flip(0.5);
/// let key = DrawKey { seed: 1, epoch: 0, sample: 9 };
/// let crop = view.resolve(500, 375, &key)?;
/// assert_eq!((crop.height, crop.width), (224, 224));
/// assert_eq!(view.resolve(500, 375, &key)?, crop, "a pure function");
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    /// Part of the picture to show, and the size of the output.
    pub framing: Framing,
    /// Probability of a left-to-right flip. Default 0.
    pub flip: f64,
    /// Interpolation for resizing. Default bilinear.
    pub interpolation: Interpolation,
}

/// Part of a picture to show, and the size of the output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Framing {
    /// The whole picture at its own size.
    Whole,
    /// A rectangle at its own size.
    Rectangle(Rect),
    /// The whole picture, resized to the given size.
    Resize(ViewSize),
    /// The centre, cropped after resizing the picture to a shorter side of `short_side`.
    CenterCrop {
        /// Length of the shorter side after resizing, in pixels. Must be at least the size of the crop.
        short_side: u32,
        /// Size of the output.
        size: ViewSize,
    },
    /// A random part of the picture, resized to the given size.
    RandomResizedCrop {
        /// Size of the output.
        size: ViewSize,
        /// Range of the area, as a fraction of the picture's area. Drawn uniformly. Default 0.08 to 1.
        scale: (f64, f64),
        /// Range of the aspect ratio (width / height). Drawn uniformly on a logarithmic scale. Default 3/4 to
        /// 4/3.
        ratio: (f64, f64),
    },
    /// The whole picture with padding (letterbox), scaled to the largest size that fits and centred on a background of
    /// one colour. It fills the output along one axis. Its length along the other axis is rounded to the nearest pixel
    /// and is at least 1. If the number of border pixels is odd, the right or lower border has one more.
    Pad {
        /// Size of the output.
        size: ViewSize,
        /// Colour of the border: red, green and blue. Default 114, 114, 114.
        fill: [u8; 3],
    },
    /// The picture in a random size, cropped or padded (torchvision's `ScaleJitter` and `FixedSizeCrop`, or
    /// `RandomResize` and `RandomCrop`).
    Rescaled {
        /// Size of the output.
        size: ViewSize,
        /// How the size of the picture is drawn.
        rescaled: Rescaled,
        /// Colour of the border: red, green and blue. Default 114, 114, 114.
        fill: [u8; 3],
    },
    /// The whole picture in its own proportions, with a random length of its shorter side (torchvision's
    /// `RandomShortestSize`).
    Shortest(ShortestSide),
    /// A random part that is chosen by its overlap with the boxes of the picture, resized to the given size.
    /// [`View::of_boxes`] draws it.
    IouCrop {
        /// Size of the output.
        size: ViewSize,
        /// How the part is drawn.
        crop: IouCrop,
        /// Colour of the border: red, green and blue. Default 114, 114, 114.
        fill: [u8; 3],
    },
    /// An area, which may extend beyond the picture, resized to the given size. The border begins at a whole pixel of
    /// the output.
    Part {
        /// Area to show, in pixels of the picture.
        area: Area,
        /// Size of the output.
        size: ViewSize,
        /// Colour of the border: red, green and blue.
        fill: [u8; 3],
    },
}

/// A view of one picture, after all random choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crop {
    /// Area of the upright picture to show.
    pub area: Area,
    /// Pixels that the resizing filter may read. If the picture is cropped before resizing, these are the
    /// pixels of the crop. If it is cropped afterwards, they also include the neighbours that the filter
    /// reaches.
    pub window: Rect,
    /// Number of rows of the output.
    pub height: u32,
    /// Number of columns of the output.
    pub width: u32,
    /// True to flip the picture left to right.
    pub flip: bool,
    /// Position of `area` in the output, after the flip. Without padding it is the whole output.
    pub inner: Rect,
    /// Colour of the padding: red, green and blue.
    pub fill: [u8; 3],
}

impl Crop {
    /// Returns the area that the whole output covers, in pixels of the picture. With padding, the area
    /// extends beyond the picture. It is the area before the flip: column c of the output starts at `x + c ·
    /// width / columns`, or at `x + (columns − c) · width / columns` if flipped.
    ///
    /// ```
    /// use shardpack_jpeg::{DrawKey, View};
    /// // 500 × 375 becomes 640 × 480, with 80 rows above and below.
    /// let crop = View::pad(640).resolve(500, 375, &DrawKey::default())?;
    /// assert_eq!((crop.inner.y, crop.inner.height), (80, 480));
    /// let covered = crop.covered();
    /// assert_eq!((covered.x, covered.y, covered.width, covered.height), (0.0, -62.5, 500.0, 500.0));
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    #[must_use]
    pub fn covered(&self) -> Area {
        let Self { area, inner, width, height, .. } = *self;
        if !self.is_padded() {
            return area;
        }
        let left = if self.flip { width.saturating_sub(inner.right()) } else { inner.x };
        let (x, y) = (area.width / f64::from(inner.width), area.height / f64::from(inner.height));
        Area {
            x: area.x - f64::from(left) * x,
            y: area.y - f64::from(inner.y) * y,
            width: f64::from(width) * x,
            height: f64::from(height) * y,
        }
    }

    /// Returns true if the output has padding.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.inner != Rect::whole(self.width, self.height)
    }
}

/// Size of a view in pixels, for the constructors of [`View`]. Converts from `224` or `(height, width)`.
///
/// ```
/// use shardpack_jpeg::{View, ViewSize};
/// assert_eq!(ViewSize::from(224), ViewSize { height: 224, width: 224 });
/// assert_eq!(View::resize((96, 128)).size(), Some((96, 128)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewSize {
    /// Number of rows.
    pub height: u32,
    /// Number of columns.
    pub width: u32,
}

impl From<u32> for ViewSize {
    fn from(side: u32) -> Self {
        Self { height: side, width: side }
    }
}

impl From<(u32, u32)> for ViewSize {
    fn from(size: (u32, u32)) -> Self {
        Self { height: size.0, width: size.1 }
    }
}

impl Framing {
    /// Default range of the area of a random crop, as a fraction of the picture's area.
    pub const SCALE: (f64, f64) = (0.08, 1.0);
    /// Default range of the aspect ratio (width / height) of a random crop.
    pub const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);

    /// Returns true if a view may have a border.
    #[must_use]
    pub const fn has_border(&self) -> bool {
        match self {
            Self::Pad { .. } | Self::Rescaled { .. } | Self::Part { .. } => true,
            Self::IouCrop { crop, .. } => crop.zoom_out.is_some(),
            _ => false,
        }
    }
}

impl View {
    const fn new(framing: Framing) -> Self {
        Self { framing, flip: 0.0, interpolation: Interpolation::Bilinear }
    }

    /// Shows the whole picture at its own size.
    #[must_use]
    pub const fn whole() -> Self {
        Self::new(Framing::Whole)
    }

    /// Shows a rectangle at its own size.
    #[must_use]
    pub const fn rectangle(rect: Rect) -> Self {
        Self::new(Framing::Rectangle(rect))
    }

    /// Shows the whole picture, resized to the given size.
    #[must_use]
    pub fn resize(size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::Resize(size.into()))
    }

    /// Resizes the picture to a shorter side of `short_side`, and shows its centre, of size `size`. ImageNet evaluation
    /// usually uses 256 and 224.
    #[must_use]
    pub fn center_crop(short_side: u32, size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::CenterCrop { short_side, size: size.into() })
    }

    /// Shows a random part, resized to the given size. It has 8 to 100 % of the area and an aspect ratio of
    /// 3/4 to 4/3.
    #[must_use]
    pub fn random_resized_crop(size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::RandomResizedCrop { size: size.into(), scale: Framing::SCALE, ratio: Framing::RATIO })
    }

    /// Shows the whole picture, centred on gray (114), at the largest size that fits without changing the
    /// aspect ratio.
    ///
    /// ```
    /// use shardpack_jpeg::{Framing, View};
    /// let black = View { framing: Framing::Pad { size: 640.into(), fill: [0; 3] }, ..View::pad(640) };
    /// assert_eq!(black.size(), Some((640, 640)));
    /// ```
    #[must_use]
    pub fn pad(size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::Pad { size: size.into(), fill: GREY })
    }

    /// Shows the picture at 0.1 to 2 times the size that just fits (large-scale jitter). A picture larger than the
    /// output is cropped at random. A smaller picture is placed at the upper left corner, on gray (114).
    #[must_use]
    pub fn scale_jitter(size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::Rescaled { size: size.into(), rescaled: Rescaled::FIT, fill: GREY })
    }

    /// Resizes the picture to a random length of its shorter side, in pixels, and shows a random crop. A picture
    /// smaller than the output is placed at random on gray (114).
    #[must_use]
    pub fn random_crop(size: impl Into<ViewSize>, short_side: (u32, u32)) -> Self {
        let rescaled = Rescaled::ShortSide { range: short_side };
        Self::new(Framing::Rescaled { size: size.into(), rescaled, fill: GREY })
    }

    /// Shows the whole picture in its own proportions. Its shorter side gets one of the lengths of `short`.
    #[must_use]
    pub const fn shortest(short: ShortestSide) -> Self {
        Self::new(Framing::Shortest(short))
    }

    /// Shows a part that is chosen by its overlap with the boxes of the picture, resized to the given size.
    #[must_use]
    pub fn iou_crop(size: impl Into<ViewSize>) -> Self {
        Self::new(Framing::IouCrop { size: size.into(), crop: IouCrop::default(), fill: GREY })
    }

    /// Adds a left-to-right flip with probability `flip`.
    #[must_use]
    pub const fn with_flip(self, flip: f64) -> Self {
        Self { flip, ..self }
    }

    /// Sets the interpolation.
    #[must_use]
    pub const fn with_interpolation(self, interpolation: Interpolation) -> Self {
        Self { interpolation, ..self }
    }

    /// Returns the height and width of the output, or `None` if they depend on the picture.
    #[must_use]
    pub const fn size(&self) -> Option<(u32, u32)> {
        match self.framing {
            Framing::Whole | Framing::Shortest(_) => None,
            Framing::Rectangle(Rect { height, width, .. }) => Some((height, width)),
            Framing::Resize(size)
            | Framing::CenterCrop { size, .. }
            | Framing::RandomResizedCrop { size, .. }
            | Framing::Pad { size, .. }
            | Framing::Rescaled { size, .. }
            | Framing::IouCrop { size, .. }
            | Framing::Part { size, .. } => Some((size.height, size.width)),
        }
    }

    /// Fails if the view is impossible for every picture.
    ///
    /// # Errors
    /// `Usage` if the output has no pixels, a crop is larger than its source, a range is empty or not
    /// positive, or the probability is invalid.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.flip) {
            return Err(Error::usage(format!("the probability of a flip must be from 0 to 1, not {}", self.flip)));
        }
        if let Some((height, width)) = self.size()
            && (height == 0 || width == 0)
        {
            return Err(Error::usage(format!(
                "a view must be at least 1 pixel high and 1 pixel wide, not {height} × {width}"
            )));
        }
        match self.framing {
            Framing::CenterCrop { short_side, size: ViewSize { height, width } } if height.max(width) > short_side => {
                Err(Error::usage(format!(
                    "a centre crop of {height} × {width} pixels is too large for pictures that are resized to a \
                     shorter side of {short_side} pixels"
                )))
            }
            Framing::RandomResizedCrop { scale, ratio, .. } => {
                let good = |range: (f64, f64)| range.0 > 0.0 && range.0 <= range.1 && range.1.is_finite();
                match (good(scale) && scale.1 <= 1.0, good(ratio)) {
                    (true, true) => Ok(()),
                    (false, _) => Err(Error::usage(format!(
                        "the scale of a random crop must satisfy 0 < low ≤ high ≤ 1, but is {scale:?}"
                    ))),
                    (_, false) => Err(Error::usage(format!(
                        "the ratio of a random crop must satisfy 0 < low ≤ high, but is {ratio:?}"
                    ))),
                }
            }
            Framing::Rescaled { rescaled, .. } => rescaled.check(),
            Framing::Shortest(short) => short.check(),
            Framing::IouCrop { crop, .. } => crop.check(),
            _ => Ok(()),
        }
    }

    /// Returns the view of a picture of `width` × `height` pixels with these boxes: left, top, right and bottom, in
    /// pixels and within the picture. Only [`Framing::IouCrop`] depends on the boxes, and becomes [`Framing::Part`].
    ///
    /// ```
    /// use shardpack_jpeg::{DrawKey, View};
    /// let key = DrawKey { seed: 1, epoch: 0, sample: 9 };
    /// let view = View::iou_crop(300).of_boxes(500, 375, &key, &[[200.0, 100.0, 260.0, 220.0]])?;
    /// let crop = view.resolve(500, 375, &key)?;
    /// assert_eq!((crop.height, crop.width), (300, 300));
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`check`](Self::check).
    pub fn of_boxes(self, width: u32, height: u32, key: &DrawKey, boxes: &[[f64; 4]]) -> Result<Self> {
        self.check()?;
        let Framing::IouCrop { size, crop, fill } = self.framing else { return Ok(self) };
        let area = crop.area([width, height], boxes, &key.draws());
        Ok(Self { framing: Framing::Part { area, size, fill }, ..self })
    }

    /// Returns the crop of an upright picture of `width` × `height` pixels. For [`Framing::IouCrop`], the picture has
    /// no boxes.
    ///
    /// Draw 0 of `key` decides the flip: the picture is flipped if the number is below the probability. Attempt i at
    /// a random crop uses draws 4i + 4 to 4i + 7 for the area, the aspect ratio, the row and the column. A random size
    /// uses draw 4, and its place uses draws 6 and 7. A crop that depends on boxes uses draws 4 to 7 for its canvas,
    /// and draws from 64 on. Changing the framing therefore does not change the flips, and
    /// vice versa.
    ///
    /// # Errors
    /// Same as [`check`](Self::check); also `Usage` if the picture has no pixels, a rectangle is not within it, or an
    /// area is outside it.
    pub fn resolve(&self, width: u32, height: u32, key: &DrawKey) -> Result<Crop> {
        self.check()?;
        if width == 0 || height == 0 {
            return Err(Error::usage(format!(
                "a picture must be at least 1 pixel high and 1 pixel wide, not {height} × {width}"
            )));
        }
        let draws = key.draws();
        let flip = self.flip > 0.0 && draws.pair(0)[0] < self.flip;
        let whole = Rect { x: 0, y: 0, width, height };
        let of = |area, window, ViewSize { height, width }| Crop {
            area,
            window,
            height,
            width,
            flip,
            inner: Rect::whole(width, height),
            fill: [0; 3],
        };
        let sized = |window: Rect, size| of(Area::of(window), window, size);
        let bordered = |placed: RescaledPicture, size: ViewSize, fill| {
            let mirrored = size.width - placed.inner.right();
            let inner = Rect { x: if flip { mirrored } else { placed.inner.x }, ..placed.inner };
            Crop { inner, fill, ..of(placed.area, placed.window, size) }
        };
        Ok(match self.framing {
            Framing::Whole => sized(whole, ViewSize { height, width }),
            Framing::Rectangle(rect) => {
                let within = |at: u32, extent: u32, side: u32| at.checked_add(extent).is_some_and(|end| end <= side);
                if !within(rect.x, rect.width, width) || !within(rect.y, rect.height, height) {
                    return Err(Error::usage(format!(
                        "the rectangle {rect} is not within the picture of {width} × {height} pixels"
                    )));
                }
                sized(rect, ViewSize { height: rect.height, width: rect.width })
            }
            Framing::Resize(size) => sized(whole, size),
            Framing::CenterCrop { short_side, size } => {
                let short = width.min(height);
                let support = self.interpolation.support();
                let x = Centre::of(width, short, short_side, size.width, support);
                let y = Centre::of(height, short, short_side, size.height, support);
                let area = Area { x: x.start, y: y.start, width: x.extent, height: y.extent };
                let window = Rect { x: x.seen.0, y: y.seen.0, width: x.seen.1 - x.seen.0, height: y.seen.1 - y.seen.0 };
                of(area, window, size)
            }
            Framing::RandomResizedCrop { size, scale, ratio } => {
                sized(random_part(width, height, scale, ratio, &draws), size)
            }
            Framing::Pad { size, fill } => {
                let [inner_width, inner_height] = fitted([width, height], [size.width, size.height]);
                let (beside, y) = (size.width - inner_width, (size.height - inner_height) / 2);
                let left = beside / 2;
                let x = if flip { beside - left } else { left };
                let inner = Rect { x, y, width: inner_width, height: inner_height };
                Crop { inner, fill, ..sized(whole, size) }
            }
            Framing::Rescaled { size, rescaled, fill } => {
                let support = self.interpolation.support();
                let placed = jittered::placed(rescaled, [width, height], [size.width, size.height], support, &draws);
                bordered(placed, size, fill)
            }
            Framing::Shortest(short) => {
                let [width, height] = short.resized([width, height], Some(key));
                sized(whole, ViewSize { height, width })
            }
            Framing::IouCrop { .. } => return self.of_boxes(width, height, key, &[])?.resolve(width, height, key),
            Framing::Part { area, size, fill } => {
                let Some(placed) = jittered::part(area, [width, height], [size.width, size.height]) else {
                    let Area { x, y, width: across, height: down } = area;
                    let text = format!(
                        "the area of {across} × {down} pixels at ({x}, {y}) does not overlap the picture of {width} × \
                         {height} pixels"
                    );
                    return Err(Error::usage(text));
                };
                bordered(placed, size, fill)
            }
        })
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
