//! Manifests: what is accepted can be written again, and reads the same.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::manifest(data);
});
