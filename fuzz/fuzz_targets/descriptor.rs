//! Fuzzes the parser of array descriptors: an accepted descriptor has exactly one encoding, and its sizes are within
//! the limits.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::descriptor(data);
});
