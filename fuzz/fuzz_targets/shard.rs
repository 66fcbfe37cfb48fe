//! A whole shard, read as a reader does; as it is, and with its checksums made right.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::targets;

fuzz_target!(|data: &[u8]| {
    targets::whole_shard(data);
});
