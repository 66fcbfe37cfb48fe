//! Samples, and the values that a program passes for their fields.

use shardpack_array::Array;
use shardpack_format::Dtype;
use shardpack_sources::words::plural;

/// One value of a sample.
///
/// ```
/// use shardpack_pack::collect::{Number, SampleValue};
/// assert_eq!(SampleValue::from("a caption").found(), "text");
/// assert_eq!(SampleValue::Number { value: Number::Int(3), dtype: None }.found(), "the number 3");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SampleValue {
    /// A complete file for a picture field (JPEG, PNG, WebP, BMP, TIFF). For other fields, plain
    /// bytes.
    Bytes(Vec<u8>),
    /// An array. A picture field interprets it as pixels: uint8 `[height, width]`, `[height, width, 1]` or
    /// `[height, width, 3]` (RGB).
    Array(Array),
    /// Pixels of a picture, as an array. Without a schema, this variant makes the field a picture field.
    Pixels(Array),
    /// Complete JPEG files in order: the frames of a clip, or several views of one object.
    Frames(Vec<Vec<u8>>),
    /// A number or a truth value.
    Number {
        /// Value of the number.
        value: Number,
        /// Type of the number. Default: int64 for an integer, float64 for a float.
        dtype: Option<Dtype>,
    },
    /// UTF-8 text.
    Text(String),
    /// A JSON document.
    Json(String),
}

/// A number of any type that a scalar field can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(f64),
}

impl From<&str> for SampleValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SampleValue {
    fn from(value: i64) -> Self {
        Self::Number { value: Number::Int(value.into()), dtype: None }
    }
}

impl SampleValue {
    /// Describes the value in a few words for an error message.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            Self::Bytes(bytes) => plural(bytes.len() as u64, "byte"),
            Self::Array(array) => format!("an array of {} with shape {:?}", array.dtype(), array.shape()),
            Self::Pixels(array) => format!("pixels of {} with shape {:?}", array.dtype(), array.shape()),
            Self::Frames(frames) => format!("a list of {}", plural(frames.len() as u64, "file")),
            Self::Number { value, .. } => value.found(),
            Self::Text(_) => "text".into(),
            Self::Json(_) => "a JSON document".into(),
        }
    }

    /// Returns the size of the value as the program passed it, in bytes.
    pub(super) fn source_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Array(array) | Self::Pixels(array) => array.bytes().len() as u64,
            Self::Frames(frames) => frames.iter().map(|frame| frame.len() as u64).sum(),
            Self::Number { dtype, .. } => dtype.map_or(8, Dtype::bytes),
            Self::Text(text) | Self::Json(text) => text.len() as u64,
        }
    }
}

impl Number {
    pub(super) fn found(self) -> String {
        match self {
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Int(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value:?}"),
        }
    }

    /// Appends the number as a `dtype`, or returns false if the type cannot represent it. Floats are rounded to
    /// the type's precision, but never to infinity.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "floats are rounded intentionally")]
    pub(super) fn append(self, dtype: Dtype, out: &mut Vec<u8>) -> bool {
        macro_rules! integer {
            ($type:ty) => {
                match self {
                    Self::Bool(value) => out.extend(<$type>::from(value).to_le_bytes()),
                    Self::Int(value) => match <$type>::try_from(value) {
                        Ok(value) => out.extend(value.to_le_bytes()),
                        Err(_) => return false,
                    },
                    Self::Float(_) => return false,
                }
            };
        }
        let float = match self {
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        };
        let fits = |rounded: f64| rounded.is_infinite() == float.is_infinite();
        match dtype {
            Dtype::Bool => match self {
                Self::Bool(value) => out.push(u8::from(value)),
                Self::Int(value @ 0..=1) => out.push(u8::from(value == 1)),
                _ => return false,
            },
            Dtype::U8 => integer!(u8),
            Dtype::I8 => integer!(i8),
            Dtype::U16 => integer!(u16),
            Dtype::I16 => integer!(i16),
            Dtype::U32 => integer!(u32),
            Dtype::I32 => integer!(i32),
            Dtype::U64 => integer!(u64),
            Dtype::I64 => integer!(i64),
            Dtype::F16 if fits(half::f16::from_f64(float).to_f64()) => {
                out.extend(half::f16::from_f64(float).to_le_bytes());
            }
            Dtype::F32 if fits(f64::from(float as f32)) => out.extend((float as f32).to_le_bytes()),
            Dtype::F64 => out.extend(float.to_le_bytes()),
            _ => return false,
        }
        true
    }
}

/// One sample from a program.
///
/// ```
/// use shardpack_pack::collect::{Sample, SampleValue};
/// let sample = Sample::new().with_key("a/1").with("caption", "hello").with("label", 3);
/// assert_eq!(sample.values.len(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Key of the sample. Default: the sample's number with leading zeros.
    pub key: Option<String>,
    /// Position of the sample. If the order matters and several threads add samples, set it for all samples.
    /// Default: the order in which samples are added.
    pub order: Option<u64>,
    /// Values by field name, or `None` for a field without a value.
    pub values: Vec<(String, Option<SampleValue>)>,
}

impl Sample {
    /// Creates a sample without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl Into<SampleValue>) -> Self {
        self.values.push((field.into(), Some(value.into())));
        self
    }

    /// Adds a field without a value.
    #[must_use]
    pub fn without(mut self, field: impl Into<String>) -> Self {
        self.values.push((field.into(), None));
        self
    }
}
