//! JPEGs one after the other through the same decoders, compared with new ones.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::jpeg::Decoders;
use std::cell::RefCell;

thread_local! {
    static USED: RefCell<Decoders> = RefCell::default();
}

fuzz_target!(|data: &[u8]| {
    USED.with_borrow_mut(|used| used.read(data));
});
