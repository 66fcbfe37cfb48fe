//! Blosc2 payloads: what the walker lets pass is decoded, or refused, without harm.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::blosc2_chunk(data);
});
