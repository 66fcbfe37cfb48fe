//! Turning and mirroring between the stored and the upright picture (Exif 2.32, tag 0x0112), and the axis
//! order of the output.

use super::area::Area;
use super::resize::Resizing;
use super::{Interpolation, Rect};
use shardpack_format::{Error, Result, bug};

/// Axis order of the output. The three channels are red, green and blue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PixelLayout {
    /// `[height, width, 3]`, as in stored pictures and nvJPEG's output.
    #[default]
    HeightWidthChannels,
    /// `[3, height, width]`, as PyTorch's convolutions expect.
    ChannelsHeightWidth,
}

/// Transformation from the stored to the upright picture. Pixel (x, y) of the upright picture is pixel (x, y)
/// of the stored picture, or (y, x) if it is transposed. A mirrored axis is counted from its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orientation {
    transposed: bool,
    mirrored_x: bool,
    mirrored_y: bool,
}

impl Orientation {
    /// Converts an Exif orientation, 1..=8.
    pub(crate) fn of(orientation: u8) -> Result<Self> {
        let (transposed, mirrored_x, mirrored_y) = match orientation {
            1 => (false, false, false),
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (true, true, false),
            other => {
                return Err(Error::usage(format!("the Exif orientation must be from 1 to 8, but is {other}")));
            }
        };
        Ok(Self { transposed, mirrored_x, mirrored_y })
    }

    /// Returns three flags: transposed, mirrored along the stored x axis, and mirrored along the stored y axis.
    pub(crate) const fn parts(self) -> (bool, bool, bool) {
        (self.transposed, self.mirrored_x, self.mirrored_y)
    }

    /// Returns options that make resizing the stored picture equivalent to resizing the upright picture.
    pub(crate) const fn resizing(self, interpolation: Interpolation) -> Resizing {
        Resizing { interpolation, mirrored: [self.mirrored_x, self.mirrored_y], transposed: self.transposed }
    }

    /// Adds a left-to-right flip of the upright picture.
    pub(crate) const fn flipped(self) -> Self {
        match self.transposed {
            true => Self { mirrored_y: !self.mirrored_y, ..self },
            false => Self { mirrored_x: !self.mirrored_x, ..self },
        }
    }

    /// Returns true if the rows keep their order. Each row may still be mirrored.
    pub(crate) const fn keeps_rows(self) -> bool {
        !self.transposed && !self.mirrored_y
    }

    pub(crate) const fn mirrors_rows(self) -> bool {
        self.mirrored_x
    }

    pub(crate) const fn is_none(self) -> bool {
        !self.transposed && !self.mirrored_x && !self.mirrored_y
    }

    /// Returns the width and height after turning.
    pub(crate) const fn size(self, width: u32, height: u32) -> (u32, u32) {
        if self.transposed { (height, width) } else { (width, height) }
    }

    /// Converts a rectangle of the upright picture to coordinates of the stored picture, whose size is `width` ×
    /// `height`.
    pub(crate) const fn stored_rect(self, rect: Rect, width: u32, height: u32) -> Rect {
        let Rect { mut x, mut y, width: mut w, height: mut h } = rect;
        if self.transposed {
            (x, y, w, h) = (y, x, h, w);
        }
        if self.mirrored_x {
            x = width - w - x;
        }
        if self.mirrored_y {
            y = height - h - y;
        }
        Rect { x, y, width: w, height: h }
    }

    /// Converts an area of the upright picture to coordinates of the stored picture, whose size is `width` × `height`.
    pub(crate) fn stored_area(self, area: Area, width: u32, height: u32) -> Area {
        let Area { mut x, mut y, width: mut w, height: mut h } = area;
        if self.transposed {
            (x, y, w, h) = (y, x, h, w);
        }
        if self.mirrored_x {
            x = f64::from(width) - w - x;
        }
        if self.mirrored_y {
            y = f64::from(height) - h - y;
        }
        Area { x, y, width: w, height: h }
    }

    /// Writes the stored `rows` (slices of RGB pixels) upright into `out`, a picture of `width` × `height`.
    ///
    /// # Panics
    /// Panics if the rows do not fill `out` exactly.
    pub(crate) fn write<'a>(
        self,
        rows: impl DoubleEndedIterator<Item = &'a [[u8; 3]]> + ExactSizeIterator,
        width: usize,
        height: usize,
        layout: PixelLayout,
        out: &mut [u8],
    ) {
        if out.len() != width * height * 3 {
            bug("the output of a picture differs in size from its pixels");
        }
        if width == 0 || height == 0 {
            return;
        }
        if rows.len() != if self.transposed { width } else { height } {
            bug("a picture and its output differ in their number of rows");
        }
        if self.mirrored_y {
            self.write_rows(rows.rev(), width, height, layout, out)
        } else {
            self.write_rows(rows, width, height, layout, out)
        }
    }

    fn write_rows<'a>(
        self,
        rows: impl Iterator<Item = &'a [[u8; 3]]>,
        width: usize,
        height: usize,
        layout: PixelLayout,
        out: &mut [u8],
    ) {
        let across = if self.transposed { height } else { width };
        let rows = rows.inspect(|row| {
            if row.len() != across {
                bug("a row of a picture differs in length from a row of its output");
            }
        });
        match (layout, self.transposed) {
            (PixelLayout::HeightWidthChannels, false) => {
                for (from, to) in rows.zip(out.as_chunks_mut::<3>().0.chunks_exact_mut(width)) {
                    to.copy_from_slice(from);
                    if self.mirrored_x {
                        to.reverse();
                    }
                }
            }
            (PixelLayout::ChannelsHeightWidth, false) => {
                let (red, rest) = out.split_at_mut(width * height);
                let (green, blue) = rest.split_at_mut(width * height);
                let planes =
                    red.chunks_exact_mut(width).zip(green.chunks_exact_mut(width)).zip(blue.chunks_exact_mut(width));
                for (from, ((red, green), blue)) in rows.zip(planes) {
                    for (((&[r, g, b], red), green), blue) in
                        from.iter().zip(&mut *red).zip(&mut *green).zip(&mut *blue)
                    {
                        (*red, *green, *blue) = (r, g, b);
                    }
                    if self.mirrored_x {
                        red.reverse();
                        green.reverse();
                        blue.reverse();
                    }
                }
            }
            // Each stored row becomes a column.
            (PixelLayout::HeightWidthChannels, true) => {
                let pixels = out.as_chunks_mut::<3>().0;
                for (x, from) in rows.enumerate() {
                    let column = pixels.iter_mut().skip(x).step_by(width);
                    if self.mirrored_x {
                        column.zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
                    } else {
                        column.zip(from).for_each(|(to, from)| *to = *from);
                    }
                }
            }
            (PixelLayout::ChannelsHeightWidth, true) => {
                let (red, rest) = out.split_at_mut(width * height);
                let (green, blue) = rest.split_at_mut(width * height);
                for (x, from) in rows.enumerate() {
                    let column = |plane: &mut [u8], channel: usize| {
                        let column = plane.iter_mut().skip(x).step_by(width);
                        if self.mirrored_x {
                            column.zip(from.iter().rev()).for_each(|(to, from)| *to = from[channel]);
                        } else {
                            column.zip(from).for_each(|(to, from)| *to = from[channel]);
                        }
                    };
                    column(red, 0);
                    column(green, 1);
                    column(blue, 2);
                }
            }
        }
    }
}
