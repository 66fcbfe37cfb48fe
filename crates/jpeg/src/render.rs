//! From decoded pixels to the caller's slot: crop, resize, turn, reflect. Shared by all kinds of
//! pictures.

use super::orientation::Turn;
use super::resize::{How, Pixels, Resizer};
use super::shared::{grown, trim};
use super::view::{Area, Crop};
use super::{DrawKey, Rect, View};
use shardpack_format::{Error, Result};

/// Order of the axes of the output. Three channels: red, green, blue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PixelLayout {
    /// `[height, width, 3]`, like stored pictures and the output of nvJPEG.
    #[default]
    HeightWidthChannels,
    /// `[3, height, width]`, for PyTorch's convolutions.
    ChannelsHeightWidth,
}

/// What to make from a picture.
///
/// ```
/// use shardpack_jpeg::{DrawKey, PixelLayout, Rendering, View};
/// let rendering = Rendering {
///     view: View::random_resized_crop(224, 224).with_flip(0.5),
///     key: DrawKey { seed: 1, epoch: 3, sample: 77 },
///     layout: PixelLayout::ChannelsHeightWidth,
///     ..Default::default()
/// };
/// assert_eq!(rendering.orientation, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rendering {
    /// Which part, and at what size, in coordinates of the upright picture. Default: the whole
    /// picture.
    pub view: View,
    /// The source of random numbers for random views.
    pub key: DrawKey,
    /// Exif orientation of the stored pixels, 1..=8; the output is upright. Default 1: already
    /// upright.
    pub orientation: u8,
    /// Order of the output's axes.
    pub layout: PixelLayout,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { view: View::whole(), key: DrawKey::default(), orientation: 1, layout: PixelLayout::default() }
    }
}

/// A rendering of one picture, in coordinates of its stored pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) turn: Turn,
    /// What is shown.
    pub(crate) area: Area,
    /// The pixels that may be used.
    pub(crate) window: Rect,
    /// Size after resizing: width, height.
    pub(crate) resized: (u32, u32),
    /// Size of the output: width, height.
    pub(crate) output: (u32, u32),
    pub(crate) layout: PixelLayout,
    pub(crate) resizing: How,
    /// Where in the output the picture lies, and the colour beside it, if there is something.
    border: Option<(Rect, [u8; 3])>,
}

impl Plan {
    /// Plans the rendering of a picture of `stored` = (width, height) pixels into a slot of
    /// `slot_bytes`.
    pub(crate) fn new(how: &Rendering, stored: (u32, u32), slot_bytes: usize) -> Result<Self> {
        let turn = Turn::of(how.orientation)?;
        let (width, height) = turn.size(stored);
        let crop = how.view.resolve(width, height, &how.key)?;
        let Crop { area, window, height, width, flip, inner, fill } = crop;
        let needed = u64::from(width) * u64::from(height) * 3;
        if needed != slot_bytes as u64 {
            let found = format!("{slot_bytes} bytes");
            return Err(Error::usage("slot of a picture", format!("{needed} bytes, {height} × {width} × 3"), found));
        }
        let (area, window) = (turn.stored_area(area, stored), turn.stored_rect(window, stored));
        let resized = turn.size((inner.width, inner.height));
        let resizing = turn.resizing(how.view.interpolation);
        let turn = if flip { turn.flipped() } else { turn };
        let border = crop.is_padded().then_some((inner, fill));
        Ok(Self { turn, area, window, resized, output: (width, height), layout: how.layout, resizing, border })
    }

    /// The rectangle whose pixels are the output, if nothing is resized.
    pub(crate) fn exact(&self) -> Option<Rect> {
        self.area.rect().filter(|rect| (rect.width, rect.height) == self.resized)
    }

    /// Whether the output's bytes are those of the stored rectangle, in order.
    pub(crate) fn is_plain(&self) -> bool {
        self.turn.is_none() && self.layout == PixelLayout::HeightWidthChannels && self.border.is_none()
    }
}

/// Crops, resizes and turns, for one thread. Its buffers grow to the largest output and are kept
/// until they are trimmed.
pub(crate) struct Renderer {
    resizer: Resizer,
    resized: Vec<u8>,
    /// What is put between borders.
    inner: Vec<u8>,
}

