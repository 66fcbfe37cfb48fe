//! Footer and index out of the bytes before the end of a file: what opening a shard does.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::shard_tail(data);
});
