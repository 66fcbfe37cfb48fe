//! Defines the element types of stored arrays and scalars (spec §4.1).

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $size:literal, $text:literal;)*) => {
        /// Element type. Elements are stored little-endian. A `bool` is one byte, 0 or 1.
        ///
        /// ```
        /// use shardpack_format::Dtype;
        /// assert_eq!(Dtype::F16.bytes(), 2);
        /// assert_eq!(Dtype::F16.to_string(), "float16");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Dtype {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Dtype {
            /// All types, in the order of their codes.
            pub const ALL: &'static [Dtype] = &[$(Dtype::$name),*];

            /// Returns the number that represents this type in files.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $(Dtype::$name => $code,)* }
            }

            /// Returns the type with this code.
            ///
            /// # Errors
            /// `Format` if no type has this code.
            pub fn from_code(code: u8) -> Result<Self> {
                match code {
                    $($code => Ok(Dtype::$name),)*
                    other => Err(Error::format("dtype code", "1 to 12", other)),
                }
            }

            /// Returns the size of one element in bytes.
            #[must_use]
            pub const fn bytes(self) -> u64 {
                match self { $(Dtype::$name => $size,)* }
            }

            /// Same as [`Dtype::bytes`], as `usize`.
            #[must_use]
            pub const fn size(self) -> usize {
                match self { $(Dtype::$name => $size,)* }
            }

            /// Returns the type's name in NumPy.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Dtype::$name => $text,)* }
            }
        }
    };
}

dtypes! {
    /// One byte, 0 or 1.
    Bool = 1, 1, "bool";
    /// Unsigned, 8 bits.
    U8 = 2, 1, "uint8";
    /// Signed, 8 bits.
    I8 = 3, 1, "int8";
    /// Unsigned, 16 bits.
    U16 = 4, 2, "uint16";
    /// Signed, 16 bits.
    I16 = 5, 2, "int16";
    /// Unsigned, 32 bits.
    U32 = 6, 4, "uint32";
    /// Signed, 32 bits.
    I32 = 7, 4, "int32";
    /// Unsigned, 64 bits.
    U64 = 8, 8, "uint64";
    /// Signed, 64 bits.
    I64 = 9, 8, "int64";
    /// IEEE binary16.
    F16 = 10, 2, "float16";
    /// IEEE binary32.
    F32 = 11, 4, "float32";
    /// IEEE binary64.
    F64 = 12, 8, "float64";
}

impl Dtype {
    /// True for the three floating-point types.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Returns the size in bytes of a dense array of this type, or 0 if an axis has length 0.
    ///
    /// # Errors
    /// `Format` if the product of element size and axes overflows 64 bits. Axes of length 0 are left out of the
    /// product. Otherwise an empty array could have an absurdly long axis, and the result would depend on the order of
    /// the axes.
    pub fn array_bytes(self, shape: &[u64]) -> Result<u64> {
        let bytes = shape
            .iter()
            .filter(|&&axis| axis != 0)
            .try_fold(self.bytes(), |acc, &axis| acc.checked_mul(axis))
            .ok_or_else(|| {
                Error::malformed(format!("an array of shape {shape:?} is too large: it would exceed 2^64 bytes"))
            })?;
        Ok(if shape.contains(&0) { 0 } else { bytes })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
