//! Collects the Huffman codes and quantisers of a picture, numbered as in the kernels.

use super::Reason;
use shardpack_jpeg::{Coding, StoredCode};

/// Huffman codes and quantisers of a picture. Equal codes are stored only once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodingTables<'a> {
    pub(super) codes: Vec<StoredCode<'a>>,
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) quantisers: [[u8; 64]; 3],
}

impl<'a> CodingTables<'a> {
    pub(super) fn of(coding: &Coding<'a>) -> Result<Self, Reason> {
        let mut all = Self { codes: Vec::new(), dc: [0; 3], ac: [0; 3], quantisers: [[0; 64]; 3] };
        let mut next = 0;
        let mut known: [[Option<u32>; 16]; 2] = [[None; 16]; 2];
        for (n, component) in coding.components().iter().enumerate() {
            let stored = [(component.dc_number, component.dc), (component.ac_number, component.ac)];
            let mut tables = [0; 2];
            for ((known, (number, code)), table) in known.iter_mut().zip(stored).zip(&mut tables) {
                let known = known.get_mut(usize::from(number)).ok_or(Reason::Tables)?;
                *table = *known.get_or_insert_with(|| {
                    all.codes.push(code);
                    next += 1;
                    next - 1
                });
            }
            let places = (all.dc.get_mut(n), all.ac.get_mut(n), all.quantisers.get_mut(n));
            let (Some(dc), Some(ac), Some(quantisers)) = places else { return Err(Reason::Colours) };
            ([*dc, *ac], *quantisers) = (tables, *component.quantisers);
        }
        Ok(all)
    }
}
