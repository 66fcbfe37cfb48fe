//! The header of a JPEG file, from SOI to its first scan (ITU-T T.81, Annex B): its dimensions and sampling,
//! and the decoders that support it.
//!
//! This module does no I/O and has no dependencies: [`JpegHeader::parse`] takes a prefix of the file and
//! reports how many bytes it needs. The input is untrusted, so the parser allocates nothing and reads every
//! byte at most once.
#![deny(clippy::indexing_slicing)]

use super::error::JpegError;
use super::mcu_grid::McuGrid;
use super::walk::{Walk, be16};

/// One component of the frame header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Component {
    /// Identifier that scan headers refer to.
    pub id: u8,
    /// Horizontal sampling factor, 1..=4.
    pub h: u8,
    /// Vertical sampling factor, 1..=4.
    pub v: u8,
    /// Index of the quantisation table, 0..=3.
    pub table: u8,
}

/// Returns the largest sampling factors (horizontal, vertical).
pub(super) fn max_factors(components: &[Component]) -> (u32, u32) {
    let max = |factor: fn(&Component) -> u8| components.iter().map(factor).max().unwrap_or(1).max(1);
    (u32::from(max(|c| c.h)), u32::from(max(|c| c.v)))
}

/// Chroma subsampling of a picture with three components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// One component: gray.
    Gray,
    /// 4:4:4.
    S444,
    /// 4:2:2.
    S422,
    /// 4:2:0.
    S420,
    /// 4:4:0.
    S440,
    /// 4:1:1.
    S411,
    /// 4:1:0.
    S410,
    /// Anything else, including all pictures with two or four components.
    Other,
}

/// Header of a JPEG: everything before its first scan.
///
/// ```
/// use shardpack_jpeg::{JpegError, JpegHeader};
/// assert_eq!(JpegHeader::parse(b"\x89PNG"), Err(JpegError::NotJpeg));
/// assert_eq!(JpegHeader::parse(b"\xFF\xD8\xFF"), Err(JpegError::Truncated { needed: 4 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JpegHeader {
    /// Coding process, the n of the SOFn marker: 0 = baseline, 1 = extended, 2 = progressive, 3 = lossless,
    /// 5–7 = differential, 9–15 = arithmetic.
    pub sof: u8,
    /// Bits per sample: 8 or 12 (2–16 for the lossless process).
    pub precision: u8,
    /// Width in pixels, at least 1.
    pub width: u16,
    /// Height in pixels, at least 1.
    pub height: u16,
    components: [Component; 4],
    component_count: u8,
    /// Number of MCUs between restart markers, or 0 if the picture has no markers.
    pub restart_interval: u16,
    /// True if the file has a JFIF segment.
    pub jfif: bool,
    /// Colour transform from the Adobe segment: 0 = none (RGB, CMYK), 1 = YCbCr, 2 = YCCK.
    pub adobe_transform: Option<u8>,
    /// True if the file has an Exif segment.
    pub exif: bool,
    /// Exif orientation as written in the file, if it is in 1..=8.
    pub orientation: Option<u8>,
    /// True if the file has an ICC profile.
    pub icc: bool,
    /// Number of components in the first scan. This is the number of all components if the scan is
    /// interleaved.
    pub scan_components: u8,
    /// Number of bytes between segments. Decoders skip these bytes with a warning.
    pub stray_bytes: u64,
    /// True if the file has a segment that T.81 reserves or that does not belong to the coding process. Most
    /// decoders reject the file.
    pub unknown_segment: bool,
    /// Offset of the SOFn marker.
    pub sof_offset: u64,
    /// Offset of the first SOS marker.
    pub sos_offset: u64,
    /// Offset of the first entropy-coded byte.
    pub scan_offset: u64,
}

