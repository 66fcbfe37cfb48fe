//! Parses the first page of a TIFF or BigTIFF (TIFF 6.0), only far enough to tell a picture from a
//! cube.
#![deny(clippy::indexing_slicing)]

use super::picture::{Beside, PictureInfo};
use crate::bad::Flaw;
use crate::files::read_at::ReadAt;
use shardpack_base::tiff::{TiffDirectory, TiffFile};
use shardpack_jpeg::PictureFormat;
use std::borrow::Cow;

/// Maximum number of directories. A photo has just a few.
const MAX_DIRECTORIES: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TiffHeader {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) samples: u32,
    /// Number of bits of the first sample. In every file seen so far, all samples had the same number of bits.
    pub(crate) bits: u32,
    /// Sample format: 1 = unsigned, 2 = signed, 3 = float, 4 = untyped, 5 and 6 = complex.
    pub(crate) format: u32,
    /// Exif orientation, or 1 if the tag is missing.
    pub(crate) orientation: u32,
    /// Number of full-resolution pages: 1, or 2 for more than one.
    pub(crate) pages: u32,
    /// Colour space: 0 and 1 = grey, 2 = RGB, 3 = palette, 5 = CMYK. `None` if the tag is missing.
    pub(crate) photometric: Option<u32>,
    /// True if the first extra band is tagged as alpha.
    pub(crate) has_alpha: bool,
}

impl TiffHeader {
    /// Returns true if the TIFF looks like a picture: one page of unsigned samples with up to eight bits, in
    /// grey, RGB, a palette or CMYK, with or without alpha. An untagged extra band may be near infrared and
    /// makes it a cube.
    pub(crate) const fn is_picture(&self) -> bool {
        self.may_be_picture() && self.bits <= 8 && !self.has_unknown_band()
    }

    /// Returns true if the user may request to store the TIFF as a picture. It may then also have
    /// sixteen bits or an extra band.
    pub(crate) const fn may_be_picture(&self) -> bool {
        let has_bits = matches!((self.bits, self.samples), (8 | 16, _) | (1 | 2 | 4, 1));
        let has_bands = self.samples >= self.colors() && self.samples <= self.colors() + 1;
        // A grey picture would lose any further bands.
        self.pages == 1 && self.format == 1 && has_bits && has_bands && (self.colors() > 1 || !self.has_unknown_band())
    }

    const fn colors(&self) -> u32 {
        match self.photometric {
            Some(0 | 1 | 3) => 1,
            Some(5) => 4,
            None if self.samples < 3 => 1,
            _ => 3,
        }
    }

    /// Returns true if a band is neither colour nor alpha.
    pub(crate) const fn has_unknown_band(&self) -> bool {
        self.samples > self.colors() + if self.has_alpha { 1 } else { 0 }
    }
}

pub(crate) fn picture(header: &TiffHeader) -> PictureInfo {
    let exif = u8::try_from(header.orientation).ok().filter(|orientation| (1..=8).contains(orientation));
    let (width, height, deep) = (header.width, header.height, header.bits > 8);
    let beside = match (header.has_unknown_band(), header.has_alpha) {
        (true, _) => Some(Beside::Band),
        (false, true) => Some(Beside::Alpha),
        (false, false) => None,
    };
    PictureInfo { media_type: PictureFormat::Tiff.media_type(), width, height, deep, exif, beside, jpeg: None }
}

struct PictureFile<'a, R: ?Sized>(&'a R);

