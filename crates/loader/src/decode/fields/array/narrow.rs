//! Keeps scenes in float16 if they are stored as float16 and loaded as float32. They are widened only when patches
//! are made, and need half the memory until then.

use shardpack_array::{As, Finish};
use shardpack_format::{ArrayDescriptor, Codes, Dtype, Transform};

/// Number of bytes to check at a time. Fits into the L1 cache.
const PIECE_BYTES: usize = 16 << 10;

/// Keeps elements as the stored float16 if possible. Returns true if they stay float16.
///
/// Every float16 value is also a float32 value. Patches are therefore bit-identical to patches cut from float32,
/// provided that [`quieten`] runs before they are made.
pub(crate) fn narrow(descriptor: &mut ArrayDescriptor, finishes: &mut [Finish]) -> bool {
    let ArrayDescriptor { stored, decoded, transform, codes, .. } = &*descriptor;
    let widens = (stored, decoded, transform) == (&Dtype::F16, &Dtype::F32, &Transform::F16);
    // float16 may not represent a code or the no-data value exactly.
    if !widens || *codes != Codes::default() || finishes.iter().any(|finish| finish.fill.is_some()) {
        return false;
    }
    descriptor.decoded = Dtype::F16;
    descriptor.transform = Transform::None;
    for finish in finishes.iter_mut().filter(|finish| finish.to == As::Decoded) {
        finish.to = As::F32;
    }
    true
}

/// Makes signalling NaNs quiet if any patch copies elements bit by bit, because widening to float32 would do the
/// same.
pub(crate) fn quieten(finishes: &[Finish], elements: &mut [u8]) {
    if !finishes.iter().any(|finish| finish.to == As::F16 && finish.factors.is_none()) {
        return;
    }
    for piece in elements.chunks_mut(PIECE_BYTES) {
        let elements = piece.as_chunks_mut().0;
        // Signalling NaNs are rare. Without any, the loop below is skipped.
        if elements.iter().fold(false, |any, element| any | is_nan(*element)) {
            for element in elements {
                *element =
                    if is_nan(*element) { (u16::from_le_bytes(*element) | 0x0200).to_le_bytes() } else { *element };
            }
        }
    }
}

const fn is_nan(element: [u8; 2]) -> bool {
    u16::from_le_bytes(element) & 0x7FFF > 0x7C00
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn float16_is_converted_as_by_way_of_float32() {
        let mut found: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let expected: Vec<u8> = (0..=u16::MAX)
            .flat_map(|bits| f16::from_f32(f16::from_bits(bits).to_f32()).to_bits().to_le_bytes())
            .collect();
        let before = found.clone();
        quieten(&[As::F32.into()], &mut found);
        assert_eq!(found, before);
        quieten(&[As::F32.into(), As::F16.into()], &mut found);
        assert_eq!(found, expected);
    }
}
