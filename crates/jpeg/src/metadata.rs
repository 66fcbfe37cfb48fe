//! Metadata that changes how a picture looks: its ICC profile and Exif orientation.
//!
//! A tiled JPEG is stored without its metadata segments. [`Metadata::read`] extracts the important metadata
//! from the source, and [`with_metadata`] inserts it again.
#![deny(clippy::indexing_slicing)]

use super::shared::parse;
use super::walk::Walk;
use shardpack_format::{Error, Result, bug};

/// Size of the largest ICC profile that is read or written: 4 MiB. Display profiles take a few kB, printer profiles up
/// to 2 MB.
pub const MAX_ICC_BYTES: usize = 4 << 20;

/// First bytes of each segment of a profile. Two bytes follow: the number of the chunk, and the number of
/// chunks.
const ICC_TAG: &[u8] = b"ICC_PROFILE\0";

/// Maximum number of profile bytes per segment. The segment's 16-bit length includes itself.
const ICC_CHUNK: usize = 65_535 - 2 - ICC_TAG.len() - 2;

/// Length of a profile's header (ICC.1, 7.2).
const ICC_HEADER: usize = 128;

/// Metadata that changes how a picture looks.
///
/// ```
/// use shardpack_jpeg::Metadata;
/// let plain = Metadata::default();
/// assert_eq!((plain.orientation, plain.icc), (1, None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// ICC profile, joined from its chunks.
    pub icc: Option<Vec<u8>>,
    /// Description of the damage if the picture has a damaged ICC profile. `icc` is then `None`.
    pub icc_damage: Option<&'static str>,
    /// Exif orientation, 1..=8, or 1 if there is none.
    pub orientation: u8,
}

impl Default for Metadata {
    fn default() -> Self {
        Self { icc: None, icc_damage: None, orientation: 1 }
    }
}

impl Metadata {
    /// Reads the segments before the first scan. A damaged profile is recorded in `icc_damage` and not
    /// returned as an error, because bad metadata is no reason to reject a picture.
    ///
    /// # Errors
    /// `Format` if `jpeg` has no valid header.
    pub fn read(jpeg: &[u8]) -> Result<Self> {
        let header = parse(jpeg)?;
        let orientation = header.orientation.unwrap_or(1);
        let (icc, icc_damage) = match header.icc.then(|| join_icc(jpeg)) {
            None => (None, None),
            Some(Ok(profile)) => (Some(profile), None),
            Some(Err(damage)) => (None, Some(damage)),
        };
        Ok(Self { icc, icc_damage, orientation })
    }
}

fn join_icc(jpeg: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut chunks: Vec<(u8, u8, &[u8])> = Vec::new();
    for (marker, body, _) in segments(jpeg) {
        let Some(chunk) = body.strip_prefix(ICC_TAG).filter(|_| marker == 0xE2) else { continue };
        let &[number, count, ref data @ ..] = chunk else { return Err("a chunk has no number") };
        if chunks.len() == usize::from(u8::MAX) {
            return Err("it has more than 255 chunks");
        }
        chunks.push((number, count, data));
    }
    chunks.sort_by_key(|&(number, ..)| number);
    if chunks.iter().any(|&(_, count, _)| usize::from(count) != chunks.len()) {
        return Err("it has the wrong number of chunks");
    }
    if chunks.iter().zip(1..=u8::MAX).any(|(&(number, ..), expected)| number != expected) {
        return Err("a chunk is missing or repeated");
    }
    let total: usize = chunks.iter().map(|(.., data)| data.len()).sum();
    if total > MAX_ICC_BYTES {
        return Err("it is larger than 4 MiB");
    }
    let mut profile = Vec::with_capacity(total);
    for (.., data) in chunks {
        profile.extend_from_slice(data);
    }
    check_profile(&profile)?;
    Ok(profile)
}

/// Checks the fields that colour management software reads first: the size at offset 0, and the signature at
/// offset 36.
fn check_profile(profile: &[u8]) -> Result<(), &'static str> {
    if profile.len() < ICC_HEADER {
        return Err("it is shorter than a profile header");
    }
    let size = profile.first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
    if u64::from(size) != profile.len() as u64 {
        return Err("its length differs from the length in its header");
    }
    if profile.get(36..40) != Some(b"acsp") {
        return Err("it has no profile signature");
    }
    Ok(())
}

