//! Fuzzes the reader of ENVI headers, next to a data file with fixed content.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
