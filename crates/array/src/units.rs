//! Splits a payload into units without decoding them, for decoders outside this crate, such as the GPU kernels.

use crate::bytes::{check_size, in_memory};
use crate::codecs::{Coded, Units, container};
use crate::values::{check_bands, special_bits};
use shardpack_format::{ArrayDescriptor, Codec, Limits, Result};

impl<'a> Units<'a> {
    /// Parses `payload`, with all checks that [`ArrayDecoder::decode_into`](crate::ArrayDecoder::decode_into) performs
    /// before it decodes anything.
    ///
    /// ```
    /// use shardpack_array::Units;
    /// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
    /// let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![1, 1, 3]);
    /// let units = Units::walk(Codec::Raw, &descriptor, &[1, 0, 2, 0, 3, 0], &Limits::default())?;
    /// assert_eq!(units, Units::Raw(&[1, 0, 2, 0, 3, 0]));
    /// assert!(Units::walk(Codec::Raw, &descriptor, &[1, 0, 2], &Limits::default()).is_err());
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Format` if the payload does not consist of valid units, if its length does not match the array, or if its codec
    /// does not support arrays; `Limit` if the array exceeds `limits.max_decoded_bytes`, if it exceeds both 1 MiB and
    /// `limits.max_expansion` times its payload, or if its runs exceed `limits.max_run_bytes`.
    pub fn walk(codec: Codec, descriptor: &ArrayDescriptor, payload: &'a [u8], limits: &Limits) -> Result<Self> {
        let stored = descriptor.stored_bytes()?;
        check_size(descriptor.decoded_bytes()?.max(stored), limits)?;
        let width = descriptor.stored.size();
        let stored_bytes = in_memory(stored)?;
        check_bands(descriptor, usize::try_from(descriptor.bands()).unwrap_or(1).max(1))?;
        container(codec)?.units(Coded { payload, width, stored_bytes }, limits)
    }
}

/// Returns the reserved bit patterns (spec §4.2) of stored elements for NaN, no-data, +∞ and −∞. Each pattern is paired
/// with the bits of its value in the decoded type.
///
/// ```
/// use shardpack_array::reserved_values;
/// use shardpack_format::{ArrayDescriptor, Codes, Dtype, Transform};
/// let counts = ArrayDescriptor::plain(Dtype::U16, vec![4]);
/// assert_eq!(reserved_values(&counts), [None; 4]);
/// let codes = Codes { nan: Some(0xFFFF), ..Codes::default() };
/// let floats = ArrayDescriptor { decoded: Dtype::F32, transform: Transform::Integer, codes, ..counts };
/// assert_eq!(reserved_values(&floats)[0], Some((0xFFFF, 0x7FC0_0000)));
/// ```
#[must_use]
pub fn reserved_values(descriptor: &ArrayDescriptor) -> [Option<(u32, u64)>; 4] {
    let codes = descriptor.codes;
    let no_data = descriptor.no_data.unwrap_or(f64::NAN);
    [
        (codes.nan, f64::NAN),
        (codes.no_data, no_data),
        (codes.pos_inf, f64::INFINITY),
        (codes.neg_inf, f64::NEG_INFINITY),
    ]
    .map(|(code, value)| code.map(|code| (code, special_bits(value, descriptor.decoded))))
}
