//! Defines the element types of arrays in memory: the types in files (spec §4.1), and bfloat16,
//! which files cannot contain.

use crate::dtype::Dtype;
use crate::error::Result;
use std::fmt;

/// Element type of decoded output.
///
/// ```
/// use shardpack_format::{Dtype, ElementType};
/// assert_eq!(ElementType::named("bfloat16"), Some(ElementType::Bf16));
/// assert_eq!(ElementType::named("float16"), Some(Dtype::F16.into()));
/// assert_eq!(ElementType::Bf16.array_bytes(&[2, 3])?, 12);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementType {
    /// A type that can be stored in files.
    Dtype(Dtype),
    /// bfloat16: the upper half of a float32.
    Bf16,
}

impl ElementType {
    /// Iterates over all types, bfloat16 last.
    pub fn all() -> impl Iterator<Item = Self> {
        Dtype::ALL.iter().copied().map(Self::Dtype).chain([Self::Bf16])
    }

    /// Returns the type with this name, or `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|element| element.name() == name)
    }

    /// Returns the type's name in NumPy and PyTorch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dtype(dtype) => dtype.name(),
            Self::Bf16 => "bfloat16",
        }
    }

    /// Returns the size of one element in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Dtype(dtype) => dtype.bytes(),
            Self::Bf16 => 2,
        }
    }

    /// Same as [`ElementType::bytes`], as `usize`.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Dtype(dtype) => dtype.size(),
            Self::Bf16 => 2,
        }
    }

    /// Returns the size in bytes of a dense array of this type, or 0 if an axis has length 0.
    ///
    /// # Errors
    /// Same as [`Dtype::array_bytes`].
    pub fn array_bytes(self, shape: &[u64]) -> Result<u64> {
        match self {
            Self::Dtype(dtype) => dtype.array_bytes(shape),
            Self::Bf16 => Dtype::F16.array_bytes(shape),
        }
    }
}

impl From<Dtype> for ElementType {
    fn from(dtype: Dtype) -> Self {
        Self::Dtype(dtype)
    }
}

impl PartialEq<Dtype> for ElementType {
    fn eq(&self, other: &Dtype) -> bool {
        *self == Self::Dtype(*other)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
