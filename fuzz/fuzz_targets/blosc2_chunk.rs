//! Blosc2 payloads: what the walker lets pass is decoded, or refused, without harm.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::{ArrayDescriptor, Codec, Dtype};
use shardpack_fuzz::payload::decode;

fuzz_target!(|data: &[u8]| {
    let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![100, 70, 10]);
    let _ = decode(Codec::Blosc2, &descriptor, data);
});
