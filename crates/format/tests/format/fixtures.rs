//! Tests every fixture against the layout alone, without decoding values or searching for files or duplicates.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, missing_docs)]

use shardpack_format::{
    Error, FOOTER_BYTES, Footer, HEADER_BYTES, Identity, Index, Limits, Manifest, Record, Result, check_json,
};
use std::path::{Path, PathBuf};

/// Faults that are detected only by decoding values, reading the whole dataset, or looking for files.
const BEYOND_THE_LAYOUT: [&str; 16] = [
    "K05-digest-of-a-file",
    "K05-file-missing",
    "N10-shard-missing",
    "N10-digest-of-a-shard",
    "S06-key-twice",
    "S06-key-twice-in-two-shards",
    "S06-sample-id-twice",
    "S09-bool-array-of-2",
    "S10-classes-of-a-shard",
    "S10-number-of-shards",
    "S10-recipe-of-a-shard",
    "T03-padding-after-a-record",
    "V01-label-negative",
    "V01-label-outside-the-classes",
    "V01-fixed-point-element-above-its-bits",
    "V01-text-not-utf-8",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn read_shard(bytes: &[u8], limits: &Limits) -> Result<(Footer, Identity, Index)> {
    let footer_at = bytes.len().saturating_sub(FOOTER_BYTES as usize);
    let footer = Footer::parse(&bytes[footer_at..], bytes.len() as u64, limits)?;
    let header = Identity::parse_header(&bytes[..HEADER_BYTES as usize])?;
    footer.check_header(&header)?;
    let index = Index::parse(bytes[footer.index_offset as usize..footer_at].to_vec(), &footer, limits)?;
    for i in 0..index.len() {
        let row = index.row(i).unwrap();
        let stored = &bytes[row.offset as usize..(row.offset + row.length) as usize];
        let frame = shardpack_format::Frame::parse(stored)?;
        index.check_frame(i, header.shard_number, &frame)?;
        let record = Record::parse(stored, limits)?;
        index.check_record(i, header.shard_number, &record, limits)?;
        for (field, value) in index.metadata().schema.stored().zip(&record.fields) {
            if let (shardpack_format::FieldKind::Json, Some(value)) = (field.kind, value)
                && value.codec == shardpack_format::Codec::Raw
            {
                check_json(value.bytes, limits)?;
            }
        }
    }
    Ok((footer, header, index))
}

fn read_dataset(folder: &Path, limits: &Limits) -> Result<()> {
    let manifest = Manifest::parse(&std::fs::read(folder.join("manifest.json")).unwrap(), limits)?;
    for (number, entry) in (0..).zip(&manifest.shards) {
        let Ok(bytes) = std::fs::read(folder.join(&entry.name)) else { continue };
        let (footer, header, index) = read_shard(&bytes, limits)?;
        manifest.check_shard(number, &footer, index.metadata())?;
        assert_eq!(header, footer.identity);
        for (addition, columns) in manifest.columns.iter().enumerate() {
            let file = &columns.files[number as usize];
            let Ok(bytes) = std::fs::read(folder.join(&file.name)) else { continue };
            let (footer, _, added) = read_shard(&bytes, limits)?;
            manifest.check_columns_file(addition, number, &footer, added.metadata())?;
            index.check_columns(&added)?;
        }
    }
    Ok(())
}

fn read(target: &str, limits: &Limits) -> Result<()> {
    let path = root().join(target);
    if target.ends_with('/') {
        return read_dataset(&path, limits);
    }
    read_shard(&std::fs::read(path).unwrap(), limits).map(drop)
}

fn name_of(target: &str) -> &str {
    target.trim_end_matches('/').trim_end_matches(".shard").trim_start_matches("invalid/")
}

#[test]
fn every_fixture_is_accepted_or_refused_as_listed() {
    let table = std::fs::read_to_string(root().join("expected.txt")).unwrap();
    let mut seen = 0;
    for line in table.lines().filter(|line| !line.starts_with(['#', '\t'])) {
        let parts: Vec<&str> = line.split('\t').collect();
        let result = read(parts[0], &Limits::default());
        let beyond = BEYOND_THE_LAYOUT.contains(&name_of(parts[0]));
        let stream = ["invalid/C", "invalid/V02-segment-index"].iter().any(|start| parts[0].starts_with(start));
        match (parts[1], result) {
            ("ok", Ok(())) => {}
            (_, Ok(())) if beyond || stream => {}
            (kind, Err(error)) if !beyond && !stream && kind != "ok" => {
                let found = match error {
                    Error::Format { .. } => "format",
                    Error::Limit { .. } => "limit",
                    _ => "usage",
                };
                assert_eq!(found, kind, "{}: {error}", parts[0]);
                assert!(error.to_string().contains(parts[2]), "{}: {error} does not say {:?}", parts[0], parts[2]);
            }
            (kind, result) => panic!("{}: expected {kind}, found {result:?}", parts[0]),
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen} fixtures only");
}

#[test]
fn data_over_a_limit_passes_without_limits() {
    let target = "invalid/L05-decoded-array-over-limit.shard";
    let error = read(target, &Limits { max_decoded_bytes: 1 << 32, ..Limits::default() }).unwrap_err();
    // The descriptor declares an array of 4 GiB, but the field declares 0 decoded bytes. The error must report this
    // contradiction, not the size limit.
    assert!(matches!(error, Error::Format { .. }), "{error}");
    assert!(error.to_string().contains("decoded size of field"), "{error}");
}

#[test]
fn the_smallest_shard_is_the_one_in_the_specification() {
    let text = std::fs::read_to_string(root().join("../format-spec/README.md")).unwrap();
    let section = text.split("## 9. The smallest valid shard").nth(1).unwrap();
    let dump = section.split("```").nth(1).unwrap();
    let bytes: Vec<u8> = dump
        .lines()
        .filter_map(|line| line.get(6..53))
        .flat_map(|line| line.split_ascii_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(bytes, std::fs::read(root().join("valid/empty.shard")).unwrap());
}
