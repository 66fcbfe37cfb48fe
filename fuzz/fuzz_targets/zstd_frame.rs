//! zstd payloads: what the frame check lets pass, zstd decodes to the length that was promised.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::zstd_frame(data);
});
