//! The quantisation and Huffman tables of the header, and the tables that each component uses.
#![deny(clippy::indexing_slicing)]

use super::huffman::{Class, Huffman};
use super::streams::NATURAL;
use crate::elsewhere::Coding;
use crate::header::JpegHeader;

pub(super) struct Tables {
    dc: [Huffman; 4],
    ac: [Huffman; 4],
    /// Quantisers of each component, in natural order.
    pub(super) quantisers: [[i16; 64]; 3],
    /// Indices of each component's DC and AC table.
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

    pub(super) fn huffman(&self, component: usize) -> Option<(&Huffman, &Huffman)> {
        let (dc, ac) = *self.selected.get(component)?;
        Some((self.dc.get(dc)?, self.ac.get(ac)?))
    }

    /// Reads the tables of `jpeg`. Returns `None` if a table is missing, or anything is unusual for a
    /// baseline picture.
    pub(super) fn read(&mut self, jpeg: &[u8], header: &JpegHeader) -> Option<()> {
        let coding = Coding::read(jpeg, header)?;
        let places = self.quantisers.iter_mut().zip(&mut self.selected);
        for (stored, (quantiser, selected)) in coding.components().iter().zip(places) {
            for (&natural, &value) in NATURAL.iter().zip(stored.quantisers) {
                *quantiser.get_mut(usize::from(natural))? = value.into();
            }
            let (dc, ac) = (usize::from(stored.dc_number), usize::from(stored.ac_number));
            *selected = (dc, ac);
            self.dc.get_mut(dc)?.set(stored.dc.counts, stored.dc.symbols)?;
            self.ac.get_mut(ac)?.set(stored.ac.counts, stored.ac.symbols)?;
        }
        Some(())
    }
}
