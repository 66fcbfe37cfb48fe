//! Fuzzes the parser of manifests: an accepted manifest survives writing and reading unchanged.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::manifest(data);
});
