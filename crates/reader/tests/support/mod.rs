//! Creates small datasets for tests, using only the format crate.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use sha2::{Digest, Sha256};
use shardpack_format::*;
use std::path::{Path, PathBuf};

pub const ID: DatasetId = DatasetId([7; 16]);

pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(dir) = tempfile::tempdir_in(memory)
    {
        return dir;
    }
    tempfile::tempdir().unwrap()
}

/// Returns the kind of the error, or `None` for a success.
pub fn error_kind<T>(result: &Result<T, impl Explain>) -> Option<ErrorKind> {
    result.as_ref().err().map(Explain::kind)
}

/// A sample of the test schema: a string, a picture (absent if `None`), a small array, a label and a height.
#[derive(Debug, Clone)]
pub struct TestSample {
    pub id: u64,
    pub key: String,
    pub text: Vec<u8>,
    pub picture: Option<Vec<u8>>,
    pub label: i64,
}

impl TestSample {
    pub fn new(id: u64) -> Self {
        let key = format!("class-{}/sample-{id:04}.png", id % 3);
        let text = format!("text of {id}, {}", "x".repeat((id * 37 % 200) as usize)).into_bytes();
        let picture = (id % 4 != 3).then(|| (0..(id * 91 % 500)).map(|i| (i ^ id) as u8).collect());
        Self { id, key, text, picture, label: (id % 3) as i64 }
    }

    pub fn scalars(&self) -> Vec<u8> {
        let mut out = self.label.to_le_bytes().to_vec();
        out.extend((self.id as u16).to_le_bytes());
        out
    }

    pub fn array_bytes(&self) -> Vec<u8> {
        (0..12_u16).flat_map(|v| (v + self.id as u16).to_le_bytes()).collect()
    }
}

pub fn metadata(shards: Option<u32>) -> Metadata {
    let fields = vec![
        Field::stored("text", FieldKind::Text),
        Field::scalar("label", Dtype::I64),
        Field::stored("image", FieldKind::Image),
        Field::stored("cube", FieldKind::Array),
        Field::scalar("height", Dtype::U16),
    ];
    let mut recipe = Recipe::new();
    recipe.insert("seed".into(), 1.into());
    Metadata {
        schema: Schema::new(fields).unwrap(),
        classes: Some(vec!["a".into(), "b".into(), "c".into()]),
        recipe,
        shards,
    }
}

pub fn record(sample: &TestSample, shard_number: u32) -> (Vec<u8>, Frame) {
    let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![2, 2, 3]).encode().unwrap();
    let array = sample.array_bytes();
    let picture = sample.picture.as_ref().map(|p| StoredField {
        codec: Codec::Raw,
        stored_bytes: p.len() as u64,
        decoded_bytes: p.len() as u64,
        descriptor: b"image/png",
    });
    let cube = StoredField {
        codec: Codec::Raw,
        stored_bytes: array.len() as u64,
        decoded_bytes: array.len() as u64,
        descriptor: &descriptor,
    };
    let fields = [Some(StoredField::raw(sample.text.len() as u64)), picture, Some(cube)];
    let schema = metadata(None).schema;
    let scalars = sample.scalars();
    let mut record =
        RecordBuilder::new(Vec::new(), &schema, shard_number, sample.id, &sample.key, &scalars, &fields).unwrap();
    record.field_mut(0).copy_from_slice(&sample.text);
    if let Some(picture) = &sample.picture {
        record.field_mut(1).copy_from_slice(picture);
    }
    record.field_mut(2).copy_from_slice(&array);
    record.finish()
}

pub fn shard(identity: Identity, samples: &[TestSample]) -> Vec<u8> {
    shard_with(identity, samples, &metadata(None))
}

pub fn shard_with(identity: Identity, samples: &[TestSample], metadata: &Metadata) -> Vec<u8> {
    let mut out = identity.encode_header().to_vec();
    let mut index = IndexBuilder::new(&metadata.schema);
    for sample in samples {
        let (bytes, frame) = record(sample, identity.shard_number);
        assert_eq!(index.push(&frame, &sample.key, &sample.scalars()).unwrap(), out.len() as u64);
        out.extend(bytes);
    }
    finish(out, identity, samples.len() as u64, &index.encode(&metadata.encode().unwrap()).unwrap())
}

