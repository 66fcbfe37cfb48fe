//! Fuzzes the reader of MATLAB files of versions 5 to 7.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
