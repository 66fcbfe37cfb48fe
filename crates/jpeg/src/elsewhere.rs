//! Data for decoders outside this crate, such as the device kernels: the stored coding tables, and the source pixels
//! of a rendering.
//!
//! This module does not decode anything itself. A decoder that uses this data can produce the same pixels as
//! [`JpegDecoder`](super::JpegDecoder).
#![deny(clippy::indexing_slicing)]

use super::area::Area;
use super::orientation::Orientation;
use super::resize::Resizing;
use super::view::Crop;
use super::walk::Walk;
use super::{Interpolation, JpegHeader, Rect, Rendering};
use shardpack_format::Result;

/// A Huffman code as stored in a JPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCode<'a> {
    /// Number of codes of each length, 1 to 16.
    pub counts: &'a [u8; 16],
    /// Symbols of the codes, at most 256.
    pub symbols: &'a [u8],
}

/// Tables of all components of a baseline picture with one interleaved scan.
#[derive(Debug, Clone, Copy)]
pub struct Coding<'a> {
    count: usize,
    components: [ComponentCoding<'a>; 3],
}

/// The tables of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentCoding<'a> {
    /// 8-bit quantisation steps, in zigzag order.
    pub quantisers: &'a [u8; 64],
    /// Index of the DC code, 0 to 3. Components with the same index share a code.
    pub dc_number: u8,
    /// Index of the AC code.
    pub ac_number: u8,
    /// Code of the DC differences.
    pub dc: StoredCode<'a>,
    /// Code of the AC coefficients.
    pub ac: StoredCode<'a>,
}

impl<'a> Coding<'a> {
    /// Reads the tables of `jpeg`, whose header is `header`. Returns `None` if a table is missing, a code is
    /// invalid, or the picture is not a baseline picture with one or three components.
    #[must_use]
    pub fn read(jpeg: &'a [u8], header: &JpegHeader) -> Option<Self> {
        let mut quantisers: [Option<&[u8; 64]>; 4] = [None; 4];
        let mut codes: [[Option<StoredCode<'_>>; 4]; 2] = [[None; 4]; 2];
        let mut walk = Walk::new(jpeg);
        let scan = loop {
            let (marker, _) = walk.marker(&mut 0).ok()?;
            if matches!(marker, 0x01 | 0xD0..=0xD7) {
                return None;
            }
            let mut body = walk.segment().ok()?;
            match marker {
                0xDB => {
                    while let Some((&head, rest)) = body.split_first() {
                        let (table, rest) = rest.split_first_chunk()?;
                        *quantisers.get_mut(usize::from(head))? = Some(table);
                        body = rest;
                    }
                }
                0xC4 => {
                    while let Some((&head, rest)) = body.split_first() {
                        let (counts, rest) = rest.split_first_chunk::<16>()?;
                        let count = counts.iter().map(|&n| usize::from(n)).sum();
                        let (symbols, rest) = rest.split_at_checked(count).filter(|_| count <= 256)?;
                        let class = codes.get_mut(usize::from(head >> 4))?;
                        *class.get_mut(usize::from(head & 15))? = Some(StoredCode { counts, symbols });
                        body = rest;
                    }
                }
                0xDA => break body,
                _ => {}
            }
        };
        let components = header.components();
        let (&count, rest) = scan.split_first()?;
        let (specs, &[0, 63, 0]) = rest.split_last_chunk::<3>()? else { return None };
        let specs = specs.as_chunks::<2>().0;
        if usize::from(count) != components.len() || specs.len() != components.len() {
            return None;
        }
        let [dc_codes, ac_codes] = &codes;
        let mut found = [None; 3];
        for ((component, &[id, tables]), to) in components.iter().zip(specs).zip(&mut found) {
            if component.id != id || components.iter().filter(|other| other.id == id).count() != 1 {
                return None;
            }
            let (dc_number, ac_number) = (tables >> 4, tables & 15);
            let dc = dc_codes.get(usize::from(dc_number)).copied().flatten()?;
            let ac = ac_codes.get(usize::from(ac_number)).copied().flatten()?;
            if !dc.exists() || !ac.exists() || dc.symbols.iter().any(|&symbol| symbol > 15) {
                return None;
            }
            let quantisers = quantisers.get(usize::from(component.table)).copied().flatten()?;
            *to = Some(ComponentCoding { quantisers, dc_number, ac_number, dc, ac });
        }
        let [first, second, third] = found;
        let first = first?;
        // If there is a single component, fill all three places with it. Only the first is used.
        let (count, second, third) = match (specs.len(), second, third) {
            (1, None, None) => (1, first, first),
            (3, Some(second), Some(third)) => (3, second, third),
            _ => return None,
        };
        Some(Self { count, components: [first, second, third] })
    }

    /// Returns all components: one for a gray picture, otherwise three.
    #[must_use]
    pub fn components(&self) -> &[ComponentCoding<'a>] {
        // This cannot fail, because `count` is at most the length of the array.
        let (components, _) = self.components.split_at(self.count);
        components
    }
}

impl StoredCode<'_> {
    /// Returns true if the code is valid by libjpeg's rules (`jdhuff.c`): every code fits its length, and no code
    /// consists only of ones.
    fn exists(&self) -> bool {
        let mut code = 0_u32;
        self.symbols.len() <= 256
            && (1_u32..).zip(self.counts).all(|(length, &count)| {
                code += u32::from(count);
                let fits = code < 1 << length;
                code <<= 1;
                fits
            })
    }
}

/// Maps the pixels of a rendering to pixels of the stored picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// Pixels that the filter may read.
    pub window: Rect,
    /// Resizing along x.
    pub x: ResizedAxis,
    /// Resizing along y.
    pub y: ResizedAxis,
    /// True if rows and columns are swapped after mirroring.
    pub transposed: bool,
    /// True if the resized picture is mirrored left to right.
    pub mirrored_x: bool,
    /// True if the resized picture is mirrored upside down.
    pub mirrored_y: bool,
    /// Number of rows of the output.
    pub height: u32,
    /// Number of columns of the output.
    pub width: u32,
    /// Position of the picture in the output, after turning and mirroring. Without padding it is the whole
    /// output.
    pub inner: Rect,
    /// Colour of the padding: red, green and blue.
    pub fill: [u8; 3],
}

