use super::*;
use proptest::prelude::*;

/// Decodes bit by bit, as in the standard (T.81, F.2.2.3). Returns the symbol and the length of its code.
fn by_the_book(counts: &[u8; 16], symbols: &[u8], next: u32) -> Option<(u8, u32)> {
    let (mut code, mut place) = (0, 0);
    for (length, &count) in (1..).zip(counts) {
        for _ in 0..count {
            if next >> (32 - length) == code {
                return Some((symbols[place], length));
            }
            (code, place) = (code + 1, place + 1);
        }
        code <<= 1;
    }
    None
}

/// Decodes a symbol and the bits after it. Returns the number of bits, the step and the value of the entry.
fn meaning(class: Class, symbol: u8, length: u32, next: u32) -> Option<(u32, u32, i32)> {
    let size = u32::from(symbol & 15);
    let raw = (u64::from(next) << length >> 16 & 0xFFFF) as u32 >> (16 - size);
    let value = match size {
        0 => 0,
        _ if raw >> (size - 1) == 1 => raw as i32,
        _ => raw as i32 - (1 << size) + 1,
    };
    match (class, symbol) {
        (Class::Dc, _) => Some((length + size, 1, value)),
        (Class::Ac, 0) => Some((length, CodeEntry::END, 0)),
        (Class::Ac, 0xF0) => Some((length, 16, 0)),
        (Class::Ac, _) if size == 0 => None,
        (Class::Ac, _) => Some((length + size, u32::from(symbol >> 4) + 1, value)),
    }
}

/// Generates the number of codes of each length. Some bit patterns may have no code.
pub(in crate::baseline) fn counts() -> impl Strategy<Value = [u8; 16]> {
    prop::array::uniform16(0_u32..9).prop_map(|wanted| {
        let mut free = 1_u32;
        let mut total = 0;
        wanted.map(|wanted| {
            free *= 2;
            // Leave some bit patterns free for longer codes.
            let count = wanted.min(free / 2).min(256 - total);
            (free, total) = (free - count, total + count);
            count as u8
        })
    })
}

proptest! {
    #[test]
    fn tables_read_what_the_book_reads(
        counts in counts(),
        symbols in prop::collection::vec(any::<u8>(), 256),
        dc in any::<bool>(),
        reads in prop::collection::vec(any::<u32>(), 64),
    ) {
        let class = if dc { Class::Dc } else { Class::Ac };
        let total = counts.iter().map(|&n| usize::from(n)).sum::<usize>();
        let symbols: Vec<u8> = symbols[..total].iter().map(|&s| if dc { s & 15 } else { s }).collect();
        let mut table = Huffman::new(class);
        prop_assert_eq!(table.set(&counts, &symbols), Some(()));
        for next in reads {
            let expected = by_the_book(&counts, &symbols, next).and_then(|(s, length)| meaning(class, s, length, next));
            let bytes = [&next.to_be_bytes()[..], &[0; 12]].concat();
            let mut bits = Bits::new(&bytes, 0);
            bits.refill();
            let entry = table.lookup[bits.peek::<LOOKUP>()];
            let entry = if entry.step() <= CodeEntry::END { Some(entry) } else { table.long(entry, bits) };
            prop_assert_eq!(entry.map(|e| (e.bits(), e.step(), i32::from(e.value()))), expected);
        }
    }
}

#[test]
fn codes_that_do_not_exist_are_refused() {
    let mut table = Huffman::new(Class::Ac);
    let mut counts = [0; 16];
    counts[0] = 3;
    assert_eq!(table.set(&counts, &[1, 2, 3]), None, "three codes of one bit");
    counts[0] = 1;
    assert_eq!(table.set(&counts, &[1, 2]), None, "more symbols than codes");
    assert_eq!(table.set(&counts, &[]), None, "fewer symbols than codes");
    assert_eq!(table.set(&counts, &[1]), Some(()));
    assert_eq!(Huffman::new(Class::Dc).set(&counts, &[16]), None, "a difference of 16 bits");
}

#[test]
fn a_code_of_ones_alone_is_refused() {
    // `jdhuff.c`: "no code is allowed to be all ones".
    for (counts, fits) in [([1, 1], true), ([2, 0], false), ([1, 2], false), ([0, 4], false), ([0, 3], true)] {
        let mut all = [0; 16];
        all[..2].copy_from_slice(&counts);
        let symbols: Vec<u8> = (0..counts[0] + counts[1]).collect();
        assert_eq!(Huffman::new(Class::Dc).set(&all, &symbols).is_some(), fits, "{counts:?}");
    }
}
