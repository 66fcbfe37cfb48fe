//! Tests that decoding into slots allocates no memory for pixels once the decoder's buffers have grown.
//!
//! The allocator counts per thread, because other tests run at the same time.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "an allocator is unsafe by its nature; this one hands everything on"
)]

use shardpack_format::Limits;
use shardpack_jpeg::{DrawKey, JpegDecoder, PixelLayout, Rendering, View};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize) {
    BYTES.set(BYTES.get() + bytes);
    LARGEST.set(LARGEST.get().max(bytes));
}

// SAFETY: all calls and results are passed through to and from the system's allocator. Counting does not
// allocate, because the cells need neither a constructor at run time nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantees are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are passed on unchanged.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller's guarantees are passed on unchanged.
        unsafe { System.realloc(at, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of bytes that `run` allocates, and the size of the largest allocation.
fn allocated(run: impl FnOnce()) -> (usize, usize) {
    BYTES.set(0);
    LARGEST.set(0);
    run();
    (BYTES.get(), LARGEST.get())
}

#[test]
fn nothing_is_allocated_after_warm_up_but_tables_of_weights() {
    // The picture has 48 × 32 pixels, in tiles of 16 × 16.
    let jpeg = include_bytes!("../../testdata/tiles.jpg");
    let mut decoder = JpegDecoder::new(&Limits::default());
    let key = DrawKey { seed: 1, epoch: 0, sample: 0 };
    let whole = View::whole();
    let views = [
        // Without resizing, nothing is allocated.
        (whole, 1, PixelLayout::HeightWidthChannels, 0),
        (whole.with_flip(1.0), 6, PixelLayout::ChannelsHeightWidth, 0),
        (
            View::rectangle(shardpack_jpeg::Rect { x: 20, y: 3, width: 11, height: 9 }),
            1,
            PixelLayout::HeightWidthChannels,
            0,
        ),
        // Resizing allocates only tables of weights: less than 120 bytes per row and column of the output.
        (View::resize((40, 33)), 1, PixelLayout::HeightWidthChannels, 73 * 120),
        (View::random_resized_crop((24, 16)), 8, PixelLayout::ChannelsHeightWidth, 40 * 120),
    ];
    let mut slots: Vec<Vec<u8>> = views
        .iter()
        .map(|(view, ..)| {
            let (height, width) = view.size().unwrap_or((32, 48));
            vec![0; height as usize * width as usize * 3]
        })
        .collect();
    let mut pass = |most: bool| {
        for ((view, orientation, layout, bound), slot) in views.iter().zip(&mut slots) {
            let how = Rendering { view: *view, key, orientation: *orientation, layout: *layout };
            let (bytes, largest) = allocated(|| {
                decoder.decode_into(jpeg, &how, slot).unwrap();
            });
            assert!(!most || bytes <= *bound, "{view:?}: {bytes} bytes, the largest piece {largest}");
        }
    };
    pass(false);
    pass(true);
}
