//! Makes a small valid shard, reads a shard with `shardpack-format`, and corrects the checksums of a damaged shard.
//!
//! Shared by the fuzz targets and the deterministic campaign in `tests/integration/mutations.rs`.

use shardpack_format::{
    ArrayDescriptor, Codec, Codes, DatasetId, Dtype, Error, FOOTER_BYTES, FRAME_BYTES, Field, FieldKind, Footer, Frame,
    HEADER_BYTES, Identity, Index, IndexBuilder, Layout, Limits, Metadata, RECORD_MAGIC, Record, RecordBuilder, Schema,
    StoredField, Transform,
};

/// Returns limits so small that excessive allocation becomes visible as slowness or failure.
pub fn limits() -> Limits {
    Limits { max_index_bytes: 1 << 20, max_record_bytes: 1 << 20, max_decoded_bytes: 1 << 20, ..Limits::default() }
}

/// Returns the schema of [`golden`]: every kind of field, and scalars of one, four and eight bytes.
pub fn schema() -> Schema {
    let fields = vec![
        Field::stored("cube", FieldKind::Array),
        Field::stored("image", FieldKind::Image),
        Field::scalar("label", Dtype::I64),
        Field::scalar("flag", Dtype::Bool),
        Field::stored("note", FieldKind::Text),
        Field::stored("meta", FieldKind::Json),
        Field::stored("blob", FieldKind::Bytes),
        Field::scalar("weight", Dtype::F32),
    ];
    Schema::new(fields).expect("a valid schema")
}

fn descriptors() -> Vec<ArrayDescriptor> {
    let mut fixed = ArrayDescriptor::plain(Dtype::F32, vec![3, 4, 2]);
    fixed.stored = Dtype::U16;
    fixed.transform = Transform::Fixed { bits: 12, scale: vec![0.5, 0.25], offset: vec![-1.0, 2.0] };
    fixed.band_difference = true;
    fixed.layout = Layout::BandMajor;
    fixed.no_data = Some(-9999.0);
    fixed.codes = Codes { nan: Some(4094), no_data: Some(4095), ..Codes::default() };
    let mut half = ArrayDescriptor::plain(Dtype::F32, vec![5, 3, 2]);
    half.stored = Dtype::F16;
    half.transform = Transform::F16;
    vec![fixed, half, ArrayDescriptor::plain(Dtype::U16, vec![4, 4, 4])]
}

/// Returns a shard of three records, about 4 KiB.
pub fn golden() -> Vec<u8> {
    let schema = schema();
    let identity = Identity::new(DatasetId([7; 16]), 3);
    let mut bytes = identity.encode_header().to_vec();
    let mut index = IndexBuilder::new(&schema);
    for (i, descriptor) in (0_u8..).zip(descriptors()) {
        let encoded = descriptor.encode().expect("a valid descriptor");
        let stored_bytes = descriptor.stored_bytes().expect("a small array");
        let cube = StoredField { codec: Codec::Raw, stored_bytes, decoded_bytes: stored_bytes, descriptor: &encoded };
        let image =
            StoredField { codec: Codec::Jpeg, stored_bytes: 150, decoded_bytes: 150, descriptor: b"image/jpeg" };
        let blob = (i != 1).then(|| StoredField::raw(33));
        let fields = [Some(cube), Some(image), Some(StoredField::raw(11)), Some(StoredField::raw(9)), blob];
        let mut scalars = i64::from(i).to_le_bytes().to_vec();
        scalars.push(i % 2);
        scalars.extend(1.5_f32.to_le_bytes());
        let key = format!("class {i}/sample-{i}.jpg");
        let mut record =
            RecordBuilder::new(Vec::new(), &schema, identity.shard_number, u64::from(i) + 40, &key, &scalars, &fields)
                .expect("a valid record");
        for position in 0..fields.len() {
            for (n, byte) in (1_u8..=255).cycle().zip(record.field_mut(position)) {
                *byte = n.wrapping_mul(i + 37);
            }
        }
        record.field_mut(2).copy_from_slice(b"hello there");
        record.field_mut(3).copy_from_slice(b"{\"a\": 12}");
        let (record, frame) = record.finish();
        index.push(&frame, &key, &scalars).expect("a row");
        bytes.extend(record);
    }
    let classes = vec!["class 0".to_owned(), "class 1".to_owned(), "class 2".to_owned()];
    let metadata = Metadata { schema, classes: Some(classes), shards: Some(4), ..Metadata::default() };
    let index_bytes = index.encode(&metadata.encode().expect("JSON")).expect("an index");
    let footer = Footer {
        identity,
        record_count: index.len(),
        index_offset: index.index_offset(),
        index_bytes: index_bytes.len() as u64,
        index_crc32: crc32fast::hash(&index_bytes),
    };
    bytes.extend(index_bytes);
    bytes.extend(footer.encode());
    bytes
}

