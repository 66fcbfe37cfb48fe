//! Replaces no-data elements with another value.

use super::singles::RUN;
use crate::element::{Element, Float, Integer, for_integer};
use half::{bf16, f16};
use shardpack_format::{Dtype, ElementType};

/// Replaces no-data elements with a float32 value. The replacement is rounded to the output type like all other values,
/// but it is not normalised by [`Factors`](super::Factors).
///
/// A decoded element is no-data if it equals `no_data`, rounded to the array's type as the encoder does. The sign of a
/// zero is ignored. If `no_data` is NaN, every NaN is no-data. If an integer type cannot represent `no_data`, none of
/// its elements is no-data. Lossy transforms preserve no-data exactly, and no other value becomes no-data.
///
/// ```
/// use shardpack_array::{As, Fill, Finish};
/// use shardpack_format::{Dtype, Layout};
/// let finish = Finish { to: As::F32, fill: Some(Fill { no_data: 255.0, with: -1.0 }), ..Finish::NOTHING };
/// let mut out = vec![0; 8];
/// finish.apply(Dtype::U8, [1, 2, 1], Layout::AsShape, &[7, 255], &mut out)?;
/// assert_eq!(out, [7.0_f32, -1.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// The value that marks missing measurements in the array.
    pub no_data: f64,
    /// The replacement, in the units of the output.
    pub with: f32,
}

/// Bit patterns that represent no-data in an element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDataBits {
    /// A single little-endian value, in the lowest bytes of this number.
    Of(u64),
    /// Both zeros of a float type, +0 and −0.
    Zeros,
    /// Every NaN of a float type.
    Nans,
}

impl Fill {
    /// Returns the bit patterns that mean no-data in decoded elements of the given type, or `None` if there are none.
    ///
    /// ```
    /// use shardpack_array::{Fill, NoDataBits};
    /// use shardpack_format::Dtype;
    /// let fill = Fill { no_data: -1.0, with: 0.0 };
    /// assert_eq!(fill.bits(Dtype::I16), Some(NoDataBits::Of(0xFFFF)));
    /// assert_eq!(fill.bits(Dtype::U16), None, "it does not hold -1");
    /// ```
    #[must_use]
    pub fn bits(&self, decoded: Dtype) -> Option<NoDataBits> {
        let of = |bytes: &[u8]| {
            let mut all = [0; 8];
            all.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            NoDataBits::Of(u64::from_le_bytes(all))
        };
        let float = |value: f64, bytes: &[u8]| match value {
            value if value.is_nan() => NoDataBits::Nans,
            0.0 => NoDataBits::Zeros,
            _ => of(bytes),
        };
        let no_data = self.no_data;
        Some(match decoded {
            Dtype::F16 => float(f16::from_f64(no_data).to_f64(), &f16::from_f64(no_data).to_le_bytes()),
            Dtype::F32 => {
                let value = <f32 as Float>::from_f64(no_data);
                float(value.into(), &value.to_le_bytes())
            }
            Dtype::F64 => float(no_data, &no_data.to_le_bytes()),
            integer => of(&integer_bytes(integer, no_data)?),
        })
    }

    /// Replaces each value in `out` whose element is no-data. There are at most [`RUN`] elements.
    pub(super) fn put(self, decoded: Dtype, elements: &[u8], out: &mut [f32]) {
        let Self { no_data, with } = self;
        for_integer!(
            decoded,
            T => integers::<T>(elements, out, self),
            Dtype::F32 => floats(elements, out, with, <f32 as Float>::from_f64(no_data)),
            Dtype::F64 => floats(elements, out, with, no_data),
            Dtype::F16 => floats(elements, out, with, f16::from_f64(no_data)),
            // Booleans are never converted to floats.
            _ => {}
        );
    }
}

/// Converts a number to a little-endian element of an integer type. Returns `None` if `dtype` is not an integer type or
/// cannot represent the number.
///
/// ```
/// use shardpack_array::integer_bytes;
/// use shardpack_format::Dtype;
/// assert_eq!(integer_bytes(Dtype::I16, -2.0), Some(vec![0xFE, 0xFF]));
/// assert_eq!(integer_bytes(Dtype::U8, 0.5), None);
/// ```
#[must_use]
pub fn integer_bytes(dtype: Dtype, value: f64) -> Option<Vec<u8>> {
    for_integer!(dtype, T => Some(T::from_no_data(value)?.to_le_bytes().to_vec()), _ => None)
}

/// Converts a number to a little-endian element of the given type. Returns `None` if the type cannot represent it.
/// Floats are rounded, but never to infinity.
///
/// ```
/// use shardpack_array::element_bytes;
/// use shardpack_format::{Dtype, ElementType};
/// assert_eq!(element_bytes(ElementType::Bf16, -2.0), Some(vec![0x00, 0xC0]));
/// assert_eq!(element_bytes(Dtype::Bool.into(), 1.0), Some(vec![1]));
/// assert_eq!(element_bytes(Dtype::F16.into(), 1e6), None);
/// ```
#[must_use]
pub fn element_bytes(element: ElementType, value: f64) -> Option<Vec<u8>> {
    macro_rules! float {
        ($float:expr) => {{
            let float = $float;
            (float.is_finite() == value.is_finite()).then(|| float.to_le_bytes().to_vec())?
        }};
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
    let single = value as f32;
    Some(match element {
        ElementType::Bf16 => float!(bf16::from_f64(value)),
        ElementType::Dtype(dtype) => match dtype {
            Dtype::F16 => float!(f16::from_f64(value)),
            Dtype::F32 => float!(single),
            Dtype::F64 => float!(value),
            Dtype::Bool => [0.0, 1.0].contains(&value).then(|| vec![u8::from(value == 1.0)])?,
            integer => return integer_bytes(integer, value),
        },
    })
}

#[expect(clippy::eq_op, reason = "a NaN does not equal itself")]
fn floats<T: Element + Default>(elements: &[u8], out: &mut [f32], with: f32, no_data: T) {
    if no_data == no_data {
        replace(elements, out, with, |value: T| value == no_data);
    } else {
        replace(elements, out, with, |value: T| value != value);
    }
}

fn integers<T: Integer>(elements: &[u8], out: &mut [f32], Fill { no_data, with }: Fill) {
    if let Some(no_data) = T::from_no_data(no_data) {
        replace(elements, out, with, |value: T| value == no_data);
    }
}

fn replace<T: Element + Default>(elements: &[u8], out: &mut [f32], with: f32, is_no_data: impl Fn(T) -> bool) {
    let mut values = [T::default(); RUN];
    T::load(elements, &mut values);
    for (value, out) in values.iter().zip(out) {
        *out = if is_no_data(*value) { with } else { *out };
    }
}