impl<R: ReadAt + ?Sized> TiffFile for PictureFile<'_, R> {
    type Error = Flaw;

    fn bytes(&self) -> u64 {
        self.0.len()
    }

    fn directory(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Flaw> {
        self.0.read_at(offset, len).map_err(|error| {
            let flaw = Flaw::from(error);
            Flaw { detail: format!("cannot read the TIFF: {}", flaw.detail), ..flaw }
        })
    }

    fn values(&self, _: u16, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Flaw> {
        self.directory(offset, len)
    }

    fn broken(&self, what: String, expected: String, found: String) -> Flaw {
        Flaw::damaged(format!("{what}: expected {expected}, found {found}"))
    }
}

/// Parses the directories of `file`, which must start with a TIFF signature.
pub(crate) fn parse(file: &(impl ReadAt + ?Sized)) -> Result<TiffHeader, Flaw> {
    let file = PictureFile(file);
    let mut directory = TiffDirectory::first(&file)?;
    let mut page = TiffHeader::of(&directory)?;
    for _ in 1..MAX_DIRECTORIES {
        let Some(next) = directory.next()? else { break };
        directory = next;
        // Masks and pages of reduced resolution are versions of another page, so they do not count.
        if directory.integer_or(254, 0)? & 0b101 == 0 {
            page.pages = 2;
            break;
        }
    }
    if page.width == 0 || page.height == 0 {
        return Err(Flaw::damaged(format!("the TIFF is empty: {} × {} pixels", page.width, page.height)));
    }
    Ok(page)
}

impl TiffHeader {
    fn of<R: ReadAt + ?Sized>(directory: &TiffDirectory<'_, PictureFile<'_, R>>) -> Result<Self, Flaw> {
        let number = |tag, default: u32| match directory.integer(tag)? {
            None => Ok(default),
            Some(value) => u32::try_from(value).map_err(|_| {
                Flaw::damaged(format!("TIFF tag {tag} has the value {value}, but may be at most 2^32 - 1"))
            }),
        };
        Ok(Self {
            width: number(256, 0)?,
            height: number(257, 0)?,
            samples: number(277, 1)?,
            bits: number(258, 1)?,
            format: number(339, 1)?,
            // An invalid orientation does not make the picture bad.
            orientation: number(274, 1).unwrap_or(1),
            pages: 1,
            photometric: directory.integer(262)?.and_then(|value| u32::try_from(value).ok()),
            has_alpha: matches!(number(338, 0), Ok(1 | 2)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{shared_data, tiff};
    use proptest::prelude::*;

    #[test]
    fn tells_pictures_from_cubes() {
        // The columns are samples, bits, format and pages, then the results of `is_picture` and `may_be_picture`.
        for (samples, bits, format, pages, picture, may) in [
            (1, 8, 1, 1, true, true),
            (3, 8, 1, 1, true, true),
            (4, 8, 1, 1, false, true),
            (2, 8, 1, 1, false, false),
            (1, 4, 1, 1, true, true),
            (3, 16, 1, 1, false, true),
            (1, 16, 1, 1, false, true),
            (5, 8, 1, 1, false, false),
            (3, 8, 1, 2, false, false),
            (1, 32, 3, 1, false, false),
            (224, 32, 3, 1, false, false),
            (1, 8, 2, 1, false, false),
        ] {
            let header = parse(tiff(samples, bits, format, pages).as_slice()).unwrap();
            assert_eq!((header.width, header.height, header.samples), (4, 3, u32::from(samples)));
            assert_eq!((header.is_picture(), header.may_be_picture()), (picture, may), "{header:?}");
        }
    }

    #[test]
    fn loops_end() {
        let mut bytes = tiff(3, 8, 1, 1);
        let link = 8 + 2 + 9 * 12;
        bytes[link..link + 4].copy_from_slice(&8u32.to_le_bytes());
        assert_eq!(parse(bytes.as_slice()).unwrap().pages, 2);
        // Make all pages of the same file claim to be thumbnails.
        bytes[10..12].copy_from_slice(&254u16.to_le_bytes());
        bytes[18] = 1;
        assert!(parse(bytes.as_slice()).unwrap_err().detail.contains("0 × 3"));
    }

    #[test]
    fn real_cubes_are_cubes() {
        let Some(data) = shared_data() else { return };
        let mut seen = 0;
        for file in std::fs::read_dir(data.join("hsi/enmap-potsdam-tiles/images")).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let header = parse(bytes.as_slice()).unwrap();
            assert_eq!(
                header,
                TiffHeader {
                    width: 32,
                    height: 32,
                    samples: 224,
                    bits: 32,
                    format: 3,
                    orientation: 1,
                    pages: 1,
                    photometric: header.photometric,
                    has_alpha: false,
                }
            );
            seen += 1;
        }
        assert_eq!(seen, 18);
    }

    proptest! {
        #[test]
        fn survives_mutations(
            cut in 0usize..300,
            at in prop::collection::vec((0usize..300, any::<u8>()), 0..6),
            big: bool,
        ) {
            let mut bytes = tiff(3, 8, 1, 2);
            bytes[2] = if big { 0x2b } else { 0x2a };
            for (at, value) in at {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            bytes.truncate(cut);
            if let Ok(header) = parse(bytes.as_slice()) {
                prop_assert!(header.width > 0 && header.height > 0);
            }
        }
    }
}
