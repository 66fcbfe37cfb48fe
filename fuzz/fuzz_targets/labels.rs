//! Fuzzes the reader of label tables in CSV and JSON Lines.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::labels(data);
});