impl JpegHeader {
    /// Reads the header from `bytes`, which must be the whole file or a prefix of it.
    ///
    /// # Errors
    /// `NotJpeg` if the file does not start like a JPEG. `Truncated`, with the number of needed bytes, if
    /// `bytes` is too short. `Damaged` if the bytes violate T.81: no frame before the first scan, two frames,
    /// a dimension of zero, a segment shorter than its content, or a sampling factor outside 1..=4.
    pub fn parse(bytes: &[u8]) -> Result<Self, JpegError> {
        if bytes.get(..3).is_some_and(|head| head != [0xFF, 0xD8, 0xFF]) || bytes.first().is_some_and(|&b| b != 0xFF) {
            return Err(JpegError::NotJpeg);
        }
        let mut walk = Walk::new(bytes);
        let mut header = Self::blank();
        let mut seen_frame = false;
        loop {
            let (marker, offset) = walk.marker(&mut header.stray_bytes)?;
            let damaged = |what| JpegError::Damaged { offset, what };
            match marker {
                0x01 | 0xD0..=0xD7 => continue,
                0xD8 => return Err(damaged("it has a second start-of-image marker")),
                0xD9 => return Err(damaged("the image ends before its first scan")),
                0xDE => return Err(damaged("hierarchical JPEGs are not supported")),
                _ => {}
            }
            let body = walk.segment()?;
            match marker {
                0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                    if seen_frame {
                        return Err(damaged("it has a second frame header"));
                    }
                    seen_frame = true;
                    header.sof_offset = offset;
                    header.frame(marker & 0x0F, body).map_err(damaged)?;
                }
                0xDA => {
                    if !seen_frame {
                        return Err(damaged("a scan comes before the frame header"));
                    }
                    header.sos_offset = offset;
                    header.scan_offset = walk.pos as u64;
                    header.scan(body).map_err(damaged)?;
                    return Ok(header);
                }
                0xDD => {
                    header.restart_interval =
                        be16(body, 0).ok_or_else(|| damaged("its restart interval is cut off"))?;
                }
                0xE0 if body.starts_with(b"JFIF\0") => header.jfif = true,
                0xE1 if body.starts_with(b"Exif\0") => {
                    header.exif = true;
                    header.orientation = body.get(6..).and_then(exif_orientation).or(header.orientation);
                }
                0xE2 if body.starts_with(b"ICC_PROFILE\0") => header.icc = true,
                0xEE if body.starts_with(b"Adobe") => {
                    header.adobe_transform = body.get(11).copied().or(header.adobe_transform);
                }
                0x02..=0xBF | 0xC8 | 0xDF | 0xF0..=0xFD => header.unknown_segment = true,
                _ => {}
            }
        }
    }

    const fn blank() -> Self {
        Self {
            sof: 0,
            precision: 0,
            width: 0,
            height: 0,
            components: [Component { id: 0, h: 0, v: 0, table: 0 }; 4],
            component_count: 0,
            restart_interval: 0,
            jfif: false,
            adobe_transform: None,
            exif: false,
            orientation: None,
            icc: false,
            scan_components: 0,
            stray_bytes: 0,
            unknown_segment: false,
            sof_offset: 0,
            sos_offset: 0,
            scan_offset: 0,
        }
    }

    fn frame(&mut self, sof: u8, body: &[u8]) -> Result<(), &'static str> {
        const SHORT: &str = "its frame header is too short";
        self.sof = sof;
        self.precision = *body.first().ok_or(SHORT)?;
        self.height = be16(body, 1).ok_or(SHORT)?;
        self.width = be16(body, 3).ok_or(SHORT)?;
        self.component_count = *body.get(5).ok_or(SHORT)?;
        if self.height == 0 {
            return Err("its height is 0 (a height in a later DNL segment is not supported)");
        }
        if self.width == 0 {
            return Err("its width is 0");
        }
        let count = usize::from(self.component_count);
        if !(1..=4).contains(&count) {
            return Err("it has no components, or more than 4");
        }
        let specs = body.get(6..).ok_or(SHORT)?;
        if specs.len() != 3 * count {
            return Err("the length of its frame header does not match the number of components");
        }
        for (component, spec) in self.components.iter_mut().zip(specs.as_chunks::<3>().0) {
            let [id, hv, table] = *spec;
            *component = Component { id, h: hv >> 4, v: hv & 15, table };
            if !(1..=4).contains(&component.h) || !(1..=4).contains(&component.v) {
                return Err("its sampling factors must be from 1 to 4");
            }
            if table > 3 {
                return Err("its quantisation tables must be numbered from 0 to 3");
            }
        }
        Ok(())
    }

    fn scan(&mut self, body: &[u8]) -> Result<(), &'static str> {
        let (&count, specs) = body.split_first().ok_or("its scan header is empty")?;
        if !(1..=4).contains(&count) || count > self.component_count {
            return Err("its first scan has no components, or more than its frame header lists");
        }
        if specs.len() != 2 * usize::from(count) + 3 {
            return Err("the length of its scan header does not match the number of components");
        }
        let known = |id: u8| self.components().iter().any(|c| c.id == id);
        if !specs.as_chunks::<2>().0.iter().take(usize::from(count)).all(|&[id, _]| known(id)) {
            return Err("a scan has a component that the frame does not have");
        }
        self.scan_components = count;
        Ok(())
    }

    /// Returns the components of the frame, one to four.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        // This cannot fail, because `frame` accepts no more components than the array has places.
        let (components, _) = self.components.split_at(self.component_count.into());
        components
    }

    /// Returns true for the baseline process.
    #[must_use]
    pub const fn is_baseline(&self) -> bool {
        self.sof == 0
    }

    /// Returns true for the progressive process with Huffman coding.
    #[must_use]
    pub const fn is_progressive(&self) -> bool {
        self.sof == 2
    }

    /// Returns true if all components are in the first scan.
    #[must_use]
    pub const fn is_in_one_scan(&self) -> bool {
        self.scan_components == self.component_count
    }

    /// Maximum number of blocks in a segment that the device can decode. One thread decodes a segment.
    pub const DEVICE_SEGMENT_BLOCKS: u32 = 2048;

    /// Returns true for a sequential, Huffman-coded 8-bit picture in one scan. Our own decoder and the device
    /// can decode it if its subsampling is common.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(self.sof, 0 | 1) && self.precision == 8 && self.is_in_one_scan()
    }

    /// Returns true if the three components are RGB rather than YCbCr, by libjpeg's rules.
    #[must_use]
    pub fn is_rgb(&self) -> bool {
        let ids = [self.components[0].id, self.components[1].id, self.components[2].id];
        self.component_count == 3
            && !self.jfif
            && match self.adobe_transform {
                Some(transform) => transform == 0,
                None => ids == *b"RGB",
            }
    }

    /// Returns the chroma subsampling. Common divisors of the sampling factors are not removed, so a picture whose
    /// chroma factors are not 1×1 is `Other`.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        match self.components() {
            // If there is only one component, its sampling factors are ignored (T.81, A.2.2).
            [_] => Sampling::Gray,
            [y, cb, cr] if (cb.h, cb.v, cr.h, cr.v) == (1, 1, 1, 1) => match (y.h, y.v) {
                (1, 1) => Sampling::S444,
                (2, 1) => Sampling::S422,
                (2, 2) => Sampling::S420,
                (1, 2) => Sampling::S440,
                (4, 1) => Sampling::S411,
                (4, 2) => Sampling::S410,
                _ => Sampling::Other,
            },
            _ => Sampling::Other,
        }
    }

    /// Returns the MCUs of the picture.
    #[must_use]
    pub fn mcu_grid(&self) -> McuGrid {
        let (width, height) = (self.width.into(), self.height.into());
        match self.components() {
            // The sampling factors of a single component are ignored: its MCU is always one block (T.81, A.2.2).
            [_] => McuGrid::new(width, height, [1, 1, 1]),
            all => {
                let (h, v) = max_factors(all);
                let blocks = all.iter().map(|part| u32::from(part.h) * u32::from(part.v)).sum();
                McuGrid { blocks, ..McuGrid::new(width, height, [h, v, self.component_count.into()]) }
            }
        }
    }

    /// Returns the MCUs of a picture whose sampling our own decoder and the device support. It is gray, 4:4:4, 4:2:2,
    /// 4:2:0 or 4:4:0, with at least three columns of chroma if it has half of the columns.
    #[must_use]
    pub fn common_grid(&self) -> Option<McuGrid> {
        let common = matches!(
            self.sampling(),
            Sampling::Gray | Sampling::S444 | Sampling::S422 | Sampling::S420 | Sampling::S440
        );
        let grid = self.mcu_grid();
        // libjpeg does not interpolate chroma rows of one or two samples.
        (common && (grid.h == 1 || grid.chroma_width > 2)).then_some(grid)
    }

    /// Returns the reason why few decoders support this picture, if there is one: it is lossless,
    /// differential or arithmetic-coded, does not have 8 bits, or has two components.
    #[must_use]
    pub const fn unsupported(&self) -> Option<&'static str> {
        match (self.sof, self.precision, self.component_count) {
            (3 | 7, ..) => Some("lossless JPEG"),
            (5 | 6, ..) => Some("differential JPEG"),
            (9..=15, ..) => Some("JPEG with arithmetic coding"),
            (0..=2, 8, 1 | 3 | 4) => None,
            (0..=2, 8, _) => Some("JPEG of two components"),
            (0..=2, 12, _) => Some("JPEG of 12 bits"),
            _ => Some("JPEG of neither 8 nor 12 bits"),
        }
    }

    /// Returns true if the GPU kernels can decode the picture. It must be sequential, Huffman-coded, 8-bit,
    /// in one scan, and gray or YCbCr in 4:4:4, 4:2:2, 4:2:0 or 4:4:0. Its restart markers must leave no
    /// segment with more than [`DEVICE_SEGMENT_BLOCKS`](Self::DEVICE_SEGMENT_BLOCKS) blocks. All other
    /// pictures are decoded on the host.
    #[must_use]
    pub fn device_decodable(&self) -> bool {
        let Some(grid) = self.common_grid() else { return false };
        self.is_plain()
            && self.stray_bytes == 0
            && !self.unknown_segment
            && !self.is_rgb()
            && grid.restart_interval(self.restart_interval).saturating_mul(grid.blocks) <= Self::DEVICE_SEGMENT_BLOCKS
    }
}

