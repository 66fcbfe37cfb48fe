//! The kind of a field's values, declared by the program or inferred from the first sample.

use super::error::{CollectError, Result};
use super::value::{Number, SampleValue};
use crate::encode::RawPicture;
use shardpack_format::{Dtype, FieldKind};
use shardpack_sources::pictures::probe_picture;
use std::fmt;
use std::str::FromStr;

/// Without a schema, bytes in a field with this name are treated as pictures.
const IMAGE: &str = "image";

/// The kind of a field's values.
///
/// ```
/// use shardpack_pack::collect::Kind;
/// use shardpack_format::Dtype;
/// assert_eq!("int64".parse(), Ok(Kind::Scalar(Dtype::I64)));
/// assert_eq!("array:float32".parse(), Ok(Kind::Array(Some(Dtype::F32))));
/// assert!("picture".parse::<Kind>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A picture, given as a complete file or as pixels.
    Image,
    /// Several JPEG files in order, such as the frames of a clip or views of one object.
    Frames,
    /// An array of this element type, or of the first array's type if `None`. All arrays of a field have the
    /// same type and number of axes.
    Array(Option<Dtype>),
    /// UTF-8 text.
    Text,
    /// A JSON document.
    Json,
    /// Uninterpreted bytes.
    Bytes,
    /// A number of this element type.
    Scalar(Dtype),
}

impl Kind {
    /// The kinds that are not an element type, with their names.
    const NAMED: [(&'static str, Self); 6] = [
        ("image", Self::Image),
        ("frames", Self::Frames),
        ("array", Self::Array(None)),
        ("text", Self::Text),
        ("json", Self::Json),
        ("bytes", Self::Bytes),
    ];

    pub(super) const fn stored(self) -> Option<FieldKind> {
        Some(match self {
            Self::Image | Self::Frames => FieldKind::Image,
            Self::Array(_) => FieldKind::Array,
            Self::Text => FieldKind::Text,
            Self::Json => FieldKind::Json,
            Self::Bytes => FieldKind::Bytes,
            Self::Scalar(_) => return None,
        })
    }

    pub(super) const fn is_picture(self) -> bool {
        matches!(self, Self::Image | Self::Frames)
    }

    pub(super) fn of(key: &str, field: &str, value: Option<&SampleValue>) -> Result<Self> {
        Ok(match value {
            None => {
                let text = "the first sample has no value for this field, so the kind of the field is unknown";
                return Err(CollectError::misfit(key, field, text, "pass a schema"));
            }
            Some(SampleValue::Bytes(bytes)) => match probe_picture(bytes) {
                Ok(None) => Self::Bytes,
                // Treat a damaged picture as a picture. Its damage is reported when it is stored.
                Ok(Some(_)) | Err(_) => Self::Image,
            },
            Some(SampleValue::Array(array)) if field == IMAGE && RawPicture::of(array).is_some() => Self::Image,
            Some(SampleValue::Array(array)) => Self::Array(Some(array.dtype())),
            Some(SampleValue::Pixels(_)) => Self::Image,
            Some(SampleValue::Frames(_)) => Self::Frames,
            Some(SampleValue::Number { dtype: Some(dtype), .. }) => Self::Scalar(*dtype),
            Some(SampleValue::Number { value: Number::Bool(_), .. }) => Self::Scalar(Dtype::Bool),
            Some(SampleValue::Number { value: Number::Int(_), .. }) => Self::Scalar(Dtype::I64),
            Some(SampleValue::Number { value: Number::Float(_), .. }) => Self::Scalar(Dtype::F64),
            Some(SampleValue::Text(_)) => Self::Text,
            Some(SampleValue::Json(_)) => Self::Json,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(dtype) => dtype.fmt(f),
            Self::Array(Some(dtype)) => write!(f, "{}:{dtype}", Self::Array(None)),
            _ => f.write_str(Self::NAMED.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name)),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    /// Parses `image`, `frames`, `array`, `array:float32`, `text`, `json`, `bytes`, or the element type of a
    /// scalar: `bool`, `int64`, `float32`, ….
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let dtype = |name: &str| Dtype::ALL.iter().copied().find(|dtype| dtype.name() == name);
        let named = Self::NAMED.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
        let typed = || match text.strip_prefix("array:") {
            Some(name) => dtype(name).map(|dtype| Self::Array(Some(dtype))),
            None => dtype(text).map(Self::Scalar),
        };
        named.or_else(typed).ok_or_else(|| {
            let names = Self::NAMED.map(|(name, _)| name).join(", ");
            let dtypes: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("expected {names} or a numeric type ({}), found `{}`", dtypes.join(", "), text.escape_debug())
        })
    }
}