pub fn finish(mut out: Vec<u8>, identity: Identity, record_count: u64, index: &[u8]) -> Vec<u8> {
    let footer = Footer {
        identity,
        record_count,
        index_offset: out.len() as u64,
        index_bytes: index.len() as u64,
        index_crc32: crc32fast::hash(index),
    };
    out.extend(index);
    out.extend(footer.encode());
    out
}

pub fn small_shard(ids: std::ops::Range<u64>) -> Vec<u8> {
    let samples: Vec<TestSample> = ids.map(TestSample::new).collect();
    shard(Identity::new(ID, 0), &samples)
}

pub fn entry(name: &str, bytes: &[u8]) -> ShardEntry {
    let footer = Footer::parse(&bytes[bytes.len() - 128..], bytes.len() as u64, &Limits::none()).unwrap();
    ShardEntry {
        name: name.into(),
        bytes: bytes.len() as u64,
        samples: footer.record_count,
        footer_crc32: crc32fast::hash(&bytes[bytes.len() - 128..bytes.len() - 12]),
        sha256: Sha256::digest(bytes).into(),
    }
}

/// A dataset on disk with `counts[k]` samples in shard k. Sample ids count up from 0.
pub struct OnDisk {
    pub dir: tempfile::TempDir,
    pub manifest: Manifest,
    pub samples: Vec<TestSample>,
}

impl OnDisk {
    pub fn new(counts: &[u64]) -> Self {
        let dir = scratch();
        let metadata = metadata(Some(counts.len() as u32));
        let mut manifest = Manifest::new(ID, metadata.clone());
        let mut all = Vec::new();
        for (number, &count) in counts.iter().enumerate() {
            let first = all.len() as u64;
            let samples: Vec<TestSample> = (first..first + count).map(TestSample::new).collect();
            let bytes = shard_with(Identity::new(ID, number as u32), &samples, &metadata);
            let name = shard_name(number as u32);
            std::fs::write(dir.path().join(&name), &bytes).unwrap();
            manifest.push(entry(&name, &bytes));
            all.extend(samples);
        }
        let disk = Self { dir, manifest, samples: all };
        disk.write_manifest(&disk.manifest);
        disk
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn shard_path(&self, number: u32) -> PathBuf {
        self.path().join(shard_name(number))
    }

    pub fn write_manifest(&self, manifest: &Manifest) {
        std::fs::write(self.path().join(MANIFEST_NAME), manifest.encode().unwrap()).unwrap();
    }

    pub fn edit(&self, number: u32, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.shard_path(number);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
    }
}

pub fn index_of(bytes: &[u8]) -> (Footer, Index) {
    let limits = Limits::none();
    let footer = Footer::parse(&bytes[bytes.len() - 128..], bytes.len() as u64, &limits).unwrap();
    let start = footer.index_offset as usize;
    let index = Index::parse(bytes[start..bytes.len() - 128].to_vec(), &footer, &limits).unwrap();
    (footer, index)
}

/// Recomputes the CRC32 of the footer, so that the reader must refuse the changed field itself.
pub fn fix_footer(bytes: &mut [u8]) {
    let start = bytes.len() - 128;
    let crc = crc32fast::hash(&bytes[start..start + 116]);
    bytes[start + 116..start + 120].copy_from_slice(&crc.to_le_bytes());
}

pub fn fix_index(bytes: &mut [u8], footer: &Footer) {
    let (start, end) = (footer.index_offset as usize, (footer.index_offset + footer.index_bytes) as usize);
    let crc = crc32fast::hash(&bytes[start..end]);
    // Spec §2.4: `index_crc32` is at byte 96 of the footer.
    let at = bytes.len() - 128 + 96;
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    fix_footer(bytes);
}

pub fn fix_record(bytes: &mut [u8], offset: usize) {
    let length = u64::from_le_bytes(bytes[offset + 16..offset + 24].try_into().unwrap()) as usize;
    if let Some(body) = bytes.get(offset + 64..offset.saturating_add(length)) {
        let crc = crc32fast::hash(body);
        bytes[offset + 28..offset + 32].copy_from_slice(&crc.to_le_bytes());
    }
    fix_frame(bytes, offset);
}

pub fn fix_frame(bytes: &mut [u8], offset: usize) {
    let crc = crc32fast::hash(&bytes[offset..offset + 60]);
    bytes[offset + 60..offset + 64].copy_from_slice(&crc.to_le_bytes());
}

pub fn fix_header(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
}
