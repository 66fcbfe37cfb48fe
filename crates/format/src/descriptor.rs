//! Parses and encodes the array descriptor, which describes how to decode an array (spec §4.2).

use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::error::{Error, Result, bug};
use crate::limits::Limits;

/// Maximum number of axes of an array.
pub const MAX_RANK: u8 = 8;

/// How stored elements are converted to values (spec §4.3).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// No conversion. The stored elements are the values, so `stored == decoded`.
    None,
    /// Stored as float16. Converts exactly to `decoded` (float32 or float16).
    F16,
    /// Stored as an integer type. The writer has verified that every element converts exactly.
    Integer,
    /// Stored as unsigned integers `q` of `bits` bits, with value = `offset[band] + q × scale[band]`. The product and
    /// the sum are each rounded to float32. `band` is the index along the last axis.
    Fixed {
        /// Number of bits in use, from 8 to 16. No code exceeds `2^bits − 1`.
        bits: u8,
        /// Scale factors, one per band.
        scale: Vec<f32>,
        /// Offsets, one per band.
        offset: Vec<f32>,
    },
}

impl Transform {
    /// Returns the number that represents this transform in files.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::F16 => 1,
            Self::Integer => 2,
            Self::Fixed { .. } => 3,
        }
    }
}

/// Bit patterns of stored elements that represent values outside the stored type.
///
/// After band differences are undone, a pattern is compared with the stored element (at most 4 bytes, zero-extended to
/// 32 bits). In fixed point, a pattern is a code below 2^`bits`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Codes {
    /// The pattern that decodes to the positive quiet NaN with zero payload (0x7FC00000, 0x7FF8000000000000).
    pub nan: Option<u32>,
    /// The pattern that decodes to `no_data`.
    pub no_data: Option<u32>,
    /// The pattern that decodes to +∞.
    pub pos_inf: Option<u32>,
    /// The pattern that decodes to −∞.
    pub neg_inf: Option<u32>,
}

impl Codes {
    /// True if no pattern is reserved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    const fn all(&self) -> [Option<u32>; 4] {
        [self.nan, self.no_data, self.pos_inf, self.neg_inf]
    }
}

/// Axis order of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Layout {
    /// The axes in the order of the shape (C-contiguous): `[height, width, channels]`.
    #[default]
    AsShape,
    /// The last axis first: `[channels, height, width]`.
    BandMajor,
}

/// Describes how to decode the stored bytes of an array.
///
/// ```
/// use shardpack_format::{ArrayDescriptor, Dtype, Limits};
/// let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![4, 5, 6]);
/// let bytes = descriptor.encode()?;
/// assert_eq!(ArrayDescriptor::parse(&bytes, &Limits::default())?, descriptor);
/// assert_eq!(descriptor.stored_bytes()?, 240);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayDescriptor {
    /// Element type that a reader returns.
    pub decoded: Dtype,
    /// Element type in the payload after decompression.
    pub stored: Dtype,
    /// How stored elements are converted to values.
    pub transform: Transform,
    /// True if each stored element (one or two bytes wide) is the zigzag-coded wrapping difference from the previous
    /// band (spec §4.4).
    pub band_difference: bool,
    /// Axis order of the payload.
    pub layout: Layout,
    /// Shape, outermost axis first: `[height, width, channels]` for a cube.
    pub shape: Vec<u64>,
    /// The value that marks missing measurements, in decoded units.
    pub no_data: Option<f64>,
    /// Bit patterns reserved for special values.
    pub codes: Codes,
}

impl ArrayDescriptor {
    /// Creates a descriptor for elements stored unchanged.
    #[must_use]
    pub fn plain(dtype: Dtype, shape: Vec<u64>) -> Self {
        Self {
            decoded: dtype,
            stored: dtype,
            transform: Transform::None,
            band_difference: false,
            layout: Layout::AsShape,
            shape,
            no_data: None,
            codes: Codes::default(),
        }
    }

