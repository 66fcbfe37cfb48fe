//! Fuzzes the reader of HDF5 files and of MATLAB files of version 7.3.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
