//! The memory predicted for a slot is enough for its batches.

use crate::cubes::CubeStager;
use crate::cubes::Payload;
use crate::cubes::tests::generate::{Fill, array};
use crate::stage::cuda::{between_bytes, staged_bytes, takes};
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, Finish, Region, ValueRule};
use shardpack_format::{Codec, Dtype, Limits};
use shardpack_loader::stage::{FieldSource, FieldSpec};

const ROWS: u64 = 5;

/// Patches of cubes that compress to next to nothing: the intermediate data are much larger than the staged
/// bytes and the output.
#[test]
fn patches_have_room_for_the_cubes_that_they_are_cut_from() {
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
        let source = FieldSource::Array { stored: &stored, part: Some(&region) };
        let spec = FieldSpec { name: "cube", dtype: Dtype::U16.into(), source };
        assert!(takes(&spec));
        let row_bytes = 16 * 16 * 50 * 2;
        let output = row_bytes * ROWS;
        let staged = staged_bytes(&spec, ROWS, payload.len() as u64 * ROWS, output);
        let between = output.max(3 * staged) + between_bytes(&spec, ROWS, output);
        let mut slot = vec![0; staged as usize];
        let mut stager = CubeStager::default();
        let mut batch = stager.begin(&mut slot).unwrap();
        for row in 0..ROWS {
            let (bytes, limits) = (Payload::Bytes(payload), Limits::default());
            batch
                .push(
                    encoded.codec,
                    &encoded.descriptor,
                    bytes,
                    Some(&region),
                    &Finish::NOTHING,
                    row * row_bytes,
                    &limits,
                )
                .unwrap();
        }
        let taken = batch.finish().unwrap().slot_bytes();
        assert!(taken <= staged + between, "{taken} of {staged} and {between}");
        assert!(taken > staged + output.max(3 * staged), "neither what is staged nor what comes out tells");
    }
}

/// The host decompresses plain zstd as a whole, cuts the part, and uploads it.
#[test]
fn parts_of_plain_zstd_are_for_the_host() {
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
    for part in [None, Some(&region)] {
        let source = FieldSource::Array { stored: &stored, part };
        assert_eq!(takes(&FieldSpec { name: "cube", dtype: Dtype::U16.into(), source }), part.is_none());
    }
}
