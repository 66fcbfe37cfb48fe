//! ENVI headers, beside a file of data.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_fuzz::sources::Folder;

thread_local! {
    static FOLDER: Folder = Folder::default();
}

fuzz_target!(|data: &[u8]| {
    FOLDER.with(|folder| folder.read("envi", data));
});
