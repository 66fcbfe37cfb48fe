//! Fuzzes cutting JPEGs: reads the header, cuts out a rectangle, and decodes both the source and the cut.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::jpeg;

fuzz_target!(|data: &[u8]| {
    jpeg::cut(data);
});
