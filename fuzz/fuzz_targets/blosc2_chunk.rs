//! Blosc2 payloads: after the walker accepts one, the decoder decodes or refuses it safely.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::blosc2_chunk(data);
});
