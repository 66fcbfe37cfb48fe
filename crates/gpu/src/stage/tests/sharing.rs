//! Tests that the blocks of an array are staged only once if several rows of a batch use parts of it, and that the
//! rows do not change.

use super::generate::{Fill as Content, array};
use super::played::play;
use super::spot;
use crate::driver::Heap;
use crate::stage::staging::Staging;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, Coder, EncodedArray, Filter, Finish, Region, ValueRule, ZstdDecoder,
};
use shardpack_format::{Dtype, Limits};
use shardpack_gpu_play::MANNERS;
use shardpack_loader::stage::{ArrayPart, ArrayValue, Memo, Prepared, RecordValue, RowFault};

const ROWS: usize = 12;
const SIDE: u64 = 32;
/// Size of a row in bytes: 32 × 32 pixels with 12 bands of 2 bytes.
const ROW_BYTES: usize = 32 * 32 * 12 * 2;

fn encoded(coder: Coder, layout: ArrayLayout) -> EncodedArray {
    let settings = ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: None,
        filter: if coder == Coder::Raw { Filter::None } else { Filter::Shuffle },
        band_difference: false,
        layout,
    };
    let cube = array(Dtype::U16, vec![100, 120, 12], Content::Counts, 5);
    ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap()
}

/// Returns the number of uploaded bytes, the batch, the faults that the device found, and the number of rows that the
/// stage took. A row that did not fit in staging memory is filled with ones.
fn staged(of: &EncodedArray, memo: Option<&Memo>, room: usize) -> (usize, Vec<u8>, Vec<RowFault>, usize) {
    let fill = Staging::new(Heap::new(Staging::<Heap>::memory_bytes(ROWS, room, 0)), 0).unwrap();
    fill.begin(ROWS * ROW_BYTES);
    let (limits, mut taken) = (Limits::default(), 0);
    for row in 0..ROWS {
        let at = row as u64 * 5;
        let region = Region::new(at, 88 - at, SIDE, SIDE);
        let array = ArrayValue {
            codec: of.codec,
            descriptor: &of.descriptor,
            bytes: &of.payload,
            part: Some(ArrayPart::Region(&region)),
            limits: &limits,
        };
        let value = RecordValue::Array { array, finish: &Finish::NOTHING, noise: None, memo };
        let place = spot(row as u32, 0, row * ROW_BYTES..(row + 1) * ROW_BYTES);
        match fill.prepare(&place, &value, &mut ZstdDecoder::default()) {
            Prepared::Taken(_) => taken += 1,
            Prepared::Refused(_) => fill.put(&place, &[0xFF; ROW_BYTES]).unwrap(),
        }
    }
    let (batch, mut upload) = fill.assemble(&[]).unwrap();
    let staging = upload.memory().unwrap().bytes_mut().to_vec();
    let (out, faults) = play(&batch, (&[], &staging), ROWS * ROW_BYTES, MANNERS[0]);
    (batch.upload_bytes, out, faults, taken)
}

#[test]
fn blocks_are_staged_once_for_all_rows() {
    for (coder, layout) in [
        (Coder::Blosc2Lz4, ArrayLayout::BandMajor),
        (Coder::Blosc2Lz4, ArrayLayout::AsShape),
        (Coder::Raw, ArrayLayout::AsShape),
    ] {
        let of = encoded(coder, layout);
        let apart = staged(&of, None, 16 << 20);
        let (upload, out, faults, taken) = staged(&of, Some(&Memo::new(0, ROWS as u64)), 16 << 20);
        assert!(out == apart.1 && faults.is_empty() && taken == ROWS, "{coder:?} {layout:?}: {faults:?}");
        // The upload must contain each block of the array once, the tables of the rows, and little else.
        assert!(upload < of.payload.len() + (32 << 10), "{coder:?} {layout:?}: {upload} of {}", of.payload.len());
        assert!(apart.0 > 2 * upload, "{coder:?} {layout:?}: {} and {upload}", apart.0);
    }
}

#[test]
fn a_row_without_room_takes_nothing_from_others() {
    let of = encoded(Coder::Blosc2Lz4, ArrayLayout::AsShape);
    let (_, all, ..) = staged(&of, None, 16 << 20);
    let mut seen = [false; 2];
    for part in (0..40).step_by(6) {
        let (_, out, faults, taken) = staged(&of, Some(&Memo::new(0, ROWS as u64)), of.payload.len() * part / 32);
        assert_eq!(faults, []);
        let rows = out.chunks(ROW_BYTES).zip(all.chunks(ROW_BYTES));
        let decoded = rows.filter(|(row, expected)| row == expected).count();
        assert_eq!(decoded, taken, "{part}");
        seen[usize::from(taken == ROWS)] |= taken > 0;
    }
    assert_eq!(seen, [true; 2], "some rows found room, and all did");
}

#[test]
fn damage_of_a_shared_array_flags_all_its_rows() {
    let mut of = encoded(Coder::Blosc2Lz4, ArrayLayout::AsShape);
    // Damage a stream of the first chunk. The chunk's header stays valid.
    let at = of.payload.len() / 2;
    of.payload[at..at + 64].fill(0xFF);
    let (_, _, faults, taken) = staged(&of, Some(&Memo::new(0, ROWS as u64)), 16 << 20);
    let rows: Vec<u32> = faults.iter().map(|fault| fault.row).collect();
    assert_eq!((rows, taken), ((0..ROWS as u32).collect(), ROWS));
}
