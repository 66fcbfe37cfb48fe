//! Manifests: what is accepted can be written again, and reads the same.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::Manifest;
use shardpack_fuzz::shard::limits;

fuzz_target!(|data: &[u8]| {
    let Ok(manifest) = Manifest::parse(data, &limits()) else { return };
    let bytes = manifest.encode().expect("an accepted manifest can be written");
    assert_eq!(Manifest::parse(&bytes, &limits()).expect("and read again"), manifest);
});
