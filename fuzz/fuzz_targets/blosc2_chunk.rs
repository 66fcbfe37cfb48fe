//! Fuzzes Blosc2 payloads: the decoder must safely decode or refuse each payload whose structure was accepted.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::blosc2_chunk(data);
});
