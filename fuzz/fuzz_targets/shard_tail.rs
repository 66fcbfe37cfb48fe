//! Footer and index out of the bytes before the end of a file, checksums made right first: what
//! opening a shard does.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::{FOOTER_BYTES, Footer, Identity, Index};
use shardpack_fuzz::shard::{limits, reseal};

fuzz_target!(|data: &[u8]| {
    let _ = Identity::parse_header(data);
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES as usize) else { return };
    let Ok(footer) = Footer::parse(&bytes[at..], bytes.len() as u64, &limits()) else { return };
    assert_eq!(footer.encode()[..], bytes[at..], "an accepted footer has one spelling");
    let Some(index) = bytes.get(footer.index_offset as usize..at) else { return };
    if let Ok(index) = Index::parse(index.to_vec(), &footer, &limits()) {
        for i in 0..index.len() {
            assert!(index.row(i).is_some() && index.key(i).is_some());
        }
    }
});
