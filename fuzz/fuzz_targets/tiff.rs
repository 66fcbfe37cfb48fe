//! Fuzzes the reader of TIFFs as cubes: directories, tables, strips and tiles.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
