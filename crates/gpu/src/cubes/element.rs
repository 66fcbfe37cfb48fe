//! Types in which values come out, and the host's way to them.

use super::wire::BF16;
use half::{bf16, f16};
use shardpack_format::{Dtype, Error, Result};

/// In which type values come out.
///
/// The shorter floats are made from the decoded value by way of float32: each of the two steps
/// rounds to the nearest, ties to even, and what is too large becomes infinite. A NaN keeps its
/// sign and the upper bits of its payload, and becomes quiet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum As {
    /// The type of the array itself.
    #[default]
    Decoded,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// IEEE binary32.
    F32,
}

/// An element type of an output: one that arrays have, or bfloat16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// One that arrays have.
    Dtype(Dtype),
    /// bfloat16.
    Bf16,
}

impl ElementType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Dtype(dtype) => dtype.bytes(),
            Self::Bf16 => 2,
        }
    }

    pub(super) fn code(self) -> u32 {
        match self {
            Self::Dtype(dtype) => dtype.code().into(),
            Self::Bf16 => BF16,
        }
    }
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dtype(dtype) => dtype.fmt(f),
            Self::Bf16 => f.write_str("bfloat16"),
        }
    }
}

impl As {
    /// The type of what comes out for an array of `decoded` elements.
    ///
    /// # Errors
    /// `Usage` if a boolean is to become a float.
    pub fn of(self, decoded: Dtype) -> Result<ElementType> {
        let to = match self {
            Self::Decoded => ElementType::Dtype(decoded),
            Self::F16 => ElementType::Dtype(Dtype::F16),
            Self::Bf16 => ElementType::Bf16,
            Self::F32 => ElementType::Dtype(Dtype::F32),
        };
        match decoded {
            Dtype::Bool if to != ElementType::Dtype(Dtype::Bool) => {
                Err(Error::usage("element type of the output", "bool, as the array has it", to))
            }
            _ => Ok(to),
        }
    }

    /// Makes elements of the output of decoded ones, on the host: what the device makes, to the
    /// bit. Both are little-endian.
    ///
    /// ```
    /// use shardpack_format::Dtype;
    /// use shardpack_gpu::cubes::As;
    /// let decoded: Vec<u8> = [1.0_f32, 1e6].into_iter().flat_map(f32::to_le_bytes).collect();
    /// let mut halves = Vec::new();
    /// As::F16.cast(Dtype::F32, &decoded, &mut halves)?;
    /// assert_eq!(halves, [0x00, 0x3C, 0x00, 0x7C], "1, and too large");
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`As::of`].
    pub fn cast(self, decoded: Dtype, elements: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let to = self.of(decoded)?;
        if to == ElementType::Dtype(decoded) {
            out.extend_from_slice(elements);
            return Ok(());
        }
        let width = usize::try_from(decoded.bytes()).unwrap_or(8);
        for element in elements.chunks_exact(width) {
            let mut bytes = [0; 8];
            if let Some(bytes) = bytes.get_mut(..width) {
                bytes.copy_from_slice(element);
            }
            let single = to_f32(decoded, u64::from_le_bytes(bytes));
            match to {
                ElementType::Dtype(Dtype::F16) => out.extend(f16::from_f32(single).to_le_bytes()),
                ElementType::Bf16 => out.extend(bf16::from_f32(single).to_le_bytes()),
                ElementType::Dtype(_) => out.extend(single.to_le_bytes()),
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "rounding is what is asked for")]
fn to_f32(dtype: Dtype, bits: u64) -> f32 {
    match dtype {
        Dtype::I8 => f32::from((bits as u8).cast_signed()),
        Dtype::I16 => f32::from((bits as u16).cast_signed()),
        Dtype::I32 => (bits as u32).cast_signed() as f32,
        Dtype::I64 => bits.cast_signed() as f32,
        Dtype::F16 => f16::from_bits(bits as u16).to_f32(),
        Dtype::F32 => f32::from_bits(bits as u32),
        Dtype::F64 => f64::from_bits(bits) as f32,
        // Unsigned ones fill no more bits than they have.
        _ => bits as f32,
    }
}