/// Filter for resizing along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisFilter {
    /// Copies the pixels unchanged, from [`ResizedAxis::start`] on.
    Copy,
    /// Uses the pixel that contains the centre of the new pixel ([`Interpolation::Nearest`]).
    Nearest {
        /// True if the upright picture is mirrored along this axis. A centre on the border between two pixels
        /// then selects the left or upper pixel instead of the right or lower one.
        mirrored: bool,
    },
    /// An antialiased triangle filter, two output pixels wide.
    Triangle,
    /// An antialiased cubic filter, four output pixels wide.
    Cubic,
}

/// Describes resizing along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResizedAxis {
    /// Start of the part to show, in pixels of the window.
    pub start: f64,
    /// End of the part to show, in pixels of the window.
    pub end: f64,
    /// Length of the window along this axis, in pixels.
    pub pixels: u32,
    /// Number of pixels after resizing.
    pub resized: u32,
    /// Filter that computes the pixels.
    pub filter: AxisFilter,
}

impl Placement {
    /// Computes the placement of a rendering, for a picture with `width` × `height` stored pixels.
    ///
    /// # Errors
    /// `Usage` if the view is impossible for this size, or the orientation is not in 1..=8.
    pub fn new(how: &Rendering, width: u32, height: u32) -> Result<Self> {
        let turn = Orientation::of(how.orientation)?;
        let (w, h) = turn.size(width, height);
        let crop = how.view.resolve(w, h, &how.key)?;
        let area = turn.stored_area(crop.area, width, height);
        let window = turn.stored_rect(crop.window, width, height);
        let Crop { height, width, flip, inner, fill, .. } = crop;
        let (columns, rows) = turn.size(inner.width, inner.height);
        // As in `RenderPlan`, a flip does not change which of two equally near pixels is used.
        let Resizing { interpolation, mirrored: [across, down], .. } = turn.resizing(how.view.interpolation);
        let turn = if flip { turn.flipped() } else { turn };
        let Area { x, y, width: shown_width, height: shown_height } = area;
        let (transposed, mirrored_x, mirrored_y) = turn.parts();
        Ok(Self {
            window,
            x: ResizedAxis::new([x, shown_width], window.x, window.width, columns, filter(interpolation, across)),
            y: ResizedAxis::new([y, shown_height], window.y, window.height, rows, filter(interpolation, down)),
            transposed,
            mirrored_x,
            mirrored_y,
            height,
            width,
            inner,
            fill,
        })
    }

    /// Returns true if the output has padding.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.inner != Rect::whole(self.width, self.height)
    }

    /// Returns true if a cubic filter is applied along at least one axis. A cubic filter takes two passes,
    /// each of them rounded and clamped. Its first pass is along the rows of the upright picture, whereas the
    /// triangle's first pass is along the columns of the stored picture.
    #[must_use]
    pub fn is_cubic(&self) -> bool {
        self.x.filter == AxisFilter::Cubic || self.y.filter == AxisFilter::Cubic
    }
}

