//! One record: frame, head and field values, with and without right checksums.
#![no_main]
use libfuzzer_sys::fuzz_target;
use shardpack_format::{FRAME_BYTES, Frame, Record};
use shardpack_fuzz::shard::limits;

fuzz_target!(|data: &[u8]| {
    let _ = Record::parse(data, &limits());
    let mut bytes = data.to_vec();
    if bytes.len() < FRAME_BYTES as usize {
        return;
    }
    let frame_crc = crc32fast::hash(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&frame_crc);
    let Ok(frame) = Frame::parse(&bytes) else { return };
    if let Ok(record) = Record::parse_trusted(frame, &bytes, &limits()) {
        let stored: usize = record.fields.iter().flatten().map(|f| f.bytes.len()).sum();
        assert!(stored <= bytes.len(), "fields do not overlap");
    }
});
