//! Fuzzes the JPEG decoders: a reused decoder and a new one must give the same result.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::jpeg_decoders(data);
});
