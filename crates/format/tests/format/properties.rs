//! Tests that parsing encoded parts returns equal values, and that no bytes make a parser panic.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

use proptest::prelude::*;
use shardpack_format::{
    ArrayDescriptor, Codes, DatasetId, Dtype, Field, FieldKind, Footer, Frame, Identity, Index, IndexBuilder, Layout,
    Limits, Manifest, Metadata, Record, RecordBuilder, Schema, ShardEntry, StoredField, Transform, check_json,
    check_key, check_shard_name, shard_name,
};

fn dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(Dtype::ALL)
}

fn identity() -> impl Strategy<Value = Identity> {
    (any::<[u8; 16]>(), any::<u32>(), any::<u16>(), any::<u64>()).prop_map(|(id, number, minor, optional_features)| {
        Identity { minor, optional_features, ..Identity::new(DatasetId(id), number) }
    })
}

fn transform() -> impl Strategy<Value = (Transform, Dtype, Dtype)> {
    let tables = |n: usize| (prop::collection::vec(0.0_f32..1e9, n), prop::collection::vec(-1e9_f32..1e9, n));
    let fixed = (8_u8..=16, tables(3)).prop_map(|(bits, (scale, offset))| {
        let stored = if bits == 8 { Dtype::U8 } else { Dtype::U16 };
        (Transform::Fixed { bits, scale, offset }, stored, Dtype::F32)
    });
    let integer = (dtype(), dtype())
        .prop_filter("an integer pair", |(s, d)| !s.is_float() && *s != Dtype::Bool && *d != Dtype::Bool && s != d)
        .prop_map(|(stored, decoded)| (Transform::Integer, stored, decoded));
    prop_oneof![
        dtype().prop_map(|d| (Transform::None, d, d)),
        prop::sample::select(vec![Dtype::F16, Dtype::F32]).prop_map(|d| (Transform::F16, Dtype::F16, d)),
        integer,
        fixed,
    ]
}

fn descriptor() -> impl Strategy<Value = ArrayDescriptor> {
    let shape = prop::collection::vec(0_u64..50, 1..6);
    (transform(), shape, any::<bool>(), any::<bool>(), any::<Option<f64>>(), any::<[bool; 4]>()).prop_map(
        |((transform, stored, decoded), mut shape, difference, band_major, no_data, with)| {
            shape.push(3);
            let coded = decoded.is_float() && !matches!(transform, Transform::None) && stored.bytes() <= 4;
            let code = |i: usize| (coded && with[i]).then_some(200 + i as u32);
            let codes = Codes {
                nan: code(0),
                no_data: code(1).filter(|_| no_data.is_some()),
                pos_inf: code(2),
                neg_inf: code(3),
            };
            ArrayDescriptor {
                decoded,
                stored,
                transform,
                band_difference: difference && stored.bytes() <= 2 && stored != Dtype::Bool,
                layout: if band_major { Layout::BandMajor } else { Layout::AsShape },
                shape,
                no_data: no_data.filter(|v| !v.is_nan()),
                codes,
            }
        },
    )
}

fn naive_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    let digits = |n: u64| u128::from(n.max(1));
    let mut product = u128::from(dtype.bytes());
    for &axis in shape {
        product = product.checked_mul(digits(axis)).filter(|p| *p <= u128::from(u64::MAX))?;
    }
    Some(if shape.contains(&0) { 0 } else { product as u64 })
}

