//! Turns the decoded pixels of any picture into the content of the caller's slot: crops, resizes, turns and flips the
//! picture.

use super::area::Area;
use super::orientation::{Orientation, PixelLayout};
use super::resize::{Cutout, Resizer, Resizing};
use super::shared::trim;
use super::view::Crop;
use super::{DrawKey, Rect, View};
use shardpack_base::parts::grow;
use shardpack_format::{Error, Result};

/// How to render a picture: view, random choices, orientation and axis order.
///
/// ```
/// use shardpack_jpeg::{DrawKey, PixelLayout, Rendering, View};
/// let rendering = Rendering {
///     view: View::random_resized_crop(224).with_flip(0.5),
///     key: DrawKey { seed: 1, epoch: 3, sample: 77 },
///     layout: PixelLayout::ChannelsHeightWidth,
///     ..Default::default()
/// };
/// assert_eq!(rendering.orientation, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rendering {
    /// Part to show, in coordinates of the upright picture, and the size of the output. Default: the whole picture.
    pub view: View,
    /// Key for the random numbers of random views.
    pub key: DrawKey,
    /// Exif orientation of the stored pixels, 1..=8. The output is upright. Default 1: already upright.
    pub orientation: u8,
    /// Axis order of the output.
    pub layout: PixelLayout,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { view: View::whole(), key: DrawKey::default(), orientation: 1, layout: PixelLayout::default() }
    }
}

/// Plan for rendering one picture, in coordinates of its stored pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RenderPlan {
    turn: Orientation,
    pub(crate) area: Area,
    /// Pixels that the resizing filter may read.
    pub(crate) window: Rect,
    /// Width and height after resizing.
    resized: (u32, u32),
    /// Width and height of the output.
    pub(crate) output: (u32, u32),
    layout: PixelLayout,
    resizing: Resizing,
    border: Option<Border>,
}

#[derive(Debug, Clone, Copy)]
struct Border {
    /// Position of the picture in the output.
    inner: Rect,
    fill: [u8; 3],
}

impl RenderPlan {
    /// Plans the rendering of a picture with `columns` × `rows` stored pixels into a slot of `slot_bytes`
    /// bytes.
    pub(crate) fn new(how: &Rendering, columns: u32, rows: u32, slot_bytes: usize) -> Result<Self> {
        let turn = Orientation::of(how.orientation)?;
        let (width, height) = turn.size(columns, rows);
        let crop = how.view.resolve(width, height, &how.key)?;
        let Crop { area, window, height, width, flip, inner, fill } = crop;
        let needed = u64::from(width) * u64::from(height) * 3;
        if needed != slot_bytes as u64 {
            return Err(Error::usage(format!(
                "the picture needs a buffer of {height} × {width} × 3 = {needed} bytes, but this one has {slot_bytes}"
            )));
        }
        let (area, window) = (turn.stored_area(area, columns, rows), turn.stored_rect(window, columns, rows));
        let resized = turn.size(inner.width, inner.height);
        let resizing = turn.resizing(how.view.interpolation);
        let turn = if flip { turn.flipped() } else { turn };
        let border = crop.is_padded().then_some(Border { inner, fill });
        Ok(Self { turn, area, window, resized, output: (width, height), layout: how.layout, resizing, border })
    }

    /// Returns the rectangle of pixels that is copied to the output, or `None` if the picture is resized.
    pub(crate) fn exact(&self) -> Option<Rect> {
        self.area.rect().filter(|rect| (rect.width, rect.height) == self.resized)
    }

    /// Returns true if the output has the same bytes in the same order as the stored rectangle.
    pub(crate) fn is_plain(&self) -> bool {
        self.turn.is_none() && self.layout == PixelLayout::HeightWidthChannels && self.border.is_none()
    }
}

/// Crops, resizes and turns pictures in one thread. Its buffers grow to fit the largest output so far, and stay
/// allocated until they are trimmed.
pub(crate) struct Renderer {
    resizer: Resizer,
    resized: Vec<u8>,
    /// The picture without the padding around it.
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

    pub(crate) fn trim(&mut self) {
        trim([&mut self.resized, &mut self.inner]);
        self.resizer.trim();
    }

    /// Renders the pixels `from` into `slot`. They must be the pixels that the plan needs.
    pub(crate) fn render(&mut self, plan: &RenderPlan, from: &Cutout<'_>, slot: &mut [u8]) -> Result<()> {
        if let Some(border) = plan.border {
            return self.padded(plan, border, from, slot);
        }
        let (width, height) = (plan.output.0 as usize, plan.output.1 as usize);
        if let Some(rect) = from.area.rect().filter(|rect| (rect.width, rect.height) == plan.resized) {
            let rows = from
                .pixels
                .rows(rect)
                .ok_or_else(|| Error::usage(format!("the crop {rect} is not within the picture")))?;
            plan.turn.write(rows, width, height, plan.layout, slot);
            return Ok(());
        }
        let (columns, rows) = plan.resized;
        if plan.turn.keeps_rows() && plan.layout == PixelLayout::HeightWidthChannels {
            self.resizer.resize(from, columns, rows, plan.resizing, slot)?;
            if plan.turn.mirrors_rows() && width > 0 {
                slot.as_chunks_mut::<3>().0.chunks_exact_mut(width).for_each(<[_]>::reverse);
            }
            return Ok(());
        }
        let resized = grow(&mut self.resized, slot.len());
        self.resizer.resize(from, columns, rows, plan.resizing, resized)?;
        let rows = resized.as_chunks::<3>().0.chunks_exact(columns as usize);
        plan.turn.write(rows, width, height, plan.layout, slot);
        Ok(())
    }

    fn padded(&mut self, plan: &RenderPlan, border: Border, from: &Cutout<'_>, slot: &mut [u8]) -> Result<()> {
        let Border { inner, fill } = border;
        let (width, height) = (plan.output.0 as usize, plan.output.1 as usize);
        let bytes = inner.width as usize * inner.height as usize * 3;
        let plan = RenderPlan { output: (inner.width, inner.height), border: None, ..*plan };
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
        // Without padding at the sides, the picture's rows are contiguous in the output too.
        if pixel == 3 && inner.width as usize == width {
            return self.render(&plan, from, &mut slot[inner.y as usize * stride..][..bytes]);
        }
        let mut pixels = std::mem::take(&mut self.inner);
        let rendered = self.render(&plan, from, grow(&mut pixels, bytes));
        let (row, left) = (inner.width as usize * pixel, inner.x as usize * pixel);
        let plane = row * inner.height as usize;
        let planes = pixels.chunks_exact(plane.max(1)).zip(slot.chunks_exact_mut((stride * height).max(1)));
        for (from, to) in planes {
            let rows = to.chunks_exact_mut(stride.max(1)).skip(inner.y as usize);
            for (from, to) in from.chunks_exact(row.max(1)).zip(rows) {
                to[left..left + row].copy_from_slice(from);
            }
        }
        self.inner = pixels;
        rendered
    }
}
