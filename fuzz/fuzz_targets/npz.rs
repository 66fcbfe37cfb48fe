//! Fuzzes the reader of NumPy arrays (`.npy`) and of zip archives of them (`.npz`).
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources;

fuzz_target!(|data: &[u8]| {
    sources::cube(data);
});