/// Reads a whole shard as a reader does: header, footer, index, columns, records, descriptors.
///
/// # Errors
/// The first violation of the specification.
pub fn read(bytes: &[u8]) -> Result<u64, Error> {
    let limits = limits();
    let truncated = || Error::format("shard", "more bytes", "the end");
    let file_bytes = bytes.len() as u64;
    let header = Identity::parse_header(bytes)?;
    let footer_at = bytes.len().checked_sub(FOOTER_BYTES as usize).ok_or_else(truncated)?;
    let footer = Footer::parse(&bytes[footer_at..], file_bytes, &limits)?;
    footer.check_header(&header)?;
    let index_at = usize::try_from(footer.index_offset).map_err(|_| truncated())?;
    let index = Index::parse(bytes.get(index_at..footer_at).ok_or_else(truncated)?.to_vec(), &footer, &limits)?;
    for i in 0..index.len() {
        let row = index.row(i).ok_or_else(truncated)?;
        let start = usize::try_from(row.offset).map_err(|_| truncated())?;
        let record = Record::parse(bytes.get(start..).ok_or_else(truncated)?, &limits)?;
        index.check_record(i, header.shard_number, &record, &limits)?;
        let frame = record.frame;
        let end = start + usize::try_from(frame.record_bytes).map_err(|_| truncated())?;
        let padded = start + usize::try_from(frame.padded_bytes()).map_err(|_| truncated())?;
        if bytes.get(end..padded).ok_or_else(truncated)?.iter().any(|&b| b != 0) {
            return Err(Error::format("padding after the record", "zero", "a non-zero byte").in_record(i));
        }
    }
    Ok(index.len())
}

fn put_crc(bytes: &mut [u8], from: usize, at: usize) {
    if let Some(covered) = bytes.get(from..at) {
        let crc = crc32fast::hash(covered).to_le_bytes();
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&crc);
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// Corrects all checksums, so that damage is not caught by them but reaches the parsers.
///
/// Follows the layout as far as the damaged lengths allow; unreachable parts keep their wrong checksums.
pub fn reseal(bytes: &mut [u8]) {
    put_crc(bytes, 0, 60);
    let frame_len = FRAME_BYTES as usize;
    let mut rows = Vec::new();
    let mut at = HEADER_BYTES as usize;
    while bytes.get(at..).is_some_and(|rest| rest.starts_with(&RECORD_MAGIC)) {
        let Some(length) = u64_at(bytes, at + 16).filter(|&n| n >= frame_len && n <= bytes.len() - at) else { break };
        let crc = crc32fast::hash(&bytes[at + frame_len..at + length]);
        bytes[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
        put_crc(bytes, at, at + 60);
        rows.push(crc);
        at += length.next_multiple_of(64);
    }
    let Some(footer_at) = bytes.len().checked_sub(FOOTER_BYTES as usize) else { return };
    if let Some(index_at) = u64_at(bytes, footer_at + 80).filter(|&at| at <= footer_at) {
        reseal_rows(&mut bytes[index_at..footer_at], &rows);
        let crc = crc32fast::hash(&bytes[index_at..footer_at]);
        bytes[footer_at + 96..footer_at + 100].copy_from_slice(&crc.to_le_bytes());
    }
    put_crc(bytes, footer_at, footer_at + 116);
}

/// Copies the records' checksums into the third column of an index.
fn reseal_rows(index: &mut [u8], crcs: &[u32]) {
    let (Some(records), Some(metadata)) = (u64_at(index, 8), u64_at(index, 16)) else { return };
    let column = || {
        let round = |n: usize| n.checked_next_multiple_of(64);
        let column = round(records.checked_mul(8)?)?;
        64_usize.checked_add(round(metadata)?)?.checked_add(column)?.checked_add(column)
    };
    let Some(mut at) = column() else { return };
    for crc in crcs {
        let Some(place) = index.get_mut(at..at.saturating_add(4)) else { return };
        place.copy_from_slice(&crc.to_le_bytes());
        at += 4;
    }
}

/// Returns the first frame of [`golden`], as a seed for targets that read one record.
pub fn golden_record() -> Vec<u8> {
    let bytes = golden();
    let at = HEADER_BYTES as usize;
    let frame = Frame::parse(&bytes[at..]).expect("a valid frame");
    bytes[at..at + frame.padded_bytes() as usize].to_vec()
}

/// Returns a manifest of one shard, with all optional parts.
pub fn manifest() -> Vec<u8> {
    br#"{"format": "shardpack", "version": "1.0", "dataset_id": "000102030405060708090a0b0c0d0e0f", "samples": 3,
 "schema": {"fields": [{"name": "image", "kind": "image"}, {"name": "label", "kind": "scalar", "dtype": "int64"}]}, "classes": ["a", "b"],
 "recipe": {"seed": 0, "list": [1, 2.5, null, true, {"deep": [[[]]]}]}, "fidelity": {}, "shards": [{"name": "shard-00000.shard",
 "bytes": 4096, "samples": 3, "footer_crc32": "01020304", "sha256": "00000000000000000000000000000000000000000000000000000000000000ff"}]}"#
        .to_vec()
}
