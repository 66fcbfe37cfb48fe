//! JPEGs one after the other through the same decoders, compared with new ones.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::jpeg_decoders(data);
});
