//! Array descriptors: what is accepted has one spelling, and its sizes are within the limits.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::ArrayDescriptor;
use shardpack_fuzz::shard::limits;

fuzz_target!(|data: &[u8]| {
    let limits = limits();
    let Ok(descriptor) = ArrayDescriptor::parse(data, &limits) else { return };
    assert_eq!(descriptor.encode().expect("an accepted descriptor can be written"), data);
    assert!(descriptor.decoded_bytes().expect("a size") <= limits.max_decoded_bytes);
});