    /// Returns the length of the last axis, or 1 for a scalar.
    #[must_use]
    pub fn bands(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// `Format` if the product overflows.
    pub fn elements(&self) -> Result<u64> {
        Dtype::U8.array_bytes(&self.shape)
    }

    /// Returns the payload size after decompression, in bytes.
    ///
    /// # Errors
    /// `Format` if the product overflows.
    pub fn stored_bytes(&self) -> Result<u64> {
        self.stored.array_bytes(&self.shape)
    }

    /// Returns the size of the decoded array, in bytes.
    ///
    /// # Errors
    /// `Format` if the product overflows.
    pub fn decoded_bytes(&self) -> Result<u64> {
        self.decoded.array_bytes(&self.shape)
    }

    /// True if the decoded values equal the originals bit for bit.
    #[must_use]
    pub const fn is_lossless(&self) -> bool {
        match self.transform {
            Transform::None | Transform::Integer => true,
            Transform::F16 => matches!(self.decoded, Dtype::F16),
            Transform::Fixed { .. } => false,
        }
    }

    /// Encodes the descriptor.
    ///
    /// # Errors
    /// `Usage` if the parts contradict each other (see [`ArrayDescriptor::parse`]).
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check().map_err(Error::usage)?;
        let rank =
            u8::try_from(self.shape.len()).unwrap_or_else(|_| bug("an array has more axes than a descriptor allows"));
        let mut out = Vec::with_capacity(40 + 8 * self.shape.len());
        let bits = match &self.transform {
            Transform::Fixed { bits, .. } => *bits,
            _ => 0,
        };
        let mut flags = u8::from(self.no_data.is_some());
        for (i, code) in self.codes.all().iter().enumerate() {
            flags |= u8::from(code.is_some()) << (i + 1);
        }
        out.extend([
            self.decoded.code(),
            self.stored.code(),
            self.transform.code(),
            u8::from(self.band_difference),
            u8::from(self.layout == Layout::BandMajor),
            rank,
            flags,
            bits,
        ]);
        out.extend(self.no_data.unwrap_or(0.0).to_le_bytes());
        for code in self.codes.all() {
            out.extend(code.unwrap_or(0).to_le_bytes());
        }
        for axis in &self.shape {
            out.extend(axis.to_le_bytes());
        }
        if let Transform::Fixed { scale, offset, .. } = &self.transform {
            out.extend(scale.iter().chain(offset).flat_map(|v| v.to_le_bytes()));
        }
        Ok(out)
    }

