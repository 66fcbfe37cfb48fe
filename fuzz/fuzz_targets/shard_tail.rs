//! Fuzzes opening a shard, which reads the footer and the index from the end of the file.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::shard_tail(data);
});
