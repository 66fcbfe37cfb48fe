//! A whole shard, read as a reader does; checksums are made right first, so that the fuzzer gets
//! past them.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::shard::{read, reseal};

fuzz_target!(|data: &[u8]| {
    let _ = read(data);
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let _ = read(&bytes);
});
