//! Compares quantisation tables (T.81, B.2.4.1) to tell which of two pictures was compressed with more loss.
#![deny(clippy::indexing_slicing)]

use super::JpegHeader;
use super::metadata::segments;
use super::turbo::{Compressor, Encoding, PixelFormat, Subsampling};
use shardpack_format::Result;

const QUANTISATION: u8 = 0xDB;

/// Quantisation steps of each component's 64 coefficients, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps([[u16; 64]; 3]);

impl Steps {
    /// Returns the steps of a gray or YCbCr picture, from the tables before its first scan. Returns `None`
    /// for other colours, or if tables are missing.
    pub(super) fn of(jpeg: &[u8], header: &JpegHeader) -> Option<Self> {
        let components = header.components();
        let ycc = header.jfif || header.adobe_transform == Some(1) || components.iter().map(|c| c.id).eq(1..=3);
        if !matches!((components.len(), ycc, header.adobe_transform), (1, ..) | (3, true, None | Some(1))) {
            return None;
        }
        let mut tables = [None; 4];
        for (_, mut body, _) in segments(jpeg).filter(|(marker, ..)| *marker == QUANTISATION) {
            while let Some((&kind, rest)) = body.split_first() {
                let mut steps = [0; 64];
                if kind >> 4 == 0 {
                    let (bytes, rest) = rest.split_first_chunk::<64>()?;
                    steps.iter_mut().zip(bytes).for_each(|(to, from)| *to = u16::from(*from));
                    body = rest;
                } else {
                    let (bytes, rest) = rest.split_first_chunk::<128>()?;
                    steps.iter_mut().zip(bytes.as_chunks().0).for_each(|(to, from)| *to = u16::from_be_bytes(*from));
                    body = rest;
                }
                *tables.get_mut(usize::from(kind & 15))? = Some(steps);
            }
        }
        let of = |component: usize| {
            let component = components.get(component).or(components.first())?;
            *tables.get(usize::from(component.table))?
        };
        Some(Self([of(0)?, of(1)?, of(2)?]))
    }

    /// Returns the steps that libjpeg-turbo uses for the given quality.
    pub(super) fn at(quality: u8, encoder: &mut Compressor) -> Result<Option<Self>> {
        let mut jpeg = Vec::new();
        let how = Encoding { quality, subsampling: Subsampling::S444, restart_interval: 0 };
        encoder.encode(&[128; 8 * 8 * 3], 8, 8, PixelFormat::Rgb, how, &mut jpeg)?;
        Ok(JpegHeader::parse(&jpeg).ok().and_then(|header| Self::of(&jpeg, &header)))
    }

    /// Returns true if every step of the first `components` components is at least as large as the
    /// same step in `other`.
    pub(super) fn as_coarse_as(&self, other: &Self, components: usize) -> bool {
        let pairs = self.0.iter().flatten().zip(other.0.iter().flatten()).take(64 * components);
        pairs.into_iter().all(|(mine, theirs)| mine >= theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{encode, plain};

    #[test]
    fn qualities_are_told_apart_by_their_steps() {
        let mut encoder = Compressor::new();
        let asked = Steps::at(75, &mut encoder).unwrap().unwrap();
        for (quality, expected) in [(30, true), (74, true), (75, true), (76, false), (95, false)] {
            for (subsampling, components) in [(Subsampling::S444, 3), (Subsampling::S420, 3), (Subsampling::Gray, 1)] {
                let jpeg = encode((20, 20), PixelFormat::Rgb, Encoding { quality, ..plain(subsampling) }, None);
                let header = JpegHeader::parse(&jpeg).unwrap();
                let steps = Steps::of(&jpeg, &header).unwrap();
                assert_eq!(steps.as_coarse_as(&asked, components), expected, "{quality} {subsampling:?}");
            }
        }
    }

    #[test]
    fn damaged_tables_are_none() {
        let jpeg = encode((20, 20), PixelFormat::Rgb, plain(Subsampling::S444), None);
        let header = JpegHeader::parse(&jpeg).unwrap();
        let at = jpeg.windows(2).position(|pair| pair == [0xFF, QUANTISATION]).unwrap();
        let mut wrong_number = jpeg.clone();
        wrong_number[at + 4] = 7;
        assert_eq!(Steps::of(&wrong_number, &header), None);
        // Make the table claim 16-bit steps, so that it is too short.
        let mut wide = jpeg.clone();
        wide[at + 4] = 0x10;
        assert_eq!(Steps::of(&wide, &header), None);
        assert_eq!(Steps::of(&jpeg[..at + 20], &header), None);
    }
}
