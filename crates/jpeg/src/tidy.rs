//! Fixes errors in a JPEG header that decoders only warn about and that affect no pixel.
#![deny(clippy::indexing_slicing)]

use super::walk::Walk;

/// Returns a copy of `jpeg` whose header causes no warnings. Bytes between segments are removed, and an
/// invalid JFIF version or colour transform is replaced by the value that decoders assume. Returns `None` if
/// there is nothing to fix, or no header.
///
/// ```
/// use shardpack_jpeg::tidied;
/// # let jpeg: &[u8] = include_bytes!("../testdata/tiles.jpg");
/// assert!(tidied(jpeg).is_none());
/// // Its first segment has 16 bytes after two markers.
/// let odd = [&jpeg[..20], b"odd", &jpeg[20..]].concat();
/// assert_eq!(tidied(&odd).unwrap(), jpeg);
/// ```
#[must_use]
pub fn tidied(jpeg: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(jpeg.len());
    out.extend(jpeg.get(..2)?);
    let mut walk = Walk::new(jpeg);
    let (mut is_odd, mut components) = (false, 3);
    let mut transform_at = None;
    loop {
        let mut stray = 0;
        let (marker, offset) = walk.marker(&mut stray).ok()?;
        is_odd |= stray > 0;
        if matches!(marker, 0x01 | 0xD0..=0xD7) {
            out.extend([0xFF, marker]);
            continue;
        }
        if matches!(marker, 0xD8 | 0xD9) {
            return None;
        }
        walk.segment().ok()?;
        let start = usize::try_from(offset).ok()?;
        let to = out.len();
        if marker == 0xDA {
            out.extend(jpeg.get(start..)?);
            break;
        }
        out.extend(jpeg.get(start..walk.pos)?);
        let segment = out.get_mut(to..)?;
        match (marker, segment.get(4..)?) {
            (0xC0..=0xCF, body) if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => components = *body.get(5)?,
            (0xE0, [b'J', b'F', b'I', b'F', 0, major, ..]) if !matches!(major, 1 | 2) => {
                *segment.get_mut(9)? = 1;
                is_odd = true;
            }
            (0xEE, [b'A', b'd', b'o', b'b', b'e', _, _, _, _, _, _, _, ..]) => transform_at = Some(to + 15),
            _ => {}
        }
    }
    if let Some(transform) = transform_at.and_then(|at| out.get_mut(at)) {
        // libjpeg assumes this transform if the value is invalid.
        let known = match (components, *transform) {
            (3, 0 | 1) | (4, 0 | 2) | (1 | 2, _) => *transform,
            (4, _) => 2,
            _ => 1,
        };
        is_odd |= known != *transform;
        *transform = known;
    }
    is_odd.then_some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use super::*;
    use crate::sources::{encode, plain, with_segments};
    use crate::{JpegDecoder, PixelFormat, Rendering, Subsampling};
    use shardpack_format::Limits;

    fn pixels(jpeg: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 40 * 24 * 3];
        JpegDecoder::new(&Limits::default()).decode_into(jpeg, &Rendering::default(), &mut out).unwrap();
        out
    }

    #[test]
    fn pictures_with_odd_headers_have_their_pixels() {
        let whole = encode((40, 24), PixelFormat::Rgb, plain(Subsampling::S420), None);
        assert!(tidied(&whole).is_none());
        let adobe = |transform| (0xEE, [b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat());
        let table = memchr::memmem::find(&whole, b"\xFF\xDB").unwrap();
        let stray = [&whole[..table], b"\0odd", &whole[table..]].concat();
        let mut version = whole.clone();
        version[memchr::memmem::find(&whole, b"JFIF").unwrap() + 5] = 77;
        for odd in [stray, version, with_segments(&whole, &[adobe(2)]), with_segments(&whole, &[adobe(9)])] {
            let tidy = tidied(&odd).unwrap();
            assert!(tidied(&tidy).is_none(), "a tidy one has nothing odd");
            assert!(pixels(&odd) == pixels(&whole));
        }
        assert!(tidied(&with_segments(&whole, &[adobe(1)])).is_none());
        for len in 0..whole.len().min(700) {
            assert!(tidied(&whole[..len]).is_none(), "cut at {len}");
        }
    }

    #[test]
    fn zeros_before_the_end_of_the_image_are_passed_over() {
        for process in [None, Some(crate::turbo::Process::Progressive)] {
            let whole = encode((40, 24), PixelFormat::Rgb, plain(Subsampling::S420), process);
            let odd = [&whole[..whole.len() - 2], &[0; 40], b"\xFF\xD9"].concat();
            assert!(pixels(&odd) == pixels(&whole), "{process:?}");
            // Bytes other than zeros at the end of the data may be the effect of a flipped bit.
            let other = [&whole[..whole.len() - 2], &[9; 40], b"\xFF\xD9"].concat();
            // If the data ends too early, pixels are missing.
            let short = [&whole[..whole.len() - 12], b"\xFF\xD9"].concat();
            let mut out = vec![0; 40 * 24 * 3];
            let mut decoder = JpegDecoder::new(&Limits::default());
            for damaged in [other, short] {
                decoder.decode_into(&damaged, &Rendering::default(), &mut out).unwrap_err();
            }
        }
    }

    #[test]
    fn lossless_gray_is_decoded_and_deep_samples_are_named() {
        let lossless =
            encode((40, 24), PixelFormat::Gray, plain(Subsampling::Gray), Some(crate::turbo::Process::Lossless));
        let made = pixels(&lossless);
        let gray: Vec<u8> = crate::sources::pixels(40, 24, 1);
        assert!(made.as_chunks::<3>().0.iter().zip(&gray).all(|(pixel, level)| *pixel == [*level; 3]));
        let mut twelve = encode((40, 24), PixelFormat::Rgb, plain(Subsampling::S420), None);
        let frame = memchr::memmem::find(&twelve, b"\xFF\xC0").unwrap();
        twelve[frame + 4] = 12;
        let mut out = vec![0; 40 * 24 * 3];
        let mut decoder = JpegDecoder::new(&Limits::default());
        let error = decoder.decode_into(&twelve, &Rendering::default(), &mut out).unwrap_err().to_string();
        assert_eq!(error, "12-bit JPEGs are not supported");
    }
}
