//! Fuzzes the reader of Blosc2 frames (`.b2nd`).
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