const fn filter(interpolation: Interpolation, mirrored: bool) -> AxisFilter {
    match interpolation {
        Interpolation::Nearest => AxisFilter::Nearest { mirrored },
        Interpolation::Bilinear => AxisFilter::Triangle,
        Interpolation::Bicubic => AxisFilter::Cubic,
    }
}

impl ResizedAxis {
    /// Computes the resizing along one axis, with the same arithmetic as `Resizer::resize` and the
    /// crate that it uses.
    fn new([at, extent]: [f64; 2], window: u32, pixels: u32, resized: u32, filter: AxisFilter) -> Self {
        let start = (at - f64::from(window)).max(0.0);
        let extent = extent.min(f64::from(pixels) - start);
        let copies = f64::from(resized) == extent && start == start.round();
        let filter = if copies { AxisFilter::Copy } else { filter };
        Self { start, end: start + extent, pixels, resized, filter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{encode, plain};
    use crate::{DrawKey, PixelFormat, Subsampling, View};

    #[test]
    fn tables_are_those_of_the_picture() {
        let jpeg = encode((40, 24), PixelFormat::Rgb, plain(Subsampling::S420), None);
        let header = JpegHeader::parse(&jpeg).unwrap();
        let coding = Coding::read(&jpeg, &header).unwrap();
        let [luma, blue, red] = coding.components() else { panic!("three components") };
        assert_eq!((blue.dc_number, blue.ac_number), (red.dc_number, red.ac_number));
        assert_ne!(luma.ac.symbols, blue.ac.symbols);
        for code in [luma.dc, luma.ac, blue.dc, blue.ac] {
            assert_eq!(code.counts.iter().map(|&n| usize::from(n)).sum::<usize>(), code.symbols.len());
        }
        // These counts are invalid: they lead to a code that consists only of ones, or to codes that do not fit their
        // length.
        let counts = |n: [u8; 3]| std::array::from_fn(|i| n.get(i).copied().unwrap_or(0));
        for (n, good) in
            [([1, 1, 1], true), ([2, 0, 0], false), ([1, 2, 0], false), ([0, 3, 1], true), ([0, 3, 2], false)]
        {
            let code = StoredCode { counts: &counts(n), symbols: &[0; 5] };
            assert_eq!(code.exists(), good, "{n:?}");
        }
    }

    #[test]
    fn a_placement_is_of_stored_pixels() {
        let view = View::rectangle(Rect { x: 3, y: 5, width: 20, height: 10 });
        let how = Rendering { view, orientation: 6, ..Default::default() };
        // The upright picture has 24 × 40 pixels: stored rows become columns, and the last stored
        // row becomes the first column.
        let placed = Placement::new(&how, 40, 24).unwrap();
        assert_eq!(placed.window, Rect { x: 5, y: 1, width: 10, height: 20 });
        assert_eq!([placed.x.filter, placed.y.filter], [AxisFilter::Copy; 2]);
        assert!(placed.transposed && !placed.is_padded());
        assert_eq!((placed.height, placed.width, placed.x.resized), (10, 20, 10));
        let place = |view| Placement::new(&Rendering { view, ..Default::default() }, 40, 24).unwrap();
        let padded = place(View::pad(50));
        assert_eq!((padded.inner, padded.fill), (Rect { x: 0, y: 10, width: 50, height: 30 }, [114; 3]));
        assert_eq!((padded.x.resized, padded.y.resized, padded.height), (50, 30, 50));
        assert!(padded.is_padded() && !place(View::pad((12, 20))).is_padded());
        let cubic = |view: View| place(view.with_interpolation(Interpolation::Bicubic)).is_cubic();
        assert!(cubic(View::resize((12, 20))) && cubic(View::resize((24, 20))) && !cubic(View::whole()));
        let view = View::resize((12, 20)).with_interpolation(Interpolation::Nearest);
        let placed = Placement::new(&Rendering { view, orientation: 2, ..Default::default() }, 40, 24).unwrap();
        assert_eq!(placed.x.filter, AxisFilter::Nearest { mirrored: true });
        assert_eq!(placed.y.filter, AxisFilter::Nearest { mirrored: false });
        let crop = Rendering { view: View::random_resized_crop(30), key: DrawKey::default(), ..Default::default() };
        let placed = Placement::new(&crop, 40, 24).unwrap();
        assert_eq!(placed.x.end, f64::from(placed.window.width));
    }
}
