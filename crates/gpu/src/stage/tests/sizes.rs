//! Tests that the memory predicted for a slot is enough for its batches.

use crate::cubes::tests::generate::{Fill, array};
use crate::driver::Heap;
use crate::stage::decoding::Decoding;
use crate::stage::staging::Staging;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, Finish, Region, ValueRule, ZstdDecoder,
};
use shardpack_format::{Codec, Dtype, Limits};
use shardpack_loader::stage::{
    ArrayPart, ArrayValue, FieldRows, FieldSource, FieldSpec, Prepared, RecordValue, SlotRoom, Spot,
};

const ROWS: u64 = 5;

/// These cubes compress to almost nothing, so the intermediate data of their patches are much larger than the staged
/// bytes and the output.
#[test]
fn patches_have_room_for_the_blocks_of_their_cubes() {
    let cube = array(Dtype::U16, vec![150, 140, 50], Fill::Constant(7), 1);
    for (filter, layout) in [
        (Filter::Shuffle, ArrayLayout::AsShape),
        (Filter::Bitshuffle, ArrayLayout::BandMajor),
        (Filter::None, ArrayLayout::AsShape),
    ] {
        let (values, coder) = (ValueRule::Keep, Coder::Blosc2Lz4);
        let settings =
            ArraySettings { values, coder, level: coder.default_level(), filter, band_difference: true, layout };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
        let payload = encoded.payload.as_slice();
        let stored = [(encoded.codec, encoded.descriptor.clone())];
        let region = Region::new(30, 40, 16, 16);
        let source = FieldSource::Array { stored: &stored, part: Some(ArrayPart::Region(&region)) };
        let spec = FieldSpec { name: "cube", dtype: Dtype::U16.into(), source };
        assert!(Decoding::Records.takes(&spec));
        let row_bytes = 16 * 16 * 50 * 2;
        let output = row_bytes * ROWS;
        let record_bytes = payload.len() as u64 * ROWS;
        let sizes = FieldRows { rows: ROWS, record_bytes, output_bytes: output, pixels: 0 };
        let room = SlotRoom {
            rows: ROWS as usize,
            output_bytes: output as usize,
            host_bytes: 0,
            staged_bytes: Decoding::Records.staged_bytes(&spec, &sizes) as usize,
            between_bytes: Decoding::Records.between_bytes(&spec, &sizes) as usize,
        };
        let heap = Heap::new(Staging::<Heap>::memory_bytes(room.rows, room.staged_bytes, 0));
        let (fill, limits) = (Staging::new(heap, 0).unwrap(), Limits::default());
        fill.begin(room.output_bytes);
        let (codec, descriptor, region) = (encoded.codec, &encoded.descriptor, Some(&region));
        for row in 0..ROWS {
            let spot =
                Spot { row: row as u32, field: 0, bytes: (row * row_bytes) as usize..((row + 1) * row_bytes) as usize };
            let finish = &Finish::NOTHING;
            let array =
                ArrayValue { codec, descriptor, bytes: payload, part: region.map(ArrayPart::Region), limits: &limits };
            let value = RecordValue::Array { array, finish, noise: None, memo: None };
            assert_eq!(fill.prepare(&spot, &value, &mut ZstdDecoder::default()), Prepared::Taken(None));
        }
        let (batch, _) = fill.assemble(&[]).unwrap();
        let (taken, predicted) = (batch.memory_bytes, Decoding::Records.memory_bytes(&room));
        assert!(taken <= predicted, "{taken} bytes taken, {predicted} predicted");
        let without = Decoding::Records.memory_bytes(&SlotRoom { between_bytes: 0, ..room });
        assert!(taken > without, "staged bytes and output predict enough: {taken} bytes taken, {without} predicted");
    }
}

/// Two threads of the host decompress the long frames of plain zstd faster than a device does.
#[test]
fn arrays_of_plain_zstd_are_for_the_host() {
    let cube = array(Dtype::U16, vec![9, 8, 5], Fill::Counts, 1);
    let (values, coder) = (ValueRule::Keep, Coder::Zstd);
    let settings = ArraySettings {
        values,
        coder,
        level: coder.default_level(),
        filter: Filter::None,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    let encoded = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
    assert_eq!(encoded.codec, Codec::Zstd);
    let stored = [(encoded.codec, encoded.descriptor)];
    let region = Region::new(0, 0, 4, 4);
    for part in [None, Some(ArrayPart::Region(&region))] {
        let source = FieldSource::Array { stored: &stored, part };
        assert!(!Decoding::Records.takes(&FieldSpec { name: "cube", dtype: Dtype::U16.into(), source }));
    }
}
