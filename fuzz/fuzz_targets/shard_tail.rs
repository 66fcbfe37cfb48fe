//! Footer and index from the bytes at the end of a file, as when opening a shard.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::shard_tail(data);
});