/// Appends `jpeg` to `out` with an ICC profile and an Exif orientation, so that other programs show it
/// correctly. An existing profile or Exif segment is kept unchanged.
///
/// ```
/// use shardpack_jpeg::with_metadata;
/// let mut out = Vec::new();
/// assert!(with_metadata(b"not a JPEG", None, 6, &mut out).is_err());
/// ```
///
/// # Errors
/// `Format` if `jpeg` has no valid header; `Usage` if `icc` is not a profile or exceeds [`MAX_ICC_BYTES`], or
/// if `orientation` is not in 1..=8.
pub fn with_metadata(jpeg: &[u8], icc: Option<&[u8]>, orientation: u8, out: &mut Vec<u8>) -> Result<()> {
    if !(1..=8).contains(&orientation) {
        return Err(Error::usage(format!("the Exif orientation must be from 1 to 8, but is {orientation}")));
    }
    if let Some(profile) = icc {
        check_profile(profile).map_err(|found| Error::usage(format!("invalid ICC profile: {found}")))?;
        if profile.len() > MAX_ICC_BYTES {
            return Err(Error::usage(format!("the ICC profile must be at most 4 MiB, but is {} bytes", profile.len())));
        }
    }
    let header = parse(jpeg)?;
    // JFIF must directly follow SOI. Readers expect Exif before the profile.
    let behind = segments(jpeg).next().filter(|&(marker, body, _)| marker == 0xE0 && body.starts_with(b"JFIF\0"));
    let end = behind.map_or(2, |(.., end)| end);
    let (head, tail) = jpeg.split_at(end);
    out.extend_from_slice(head);
    if orientation != 1 && !header.exif {
        push_segment(out, 0xE1, &[&exif(orientation)]);
    }
    if let Some(profile) = icc.filter(|_| !header.icc) {
        let chunks = profile.chunks(ICC_CHUNK);
        let count = u8::try_from(chunks.len()).unwrap_or_else(|_| bug("a profile of 4 MiB has too many chunks"));
        for (chunk, number) in chunks.zip(1..=u8::MAX) {
            push_segment(out, 0xE2, &[ICC_TAG, &[number, count], chunk]);
        }
    }
    out.extend_from_slice(tail);
    Ok(())
}

pub(super) fn push_segment(out: &mut Vec<u8>, marker: u8, parts: &[&[u8]]) {
    let length: usize = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
    let length = u16::try_from(length).unwrap_or_else(|_| bug("a segment of a JPEG has more than 65,535 bytes"));
    out.extend([0xFF, marker]);
    out.extend(length.to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Returns the content of the smallest possible Exif segment, with one directory and one entry.
const fn exif(orientation: u8) -> [u8; 32] {
    let mut out = *b"Exif\0\0MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0";
    out[25] = orientation;
    out
}

/// Overwrites every Exif orientation in `jpeg` with 1, because the picture is upright now.
pub(super) fn set_upright(jpeg: &mut [u8]) -> Result<()> {
    // Collect the positions first, because `segments` borrows the bytes.
    let places: Vec<(usize, bool)> = segments(jpeg)
        .filter(|&(marker, body, _)| marker == 0xE1 && body.starts_with(b"Exif\0"))
        .filter_map(|(_, body, end)| {
            let (at, little) = crate::header::exif_orientation_at(body.get(6..)?)?;
            Some((end - body.len() + 6 + at, little))
        })
        .collect();
    for (at, little) in places {
        let value = shardpack_base::parts::part_mut(jpeg, at..at + 2, "Exif orientation")?;
        value.copy_from_slice(&if little { 1u16.to_le_bytes() } else { 1u16.to_be_bytes() });
    }
    Ok(())
}

/// Returns the size of the picture, without its metadata segments and without the bytes after its end.
#[cfg(feature = "encode")]
pub(super) fn picture_bytes(jpeg: &[u8], scan_offset: u64) -> usize {
    let end = super::end_of_image(jpeg, scan_offset).and_then(|end| usize::try_from(end).ok()).unwrap_or(jpeg.len());
    let metadata = |marker: u8| matches!(marker, 0xE1..=0xED | 0xEF | 0xFE);
    let segments = segments(jpeg).filter(|&(marker, ..)| metadata(marker));
    end.saturating_sub(segments.map(|(_, body, _)| body.len() + 4).sum())
}

/// Iterates over the segments before the first scan. Each item is the marker, the content, and the offset of
/// the next byte after the segment.
pub(super) fn segments(jpeg: &[u8]) -> impl Iterator<Item = (u8, &[u8], usize)> {
    let mut walk = Walk::new(jpeg);
    std::iter::from_fn(move || {
        loop {
            match walk.marker(&mut 0).ok()?.0 {
                0x01 | 0xD0..=0xD7 => {}
                0xD8..=0xDA => return None,
                marker => return Some((marker, walk.segment().ok()?, walk.pos)),
            }
        }
    })
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
