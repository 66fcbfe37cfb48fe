//! JPEGs decoded by reused decoders and by new decoders, for comparison.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::jpeg_decoders(data);
});