    /// Parses a descriptor that takes up all of `bytes`.
    ///
    /// # Errors
    /// `Format` if a code is unknown, a reserved bit is set, the parts contradict each other or the shape overflows;
    /// `Limit` if an axis or the decoded size is over the limits.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let mut cur = Cursor::new(bytes, "array descriptor");
        let decoded = Dtype::from_code(cur.u8()?)?;
        let stored = Dtype::from_code(cur.u8()?)?;
        let transform_code = cur.u8()?;
        let band_difference = flag("band difference", cur.u8()?)?;
        let layout = if flag("layout", cur.u8()?)? { Layout::BandMajor } else { Layout::AsShape };
        let rank = cur.u8()?;
        let flags = cur.u8()?;
        let bits = cur.u8()?;
        if rank > MAX_RANK {
            return Err(Error::format("array rank", format!("at most {MAX_RANK}"), rank));
        }
        if flags & 0xE0 != 0 {
            return Err(Error::malformed(format!("the array descriptor has unknown flags: {flags:#04x}")));
        }
        let no_data = optional("no-data value", cur.f64()?, flags & 1 != 0, |v| v.to_bits() == 0)?;
        let mut codes = [None; 4];
        for (i, code) in codes.iter_mut().enumerate() {
            *code = optional("reserved code", cur.u32()?, flags >> (i + 1) & 1 != 0, |&v| v == 0)?;
        }
        let [nan, no_data_code, pos_inf, neg_inf] = codes;
        let mut shape = Vec::with_capacity(usize::from(rank));
        for _ in 0..rank {
            let axis = cur.u64()?;
            if axis > limits.max_axis {
                return Err(Error::limit("array axis", "max_axis", limits.max_axis, axis));
            }
            shape.push(axis);
        }
        let transform = match transform_code {
            0 => Transform::None,
            1 => Transform::F16,
            2 => Transform::Integer,
            3 => {
                let bands = shape.last().copied().unwrap_or(1);
                let table_bytes = bands.checked_mul(4).ok_or_else(|| {
                    Error::malformed(format!(
                        "the array descriptor is damaged: a table for {bands} bands would exceed 2^64 bytes"
                    ))
                })?;
                let table = |raw: &[u8]| raw.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
                let scale: Vec<f32> = table(cur.take(table_bytes)?);
                let offset: Vec<f32> = table(cur.take(table_bytes)?);
                Transform::Fixed { bits, scale, offset }
            }
            other => return Err(Error::format("array transform", "0 to 3", other)),
        };
        if transform_code != 3 && bits != 0 {
            return Err(Error::malformed(format!(
                "the array descriptor is damaged: `bits` is {bits}, but must be 0 without the fixed-point transform"
            )));
        }
        cur.finish()?;
        let codes = Codes { nan, no_data: no_data_code, pos_inf, neg_inf };
        let out = Self { decoded, stored, transform, band_difference, layout, shape, no_data, codes };
        out.check().map_err(|error| Error::malformed(format!("the array descriptor is damaged: {error}")))?;
        let decoded_bytes = out.decoded_bytes()?.max(out.stored_bytes()?);
        if decoded_bytes > limits.max_decoded_bytes {
            return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, decoded_bytes));
        }
        Ok(out)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let integer = |d: Dtype| !d.is_float() && d != Dtype::Bool;
        let types_fit = match &self.transform {
            Transform::None => self.stored == self.decoded,
            Transform::F16 => self.stored == Dtype::F16 && matches!(self.decoded, Dtype::F16 | Dtype::F32),
            Transform::Integer => integer(self.stored) && self.stored != self.decoded && self.decoded != Dtype::Bool,
            Transform::Fixed { .. } => matches!(self.stored, Dtype::U8 | Dtype::U16) && self.decoded == Dtype::F32,
        };
        if !types_fit {
            return Err(format!("the transform cannot store {} values as {}", self.decoded, self.stored));
        }
        if self.shape.len() > usize::from(MAX_RANK) {
            return Err(format!("the array has {} axes, but at most {MAX_RANK} are supported", self.shape.len()));
        }
        if self.band_difference && (self.stored.bytes() > 2 || self.stored == Dtype::Bool || self.shape.is_empty()) {
            return Err(format!(
                "a band difference needs a stored type of 1 or 2 bytes other than bool, and at least one axis, but \
                 the array stores {} in the shape {:?}",
                self.stored, self.shape
            ));
        }
        if self.layout == Layout::BandMajor && self.shape.len() < 2 {
            return Err(format!("the band-major layout needs at least 2 axes, but the array has {}", self.shape.len()));
        }
        if !self.codes.is_empty() && (matches!(self.transform, Transform::None) || !self.decoded.is_float()) {
            return Err(
                "reserved codes (for NaN, no-data and ±infinity) need a transform that decodes to floating point"
                    .into(),
            );
        }
        if self.codes.no_data.is_some() && self.no_data.is_none() {
            return Err("the array reserves a code for no-data, but does not say which value means no-data".into());
        }
        if !self.codes.is_empty() && self.stored.bytes() > 4 {
            return Err(format!(
                "reserved codes cannot be used with the stored type {}, which is wider than 4 bytes",
                self.stored
            ));
        }
        let bits = match self.transform {
            Transform::Fixed { bits, .. } => u64::from(bits.min(16)),
            _ => 8 * self.stored.bytes(),
        };
        let max = u32::MAX >> 32_u64.saturating_sub(bits).min(31);
        let codes = self.codes.all();
        for (i, code) in codes.iter().enumerate() {
            let Some(code) = code else { continue };
            if *code > max {
                return Err(format!("the reserved code {code:#x} does not fit in {bits} bits"));
            }
            if codes.iter().take(i).flatten().any(|c| c == code) {
                return Err(format!("the reserved code {code:#x} is used twice"));
            }
        }
        if let Transform::Fixed { bits, scale, offset } = &self.transform {
            let fits = if self.stored == Dtype::U8 { *bits == 8 } else { (9..=16).contains(bits) };
            if !fits {
                let stored = self.stored;
                return Err(format!(
                    "{bits}-bit fixed-point values cannot be stored as {stored}: uint8 holds 8 bits, uint16 9 to 16"
                ));
            }
            let bands = usize::try_from(self.bands()).ok();
            if Some(scale.len()) != bands || Some(offset.len()) != bands || self.shape.is_empty() {
                return Err(format!(
                    "the band table must have one scale and one offset per band, but has {} scales and {} offsets for \
                     an array of shape {:?}",
                    scale.len(),
                    offset.len(),
                    self.shape
                ));
            }
            if scale.iter().any(|s| !s.is_finite() || *s < 0.0) || offset.iter().any(|o| !o.is_finite()) {
                return Err("the band table has a negative scale, or a value that is not finite".into());
            }
        }
        Ok(())
    }
}

fn flag(what: &'static str, byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::format(what, "0 or 1", other)),
    }
}

fn optional<T>(what: &'static str, value: T, present: bool, is_zero: impl Fn(&T) -> bool) -> Result<Option<T>> {
    match present {
        true => Ok(Some(value)),
        false if is_zero(&value) => Ok(None),
        false => Err(Error::malformed(format!(
            "the array descriptor is damaged: the {what} is not zero, although its flag is not set"
        ))),
    }
}
