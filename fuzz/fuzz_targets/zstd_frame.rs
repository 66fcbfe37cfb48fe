//! zstd payloads: what the frame check lets pass, zstd decodes to the length that was promised.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::{ArrayDescriptor, Codec, Dtype};
use shardpack_fuzz::payload::decode;

fuzz_target!(|data: &[u8]| {
    let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![100, 70, 10]);
    if let Ok(array) = decode(Codec::Zstd, &descriptor, data) {
        assert_eq!(array.bytes().len(), 140_000);
    }
});
