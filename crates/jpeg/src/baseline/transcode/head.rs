//! Writes the marker segments before the entropy-coded data, in libjpeg's order.
#![deny(clippy::indexing_slicing)]

use super::code::OptimalCodes;
use crate::JpegHeader;
use crate::elsewhere::Coding;
use crate::metadata::{push_segment, segments};
use crate::turbo::Transcoding;

/// Maximum width and height that libjpeg accepts (`JPEG_MAX_DIMENSION`).
const LARGEST: u16 = 65_500;

const JFIF: &[u8] = b"JFIF\0";

pub(super) struct Head<'a> {
    jpeg: &'a [u8],
    header: &'a JpegHeader,
    coding: Coding<'a>,
    how: Transcoding,
    /// Version and pixel density for the JFIF segment, or `None` if no JFIF segment is written.
    jfif: Option<[u8; 7]>,
}

impl<'a> Head<'a> {
    /// Collects the segments to write. Returns `None` if the colours are red, green and blue, or if libjpeg rejects
    /// the source's header or warns about it.
    pub(super) fn of(jpeg: &'a [u8], header: &'a JpegHeader, how: Transcoding) -> Option<Self> {
        let known =
            matches!(header.adobe_transform, None | Some(0 | 1)) || header.jfif || header.components().len() == 1;
        if header.width.max(header.height) > LARGEST {
            return None;
        }
        if header.stray_bytes > 0 || header.is_rgb() || !known {
            return None;
        }
        // libjpeg writes these values for a source without a JFIF segment.
        let mut jfif = Some([1, 1, 0, 0, 1, 0, 1]);
        for (marker, body, _) in segments(jpeg) {
            match marker {
                // DAC contains settings for arithmetic coding.
                0xCC => return None,
                0xDD if body.len() != 2 => return None,
                0xE0 if body.starts_with(JFIF) => {
                    let found: &[u8; 14] = body.first_chunk()?;
                    let &[_, _, _, _, _, 1, ..] = found else { return None };
                    jfif = found.get(5..)?.first_chunk().copied();
                }
                _ => {}
            }
        }
        if how.keep_metadata
            && saved(jpeg).next().is_some_and(|(marker, body)| marker == 0xE1 && body.starts_with(b"Exif\0\0"))
        {
            jfif = None;
        }
        Some(Self { jpeg, header, coding: Coding::read(jpeg, header)?, how, jfif })
    }

    pub(super) fn write(&self, codes: &OptimalCodes, out: &mut Vec<u8>) {
        let Self { header, how, .. } = self;
        out.extend([0xFF, 0xD8]);
        if let Some(jfif) = &self.jfif {
            push_segment(out, 0xE0, &[JFIF, jfif, &[0, 0]]);
        }
        if how.keep_metadata {
            for (marker, body) in saved(self.jpeg) {
                if self.jfif.is_none() || marker != 0xE0 || !body.starts_with(JFIF) {
                    push_segment(out, marker, &[body]);
                }
            }
        }
        let parts = || header.components().iter().zip(self.coding.components());
        for (place, (part, coding)) in parts().enumerate() {
            if parts().take(place).all(|(before, _)| before.table != part.table) {
                push_segment(out, 0xDB, &[&[part.table], coding.quantisers]);
            }
        }
        let size = [header.height, header.width].map(u16::to_be_bytes);
        let count = [self.coding.components().len().to_le_bytes()[0]];
        let lone = header.components().len() == 1;
        let frame: Vec<u8> = parts()
            .flat_map(|(part, _)| [part.id, if lone { 0x11 } else { part.h << 4 | part.v }, part.table])
            .collect();
        push_segment(out, 0xC0, &[&[8], size.as_flattened(), &count, &frame]);
        for (number, code) in [0x00, 0x10, 0x01, 0x11].into_iter().zip(&codes.codes) {
            if !code.symbols().is_empty() {
                push_segment(out, 0xC4, &[&[number], &code.lengths, code.symbols()]);
            }
        }
        push_segment(out, 0xDD, &[&how.restart_interval.to_be_bytes()]);
        let scan: Vec<u8> = parts().zip([0x00, 0x11, 0x11]).flat_map(|((part, _), tables)| [part.id, tables]).collect();
        push_segment(out, 0xDA, &[&count, &scan, &[0, 63, 0]]);
    }
}

/// Iterates over the marker segments that libjpeg keeps as metadata.
fn saved(jpeg: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    segments(jpeg).filter(|(marker, ..)| matches!(marker, 0xE0..=0xEF | 0xFE)).map(|(marker, body, _)| (marker, body))
}
