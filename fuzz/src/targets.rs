//! All targets and their seeds, for the fuzzer and for `tests/integration/corpus.rs`.

use crate::shard::{limits, read, reseal};
use crate::{jpeg, payload, shard, sources};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, FOOTER_BYTES, FRAME_BYTES, Footer, Frame, Identity, Index, Manifest, Record,
};
use std::cell::RefCell;
use std::fs;
use std::path::Path;

/// A function to fuzz.
pub struct Target {
    /// Name of the program in `fuzz_targets/` and of the folder in `seeds/`.
    pub name: &'static str,
    /// Returns valid inputs made by this project. Files made by other programs are in `seeds/`.
    pub made: fn() -> Vec<Vec<u8>>,
    /// Reads bytes and returns true if they are valid. Panics if it finds a bug.
    pub read: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "shard", made: || vec![shard::golden()], read: whole_shard },
    Target { name: "shard_tail", made: || vec![shard::golden()], read: shard_tail },
    Target { name: "record", made: || vec![shard::golden_record()], read: record },
    Target { name: "descriptor", made: golden_descriptor, read: descriptor },
    Target { name: "manifest", made: || vec![shard::manifest()], read: manifest },
    Target { name: "blosc2_chunk", made: || payloads(Codec::Blosc2), read: blosc2_chunk },
    Target { name: "zstd_frame", made: || payloads(Codec::Zstd), read: zstd_frame },
    Target { name: "jpeg_cut", made: || vec![jpeg::tiled()], read: jpeg::cut },
    Target { name: "jpeg_decoders", made: || vec![jpeg::TILES.to_vec()], read: jpeg_decoders },
    Target { name: "tiff", made: Vec::new, read: sources::cube },
    Target { name: "matlab", made: Vec::new, read: sources::cube },
    Target { name: "envi", made: Vec::new, read: sources::cube },
    Target { name: "b2nd", made: Vec::new, read: sources::cube },
    Target { name: "npz", made: Vec::new, read: sources::cube },
    Target { name: "hdf5", made: Vec::new, read: sources::cube },
    Target { name: "labels", made: Vec::new, read: sources::labels },
];

impl Target {
    /// Returns names and bytes of all seeds: inputs made by this project, and the files in the target's folder in
    /// `seeds`. Inputs named `bad-…` must be refused.
    ///
    /// # Panics
    /// If a file cannot be read, or there are no seeds.
    pub fn seeds(&self, seeds: &Path) -> Vec<(String, Vec<u8>)> {
        let made = (self.made)().into_iter().enumerate();
        let mut all: Vec<_> = made.map(|(number, bytes)| (format!("golden{number}"), bytes)).collect();
        // A target without files from other programs has no folder until the fuzzer finds something.
        if let Ok(folder) = fs::read_dir(seeds.join(self.name)) {
            let mut files: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).collect();
            files.sort();
            for file in files {
                let name = file.file_name().expect("a name").to_string_lossy().into_owned();
                all.push((name, fs::read(&file).expect("a seed")));
            }
        }
        assert!(all.iter().any(|(name, _)| !name.starts_with("bad-")), "no seed for {}", self.name);
        all
    }
}

fn golden_descriptor() -> Vec<Vec<u8>> {
    let record = shard::golden_record();
    let record = Record::parse(&record, &limits()).expect("a valid record");
    vec![record.fields[0].expect("the cube").descriptor.to_vec()]
}

fn payloads(wanted: Codec) -> Vec<Vec<u8>> {
    let all = payload::payloads().into_iter();
    all.filter(|(codec, _, _)| *codec == wanted).map(|(_, _, bytes)| bytes).collect()
}

/// Reads a whole shard as a reader does, with its own and with corrected checksums.
pub fn whole_shard(data: &[u8]) -> bool {
    let whole = read(data).is_ok();
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let _ = read(&bytes);
    whole
}

/// Reads footer and index from the bytes at the end of a file, with corrected checksums, as when opening a shard.
pub fn shard_tail(data: &[u8]) -> bool {
    let _ = Identity::parse_header(data);
    let mut bytes = data.to_vec();
    reseal(&mut bytes);
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES as usize) else { return false };
    let Ok(footer) = Footer::parse(&bytes[at..], bytes.len() as u64, &limits()) else { return false };
    assert_eq!(footer.encode()[..], bytes[at..], "an accepted footer has one spelling");
    let Some(index) = bytes.get(footer.index_offset as usize..at) else { return false };
    let Ok(index) = Index::parse(index.to_vec(), &footer, &limits()) else { return false };
    for i in 0..index.len() {
        assert!(index.row(i).is_some() && index.key(i).is_some());
    }
    true
}

/// Reads frame, head and field values of a record, with its own and with corrected checksums.
pub fn record(data: &[u8]) -> bool {
    let whole = Record::parse(data, &limits()).is_ok();
    let mut bytes = data.to_vec();
    if bytes.len() < FRAME_BYTES as usize {
        return whole;
    }
    let frame_crc = crc32fast::hash(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&frame_crc);
    let Ok(frame) = Frame::parse(&bytes) else { return whole };
    if let Ok(record) = Record::parse_trusted(frame, &bytes, &limits()) {
        let stored: usize = record.fields.iter().flatten().map(|f| f.bytes.len()).sum();
        assert!(stored <= bytes.len(), "fields overlap");
    }
    whole
}

/// Reads an array descriptor. An accepted descriptor has exactly one encoding, and its sizes are within the limits.
pub fn descriptor(data: &[u8]) -> bool {
    let limits = limits();
    let Ok(descriptor) = ArrayDescriptor::parse(data, &limits) else { return false };
    assert_eq!(descriptor.encode().expect("an accepted descriptor can be written"), data);
    assert!(descriptor.decoded_bytes().expect("a size") <= limits.max_decoded_bytes);
    true
}

/// Reads a manifest. An accepted manifest survives writing and reading unchanged.
pub fn manifest(data: &[u8]) -> bool {
    let Ok(manifest) = Manifest::parse(data, &limits()) else { return false };
    let bytes = manifest.encode().expect("an accepted manifest can be written");
    assert_eq!(Manifest::parse(&bytes, &limits()).expect("and read again"), manifest);
    true
}

/// Reads a Blosc2 payload. If the walker accepts it, the decoder safely decodes or refuses it.
pub fn blosc2_chunk(data: &[u8]) -> bool {
    decodes(Codec::Blosc2, data)
}

/// Reads a zstd payload. An accepted frame decodes to its declared length.
pub fn zstd_frame(data: &[u8]) -> bool {
    decodes(Codec::Zstd, data)
}

fn decodes(codec: Codec, data: &[u8]) -> bool {
    let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![100, 70, 10]);
    let Ok(array) = payload::decode(codec, &descriptor, data) else { return false };
    assert_eq!(array.bytes().len(), 140_000);
    true
}

/// Reads JPEGs with reused decoders and with new decoders, and compares the results.
pub fn jpeg_decoders(data: &[u8]) -> bool {
    thread_local! {
        static USED: RefCell<jpeg::Decoders> = RefCell::default();
    }
    USED.with_borrow_mut(|used| used.read(data))
}