impl std::fmt::Debug for Renderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer").finish_non_exhaustive()
    }
}

impl Renderer {
    pub(crate) fn new() -> Self {
        Self { resizer: Resizer::new(), resized: Vec::new(), inner: Vec::new() }
    }

    /// Frees the buffers that an unusually large picture has left.
    pub(crate) fn trim(&mut self) {
        trim([&mut self.resized, &mut self.inner]);
        self.resizer.trim();
    }

    /// Renders `from` into `slot`; `window` and `area` are those of the plan, in coordinates of
    /// `from`.
    pub(crate) fn render(
        &mut self,
        plan: &Plan,
        from: Pixels<'_>,
        window: Rect,
        area: Area,
        slot: &mut [u8],
    ) -> Result<()> {
        if let Some((inner, fill)) = plan.border {
            return self.padded(plan, (inner, fill), from, (window, area), slot);
        }
        let (width, height) = (plan.output.0 as usize, plan.output.1 as usize);
        if let Some(rect) = area.rect().filter(|rect| (rect.width, rect.height) == plan.resized) {
            let rows =
                from.rows(rect).ok_or_else(|| Error::usage("crop", "within the picture", format!("{rect:?}")))?;
            return plan.turn.write(rows, (width, height), plan.layout, slot);
        }
        if plan.turn.keeps_rows() && plan.layout == PixelLayout::HeightWidthChannels {
            self.resizer.resize(from, window, area, plan.resized, plan.resizing, slot)?;
            if plan.turn.mirrors_rows() && width > 0 {
                slot.as_chunks_mut::<3>().0.chunks_exact_mut(width).for_each(<[_]>::reverse);
            }
            return Ok(());
        }
        let resized = grown(&mut self.resized, slot.len());
        self.resizer.resize(from, window, area, plan.resized, plan.resizing, resized)?;
        let rows = resized.as_chunks::<3>().0.chunks_exact(plan.resized.0 as usize);
        plan.turn.write(rows, (width, height), plan.layout, slot)
    }

    /// Renders what lies between borders, and fills these.
    fn padded(
        &mut self,
        plan: &Plan,
        (inner, fill): (Rect, [u8; 3]),
        from: Pixels<'_>,
        (window, area): (Rect, Area),
        slot: &mut [u8],
    ) -> Result<()> {
        let (width, height) = (plan.output.0 as usize, plan.output.1 as usize);
        let bytes = inner.width as usize * inner.height as usize * 3;
        let plan = Plan { output: (inner.width, inner.height), border: None, ..*plan };
        let outside = || Error::internal("place of a padded picture", "within its view", inner);
        let pixel = match plan.layout {
            PixelLayout::HeightWidthChannels => {
                slot.as_chunks_mut::<3>().0.fill(fill);
                3
            }
            PixelLayout::ChannelsHeightWidth => {
                let planes = slot.chunks_exact_mut((width * height).max(1));
                planes.zip(fill).for_each(|(plane, level)| plane.fill(level));
                1
            }
        };
        let stride = width * pixel;
        // Without borders at the sides its rows follow each other in the output, too.
        if pixel == 3 && inner.width as usize == width {
            let rows = slot.get_mut(inner.y as usize * stride..).and_then(|rows| rows.get_mut(..bytes));
            return self.render(&plan, from, window, area, rows.ok_or_else(outside)?);
        }
        let mut pixels = std::mem::take(&mut self.inner);
        let rendered = self.render(&plan, from, window, area, grown(&mut pixels, bytes));
        let (row, left) = (inner.width as usize * pixel, inner.x as usize * pixel);
        let plane = row * inner.height as usize;
        let planes = pixels.chunks_exact(plane.max(1)).zip(slot.chunks_exact_mut((stride * height).max(1)));
        for (from, to) in planes {
            let rows = to.chunks_exact_mut(stride.max(1)).skip(inner.y as usize);
            for (from, to) in from.chunks_exact(row.max(1)).zip(rows) {
                to.get_mut(left..left + row).ok_or_else(outside)?.copy_from_slice(from);
            }
        }
        self.inner = pixels;
        rendered
    }
}