/// Returns the orientation, 1..=8, from the TIFF structure of Exif data. In a JPEG this structure is in a
/// segment, in PNG and WebP in a chunk. Returns `None` if the data is damaged, because bad metadata is no
/// reason to reject a picture.
///
/// ```
/// use shardpack_jpeg::exif_orientation;
/// let exif = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
/// assert_eq!((exif_orientation(exif), exif_orientation(b"MM")), (Some(6), None));
/// ```
#[must_use]
pub fn exif_orientation(tiff: &[u8]) -> Option<u8> {
    let (at, little) = exif_orientation_at(tiff)?;
    let value = be16(tiff, at).map(|v| if little { v.swap_bytes() } else { v })?;
    u8::try_from(value).ok().filter(|o| (1..=8).contains(o))
}

/// Returns the offset of the orientation in the TIFF structure of an Exif segment, and true if the structure
/// is little-endian.
pub(super) fn exif_orientation_at(tiff: &[u8]) -> Option<(usize, bool)> {
    let little = match tiff.get(..2)? {
        b"II" => true,
        b"MM" => false,
        _ => return None,
    };
    let u16_at = |at: usize| be16(tiff, at).map(|v| if little { v.swap_bytes() } else { v });
    let ifd = usize::try_from(
        (u32::from(u16_at(if little { 6 } else { 4 })?) << 16) | u32::from(u16_at(if little { 4 } else { 6 })?),
    )
    .ok()?;
    let count = usize::from(u16_at(ifd)?);
    for entry in (0..count).map(|i| ifd + 2 + 12 * i) {
        if u16_at(entry)? == 0x0112 {
            // The file may end between the start of the entry and its value.
            return u16_at(entry + 8).map(|_| (entry + 8, little));
        }
    }
    None
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
