//! Tests that decoding regions allocates no memory once a decoder has decoded the largest region.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Bands, Coder, Filter, Region, ValueRule,
};
use shardpack_format::{Dtype, Layout, Limits};
use std::alloc::{GlobalAlloc, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is passed unchanged to the system allocator. Counting allocates no memory, because the cell has
// neither a run-time constructor nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: std::alloc::Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn regions_take_no_memory_once_the_decoder_is_warm() {
    let (height, width, bands) = (110_u64, 100, 200);
    let bytes = (0..height * width * bands).flat_map(|i| ((i % 977) as f32 / 1e3).to_le_bytes()).collect();
    let cube = Array::new(Dtype::F32, vec![height, width, bands], bytes).unwrap();
    for (coder, level) in [(Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1)), (Coder::Zstd, Some(1))] {
        for values in [ValueRule::F16, ValueRule::Fixed { max_error: 1e-4 }] {
            for stored in [ArrayLayout::AsShape, ArrayLayout::BandMajor] {
                for band_difference in [false, true] {
                    let filter = if coder.has_filters() { Filter::Shuffle } else { Filter::None };
                    let settings = ArraySettings { values, coder, level, filter, band_difference, layout: stored };
                    let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
                    let mut decoder = ArrayDecoder::new();
                    let mut regions = Vec::new();
                    for layout in [Layout::BandMajor, Layout::AsShape] {
                        for bands in [Bands::All, Bands::Range(30..60), Bands::List(vec![90, 3, 40])] {
                            let region = Region { layout, bands, ..Region::new(30, 20, 32, 32) };
                            let bytes = region.shape_of(&encoded.descriptor).unwrap().bytes;
                            regions.push((region, vec![0; bytes as usize]));
                        }
                    }
                    let mut round = |y: u64, x: u64| {
                        for (region, out) in &mut regions {
                            (region.y, region.x) = (y, x);
                            let (codec, payload) = (encoded.codec, &encoded.payload);
                            decoder
                                .decode_region(codec, &encoded.descriptor, payload, region, out, &Limits::default())
                                .unwrap();
                        }
                    };
                    round(30, 20);
                    let before = CALLS.get();
                    assert!(before > 0, "memory is counted");
                    round(78, 68);
                    round(0, 0);
                    assert_eq!(CALLS.get() - before, 0, "{settings}");
                }
            }
        }
    }
}
