//! Fuzzes the parser of a record (frame, head and field values), with its own and with corrected checksums.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::record(data);
});
