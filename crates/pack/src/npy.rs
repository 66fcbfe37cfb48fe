//! Writes arrays as `.npy` files, in version 1.0 of NumPy's format.

use shardpack_array::Array;
use shardpack_format::Dtype;

/// Returns the bytes of the file that precede the elements. Their number is a multiple of 64.
///
/// ```
/// use shardpack_array::Array;
/// use shardpack_format::Dtype;
/// let header = shardpack_pack::npy::header(&Array::new(Dtype::U8, vec![2], vec![1, 2])?);
/// assert!(header.starts_with(b"\x93NUMPY\x01\x00") && header.len() % 64 == 0);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[must_use]
pub fn header(array: &Array) -> Vec<u8> {
    let descr = match array.dtype() {
        Dtype::Bool => "|b1",
        Dtype::U8 => "|u1",
        Dtype::I8 => "|i1",
        Dtype::U16 => "<u2",
        Dtype::I16 => "<i2",
        Dtype::U32 => "<u4",
        Dtype::I32 => "<i4",
        Dtype::U64 => "<u8",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        // Only float64 is left, because version 1 of our format has a fixed list of types.
        _ => "<f8",
    };
    let axes: Vec<String> = array.shape().iter().map(u64::to_string).collect();
    let comma = if axes.len() == 1 { "," } else { "" };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", axes.join(", "));
    let padded = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    // Even a header with eight axes of twenty digits is far below the limit of a two-byte length.
    debug_assert!(u16::try_from(padded).is_ok(), "a header of {padded} bytes");
    out.extend(u16::try_from(padded).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(dict.bytes());
    out.resize(10 + padded - 1, b' ');
    out.push(b'\n');
    out
}
