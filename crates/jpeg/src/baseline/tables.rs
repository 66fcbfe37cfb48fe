//! Tables from the header: quantisation and Huffman tables, and each component's choice of them.
#![deny(clippy::indexing_slicing)]

use super::huffman::{Class, Huffman};
use super::streams::NATURAL;
use crate::header::JpegHeader;
use crate::walk::Walk;

/// The tables of a picture.
pub(super) struct Tables {
    dc: [Huffman; 4],
    ac: [Huffman; 4],
    /// In natural order, for each component.
    pub(super) quantisers: [[i16; 64]; 3],
    /// For each component: its DC and its AC table.
    selected: [(usize, usize); 3],
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            dc: std::array::from_fn(|_| Huffman::new(Class::Dc)),
            ac: std::array::from_fn(|_| Huffman::new(Class::Ac)),
            quantisers: [[0; 64]; 3],
            selected: [(0, 0); 3],
        }
    }

    /// The DC and the AC table of a component.
    pub(super) fn huffman(&self, component: usize) -> Option<(&Huffman, &Huffman)> {
        let (dc, ac) = *self.selected.get(component)?;
        Some((self.dc.get(dc)?, self.ac.get(ac)?))
    }

    /// Reads the tables of `jpeg`. Returns `None` if a table is missing, or if anything is unusual for a
    /// baseline picture.
    pub(super) fn read(&mut self, jpeg: &[u8], header: &JpegHeader) -> Option<()> {
        let mut quantisers = [None; 4];
        let mut codes = [[None; 4]; 2];
        let mut walk = Walk::new(jpeg);
        let scan = loop {
            let (marker, _) = walk.marker(&mut 0).ok()?;
            if matches!(marker, 0x01 | 0xD0..=0xD7) {
                return None;
            }
            let body = walk.segment().ok()?;
            match marker {
                0xDB => read_quantisers(body, &mut quantisers)?,
                0xC4 => read_codes(body, &mut codes)?,
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
        let places = self.quantisers.iter_mut().zip(&mut self.selected);
        for ((component, &[id, tables]), (quantiser, selected)) in components.iter().zip(specs).zip(places) {
            if component.id != id || components.iter().filter(|other| other.id == id).count() != 1 {
                return None;
            }
            let stored = quantisers.get(usize::from(component.table)).copied().flatten()?;
            for (&natural, &value) in NATURAL.iter().zip::<&[u8; 64]>(stored) {
                *quantiser.get_mut(usize::from(natural))? = value.into();
            }
            let (dc, ac) = (usize::from(tables >> 4), usize::from(tables & 15));
            *selected = (dc, ac);
            let [dc_codes, ac_codes] = &codes;
            for (tables, codes, at) in [(&mut self.dc, dc_codes, dc), (&mut self.ac, ac_codes, ac)] {
                let (counts, symbols) = codes.get(at).copied().flatten()?;
                tables.get_mut(at)?.set(counts, symbols)?;
            }
        }
        Some(())
    }
}

/// Reads tables of 8 bits, in zigzag order.
fn read_quantisers<'a>(mut body: &'a [u8], tables: &mut [Option<&'a [u8; 64]>; 4]) -> Option<()> {
    while let Some((&head, rest)) = body.split_first() {
        let (table, rest) = rest.split_first_chunk()?;
        *tables.get_mut(usize::from(head))? = Some(table);
        body = rest;
    }
    Some(())
}

/// Number of codes of each length, and their symbols.
type Codes<'a> = Option<(&'a [u8; 16], &'a [u8])>;

fn read_codes<'a>(mut body: &'a [u8], tables: &mut [[Codes<'a>; 4]; 2]) -> Option<()> {
    while let Some((&head, rest)) = body.split_first() {
        let (counts, rest) = rest.split_first_chunk::<16>()?;
        let count = counts.iter().map(|&n| usize::from(n)).sum();
        let (symbols, rest) = rest.split_at_checked(count)?;
        *tables.get_mut(usize::from(head >> 4))?.get_mut(usize::from(head & 15))? = Some((counts, symbols));
        body = rest;
    }
    Some(())
}
