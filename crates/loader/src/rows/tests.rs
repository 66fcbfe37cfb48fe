//! Tests that threads write only their own rows, and that nothing reads the block at the same time.
#![allow(unsafe_code)]

use super::*;
use crate::memory::{Allocate, Heap};

/// Memory whose bytes are stored in the value itself and move with it.
struct Inline([u8; 64], Arc<AtomicUsize>);

impl SlotMemory for Inline {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Inline {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn bytes_may_lie_in_the_value_itself() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut moved = vec![Rows::new(Box::new(Inline([7; 64], Arc::clone(&dropped))))];
    moved.reserve(100);
    let mut block = Arc::new(moved.remove(0));
    assert_eq!(Rows::bytes(&block), Some(&[7; 64][..]));
    let mut handles = Vec::new();
    assert!(Rows::lend(&mut block, 1, usize::MAX, std::slice::from_ref(&(0..64)), &mut handles));
    handles.iter_mut().flatten().for_each(|handle| handle.part(0).fill(9));
    handles.clear();
    assert_eq!(Rows::bytes(&block), Some(&[9; 64][..]));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(block);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

fn lends(block: &mut Arc<Rows>, rows: usize, host: usize, parts: &[Range<usize>]) -> bool {
    let lend = std::panic::AssertUnwindSafe(|| Rows::lend(block, rows, host, parts, &mut Vec::new()));
    std::panic::catch_unwind(lend).is_ok()
}

fn block(bytes: usize) -> Arc<Rows> {
    Arc::new(Rows::new(Heap.allocate(bytes).unwrap()))
}

#[test]
fn threads_write_their_rows_and_nothing_else() {
    let mut block = block(64);
    // Two fields of four rows. A row has 4 bytes in the first field and 8 in the second.
    let parts: Vec<_> = (0..4).map(|r| r * 4..r * 4 + 4).chain((0..4).map(|r| 16 + r * 8..24 + r * 8)).collect();
    for round in 0..20_u8 {
        let mut handles = Vec::new();
        assert!(Rows::lend(&mut block, 4, usize::MAX, &parts, &mut handles));
        assert!(Rows::bytes(&block).is_none(), "rows are being written");
        std::thread::scope(|scope| {
            for (row, handle) in (0_u8..).zip(handles) {
                let mut handle = handle.unwrap();
                scope.spawn(move || {
                    handle.part(0).fill(round + row);
                    handle.part(1).fill(round + row + 100);
                    assert!(handle.part(2).is_empty());
                });
            }
        });
        let bytes = Rows::bytes(&block).unwrap();
        for row in 0..4_u8 {
            let at = usize::from(row);
            assert!(bytes[at * 4..at * 4 + 4].iter().all(|&b| b == round + row));
            assert!(bytes[16 + at * 8..24 + at * 8].iter().all(|&b| b == round + row + 100));
        }
    }
}

#[test]
fn another_library_writes_through_the_pointer() {
    let mut block = block(8);
    let whole = std::slice::from_ref(&(0..8));
    let mut handles = Vec::new();
    assert!(Rows::lend(&mut block, 1, usize::MAX, whole, &mut handles));
    handles[0].as_mut().unwrap().part(0).fill(1);
    assert_eq!(Rows::memory(&block, 0..8), None, "a row is being written");
    handles.clear();
    for range in [7..9, 9..9, Range { start: 5, end: 4 }] {
        assert_eq!(Rows::memory(&block, range), None);
    }
    let part = Rows::memory(&block, 2..6).unwrap();
    assert_eq!(part.len(), 4);
    // SAFETY: rule 5: these are four bytes of the block, which is alive, and there is no slice of it.
    unsafe { std::ptr::write_bytes(part.cast::<u8>().as_ptr(), 9, part.len()) };
    assert_eq!(Rows::bytes(&block), Some(&[1, 1, 9, 9, 9, 9, 1, 1][..]));
    assert!(Rows::lend(&mut block, 1, usize::MAX, whole, &mut handles));
    handles[0].as_mut().unwrap().part(0).fill(2);
    handles.clear();
    assert_eq!(Rows::bytes(&block), Some(&[2; 8][..]));
}

#[test]
fn parts_on_the_device_are_not_in_the_block() {
    let mut block = block(8);
    let mut handles = Vec::new();
    assert!(Rows::lend(&mut block, 1, 4, &[64..1000, 0..4], &mut handles));
    let handle = handles[0].as_mut().unwrap();
    assert!(handle.part(0).is_empty());
    assert_eq!((handle.place(0), handle.part(1).len()), (Some(64..1000), 4));
    handles.clear();
    assert!(!lends(&mut block, 1, 3, &[64..1000, 0..4]), "across the border");
}

#[test]
fn threads_share_a_row_and_give_it_back() {
    let mut block = block(64);
    let mut handles = Vec::new();
    let fields = [0..4, 4..8, 8..40, 40..64];
    assert!(Rows::lend(&mut block, 2, usize::MAX, &fields, &mut handles));
    let mut second = handles.swap_remove(1).unwrap();
    drop(handles);
    let overlapping = [[(0, 0..3), (0, 2..4)], [(1, 0..3), (0, 0..2)], [(0, 3..4), (0, 0..1)]];
    let of_bytes = |(field, bytes): &(usize, Range<usize>)| (*field, Share::of_bytes(bytes.clone()));
    for parts in overlapping.iter().map(|parts| &parts[..]).chain([&[(2, 0..0)][..], &[(9, 0..0)]]) {
        let parts: Vec<_> = parts.iter().map(of_bytes).collect();
        second = second.divide(&parts).map(|_| ()).unwrap_err();
    }
    let others = Share { origins: Origins::in_order(2), own: 20..24 };
    second = second.divide(&[(1, Share::of_bytes(0..10)), (1, others)]).map(|_| ()).unwrap_err();
    let parts = [(0, 1..3), (1, 0..10), (1, 10..10), (1, 12..24)].each_ref().map(of_bytes);
    let (row, parts) = second.divide(&parts).ok().unwrap();
    let row = Arc::try_unwrap(row).map(|_| ()).expect_err("parts share it");
    std::thread::scope(|scope| {
        for (value, mut part) in (1_u8..).zip(parts) {
            scope.spawn(move || part.bytes().fill(value));
        }
    });
    assert!(Rows::bytes(&block).is_none(), "the row is still lent");
    let mut row = Arc::into_inner(row).unwrap();
    row.part(1)[10..12].fill(9);
    drop(row);
    let bytes = Rows::bytes(&block).unwrap();
    assert_eq!(bytes[4..8], [0, 1, 1, 0]);
    assert_eq!((&bytes[40..50], &bytes[50..52], &bytes[52..]), (&[2; 10][..], &[9; 2][..], &[4; 12][..]));
    assert!(bytes[..4].iter().chain(&bytes[8..40]).all(|&byte| byte == 0), "the other row");
}

#[test]
fn threads_write_the_bytes_of_their_pixels_and_no_others() {
    let mut block = block(24);
    let mut handles = Vec::new();
    assert!(Rows::lend(&mut block, 1, usize::MAX, std::slice::from_ref(&(0..24)), &mut handles));
    // Two planes of 2 × 3 pixels of two bytes, rotated by 180°. For each byte, the test checks which share may write
    // it.
    let origins = Origins { plane_bytes: 12, unit_bytes: 2, columns: 3, start: 5, plane: 0, row: -3, column: -1 };
    let shares = [0..2, 2..2, 2..6].map(|own| (0, Share { origins, own }));
    let (row, mut parts) = handles.swap_remove(0).unwrap().divide(&shares).ok().unwrap();
    for start in 0..26 {
        for end in start..27 {
            let owner = |byte: usize| if 5 - byte % 12 / 2 < 2 { 0 } else { 2 };
            let one_line = end <= 24 && start < end && start / 6 == (end - 1) / 6;
            for (number, part) in parts.iter_mut().enumerate() {
                let own = one_line && (start..end).all(|byte| owner(byte) == number);
                let found = OutputRow::bytes(part, start..end).map(|bytes| bytes.len());
                assert_eq!(
                    found,
                    (own || (start == end && end <= 24)).then_some(end - start),
                    "{start}..{end} of {number}"
                );
            }
        }
    }
    assert_eq!(OutputRow::bytes(&mut parts[0], Range { start: 5, end: 4 }), None);
    assert!(parts.iter_mut().all(|part| part.bytes().is_empty()), "no range of bytes");
    drop(parts);
    assert!(Arc::into_inner(row).is_some());
}

#[test]
fn a_block_in_use_is_not_lent_again() {
    let mut block = block(8);
    let whole = std::slice::from_ref(&(0..8));
    let mut handles = Vec::new();
    assert!(Rows::lend(&mut block, 1, usize::MAX, whole, &mut handles));
    assert!(!Rows::lend(&mut block, 1, usize::MAX, whole, &mut Vec::new()), "a handle is out");
    handles.clear();
    let reader = Arc::clone(&block);
    assert!(!Rows::lend(&mut block, 1, usize::MAX, whole, &mut Vec::new()), "a reader is out");
    drop(reader);
    assert!(Rows::lend(&mut block, 1, usize::MAX, whole, &mut handles));
}

#[test]
fn parts_that_overlap_or_leave_the_block_are_refused() {
    let mut block = block(8);
    for parts in [&[0..4, 3..8][..], &[0..4, 4..9], &[2..4, 0..1], &[0..1, 1..2, 2..3]] {
        assert!(!lends(&mut block, 2, usize::MAX, parts), "{parts:?}");
    }
    assert!(Rows::bytes(&block).is_some());
}
