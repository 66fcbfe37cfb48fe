//! Fuzzes zstd payloads: an accepted frame decodes to its declared length.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::zstd_frame(data);
});