proptest! {
    #[test]
    fn headers_and_footers(
        identity in identity(),
        count in 0_u64..1 << 31,
        records in 0_u64..1 << 20,
        index in 1_u64..1 << 20,
        crc: u32,
    ) {
        prop_assert_eq!(Identity::parse_header(&identity.encode_header()).unwrap(), identity);
        let footer =
            Footer { identity, record_count: count, index_offset: 64 + 64 * records, index_bytes: 64 * index, index_crc32: crc };
        let bytes = footer.encode();
        prop_assert_eq!(Footer::parse(&bytes, footer.file_bytes(), &Limits::default()).unwrap(), footer);
        prop_assert!(Footer::parse(&bytes, footer.file_bytes() + 1, &Limits::default()).is_err());
        prop_assert_eq!(footer.crc32().to_le_bytes(), <[u8; 4]>::try_from(&bytes[116..120]).unwrap());
    }

    #[test]
    fn descriptors(descriptor in descriptor()) {
        let bytes = descriptor.encode().unwrap();
        prop_assert_eq!(&ArrayDescriptor::parse(&bytes, &Limits::none()).unwrap(), &descriptor);
        for cut in 0..bytes.len() {
            prop_assert!(ArrayDescriptor::parse(&bytes[..cut], &Limits::none()).is_err());
        }
    }

    #[test]
    fn sizes_agree_with_the_naive_product(
        dtype in dtype(),
        shape in prop::collection::vec(prop_oneof![0_u64..3, any::<u64>(), Just(1 << 31), Just(1 << 32)], 0..5),
    ) {
        let mut turned = shape.clone();
        turned.reverse();
        prop_assert_eq!(dtype.array_bytes(&shape).ok(), naive_bytes(dtype, &shape));
        prop_assert_eq!(dtype.array_bytes(&turned).ok(), naive_bytes(dtype, &shape));
    }

    #[test]
    fn shards(
        keys in prop::collection::hash_set("[a-zé]{1,9}(/[a-z.]{3,70})?", 0..6),
        values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), 12),
        number: u32,
    ) {
        let fields = vec![
            Field::stored("a", FieldKind::Bytes),
            Field::scalar("label", Dtype::U16),
            Field::stored("b", FieldKind::Bytes),
        ];
        let metadata = Metadata { schema: Schema::new(fields).unwrap(), ..Default::default() };
        let identity = Identity::new(DatasetId([3; 16]), number);
        let (mut records, mut index) = (Vec::new(), IndexBuilder::new(&metadata.schema));
        let keys: Vec<_> = keys.into_iter().filter(|key| check_key(key).is_ok()).collect();
        for (i, (key, pair)) in keys.iter().zip(values.chunks(2)).enumerate() {
            let stored: Vec<_> = pair.iter().map(|v| v.as_ref().map(|v| StoredField::raw(v.len() as u64))).collect();
            let scalars = (i as u16).to_le_bytes();
            let mut record = RecordBuilder::new(vec![9; 50], &metadata.schema, number, i as u64, key, &scalars, &stored).unwrap();
            for (position, value) in pair.iter().enumerate() {
                record.field_mut(position).copy_from_slice(value.as_deref().unwrap_or_default());
            }
            let (bytes, frame) = record.finish();
            prop_assert_eq!(Frame::parse(&bytes).unwrap(), frame);
            if let Some(first) = &pair[0] {
                let place = RecordBuilder::first_value_at(pair.len(), scalars.len(), 0, key.len());
                for at in [place, place - 61, place + 3, 0] {
                    let buffer = [vec![7; at], first.clone()].concat();
                    let around =
                        RecordBuilder::around(buffer, at, &metadata.schema, number, i as u64, key, &scalars, &stored);
                    let mut around = around.unwrap();
                    around.field_mut(1).copy_from_slice(pair[1].as_deref().unwrap_or_default());
                    prop_assert_eq!(around.finish(), (bytes.clone(), frame));
                }
            }
            prop_assert_eq!(index.push(&frame, key, &scalars).unwrap(), 64 + records.len() as u64);
            records.extend(bytes);
        }
        let index_bytes = index.encode(&metadata.encode().unwrap()).unwrap();
        let footer = Footer {
            identity,
            record_count: index.len(),
            index_offset: index.index_offset(),
            index_bytes: index_bytes.len() as u64,
            index_crc32: crc32fast::hash(&index_bytes),
        };
        let limits = Limits::default();
        let parsed = Index::parse(index_bytes, &footer, &limits).unwrap();
        prop_assert_eq!(parsed.metadata(), &metadata);
        for (i, pair) in (0..parsed.len()).zip(values.chunks(2)) {
            let row = parsed.row(i).unwrap();
            let record = Record::parse(&records[row.offset as usize - 64..], &limits).unwrap();
            parsed.check_record(i, number, &record, &limits).unwrap();
            prop_assert_eq!(record.key, &keys[i as usize]);
            for (field, value) in record.fields.iter().zip(pair) {
                prop_assert_eq!(field.map(|f| f.bytes), value.as_deref());
            }
            if i > 0 {
                prop_assert!(parsed.check_record(i - 1, number, &record, &limits).is_err());
            }
            prop_assert!(parsed.check_record(i, number ^ 1, &record, &limits).is_err());
        }
        prop_assert!(parsed.check_frame(parsed.len(), number, &dummy_frame()).is_err());
    }

    #[test]
    fn manifests(
        id: [u8; 16],
        sizes in prop::collection::vec((192_u64.., 0_u64..1 << 40, any::<u32>(), any::<[u8; 32]>()), 0..5),
    ) {
        let mut manifest = Manifest::new(DatasetId(id), Metadata::default());
        for (number, (bytes, samples, footer_crc32, sha256)) in (0..).zip(sizes) {
            manifest.push(ShardEntry { name: shard_name(number), bytes, samples, footer_crc32, sha256 });
        }
        let bytes = manifest.encode().unwrap();
        prop_assert_eq!(Manifest::parse(&bytes, &Limits::default()).unwrap(), manifest);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..300,
        text in ".{0,60}",
    ) {
        let limits = Limits::default();
        let mut frame = dummy_record();
        if let Some(byte) = frame.get_mut(at) { *byte ^= 0x41; }
        let crc = crc32fast::hash(&frame[..60]).to_le_bytes();
        frame[60..64].copy_from_slice(&crc);
        if let Ok(parsed) = Frame::parse(&frame) {
            let _ = Record::parse_trusted(parsed, &frame, &limits);
        }
        let _ = Record::parse(&bytes, &limits);
        let _ = Identity::parse_header(&bytes);
        let _ = Footer::parse(&bytes, bytes.len() as u64, &limits);
        let _ = ArrayDescriptor::parse(&bytes, &limits);
        let _ = Manifest::parse(&bytes, &limits);
        let _ = Metadata::parse(text.as_bytes(), &limits);
        let _ = check_json(text.as_bytes(), &limits);
        let _ = check_shard_name(&text);
        let _ = check_key(&text);
    }
}

fn dummy_record() -> Vec<u8> {
    let schema = Schema::new(vec![Field::stored("a", FieldKind::Bytes)]).unwrap();
    let record = RecordBuilder::new(Vec::new(), &schema, 0, 0, "key", &[], &[Some(StoredField::raw(70))]);
    record.unwrap().finish().0
}

fn dummy_frame() -> Frame {
    Frame::parse(&dummy_record()).unwrap()
}
