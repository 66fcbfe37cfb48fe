//! Defines the schema (the fields of a sample, spec §3.1), and the metadata about the dataset in
//! each shard (spec §3.2).

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::header::SEGMENT_INDEXES;
use crate::json;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The kind of a field. Determines which codecs and descriptors are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FieldKind {
    /// An encoded picture. Codec `jpeg`, or `raw` with a media type as the descriptor.
    Image,
    /// An array with an [`ArrayDescriptor`](crate::ArrayDescriptor). Codec `raw`, `zstd` or `blosc2`.
    Array,
    /// UTF-8 text. Codec `raw` or `zstd`.
    Text,
    /// A JSON document. Codec `raw` or `zstd`.
    Json,
    /// Bytes. Codec `raw` or `zstd`.
    Bytes,
    /// A number, stored in the record's head and in an index column instead of the payload.
    Scalar,
}

/// Formats the kind as in JSON, such as `image`.
impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Array => "array",
            Self::Text => "text",
            Self::Json => "json",
            Self::Bytes => "bytes",
            Self::Scalar => "scalar",
        })
    }
}

/// A field of the schema.
///
/// ```
/// use shardpack_format::{Dtype, Field, FieldKind};
/// assert_eq!(Field::scalar("label", Dtype::I64).dtype, Some(Dtype::I64));
/// assert_eq!(Field::stored("image", FieldKind::Image).dtype, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name, unique in the schema: 1 to 255 bytes of `A–Z a–z 0–9 _ - .`, not starting with `.` or `-`.
    pub name: String,
    /// Kind of the field.
    #[serde(deserialize_with = "json::choice")]
    pub kind: FieldKind,
    /// Element type, for scalars only.
    #[serde(default, deserialize_with = "json::some_choice", skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
}

impl Field {
    /// Creates a scalar field.
    #[must_use]
    pub fn scalar(name: impl Into<String>, dtype: Dtype) -> Self {
        Self { name: name.into(), kind: FieldKind::Scalar, dtype: Some(dtype) }
    }

    /// Creates a field whose value is stored in the payload.
    #[must_use]
    pub fn stored(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), kind, dtype: None }
    }

    /// Creates the field for the segment indexes of the picture field `picture` (spec §5.5).
    ///
    /// ```
    /// use shardpack_format::{Field, FieldKind};
    /// assert_eq!(Field::segments("image"), Field::stored("image.segments", FieldKind::Bytes));
    /// ```
    #[must_use]
    pub fn segments(picture: &str) -> Self {
        Self::stored(format!("{picture}{SEGMENTS}"), FieldKind::Bytes)
    }

    /// Returns the name of the picture field whose segment indexes are in the field `name`, or `None` if `name` does
    /// not name a field with segment indexes.
    ///
    /// ```
    /// use shardpack_format::Field;
    /// assert_eq!(Field::picture_of_segments("image.segments"), Some("image"));
    /// assert_eq!(Field::picture_of_segments("image"), None);
    /// ```
    #[must_use]
    pub fn picture_of_segments(name: &str) -> Option<&str> {
        name.strip_suffix(SEGMENTS)
    }
}

const SEGMENTS: &str = ".segments";

/// The fields of a sample, in order.
///
/// ```
/// use shardpack_format::{Dtype, Field, FieldKind, Schema};
/// let schema = Schema::new(vec![Field::stored("image", FieldKind::Image), Field::scalar("label", Dtype::I64)])?;
/// assert_eq!(schema.scalar_bytes(), 8);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    #[serde(deserialize_with = "json::objects")]
    fields: Vec<Field>,
    /// True if the shards lack the feature bit of segment indexes. A field named like segment indexes then has no
    /// special meaning. The feature bit is in the headers of shards, so this flag is neither encoded with the schema
    /// nor compared.
    #[serde(skip)]
    lacks_segment_indexes: bool,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Schema {}

impl Schema {
    /// Creates a schema with these fields.
    ///
    /// # Errors
    /// `Format` if a name is not allowed or occurs twice, if a scalar lacks a dtype or another kind has one, or if more
    /// than 65,535 fields have a payload.
    pub fn new(fields: Vec<Field>) -> Result<Self> {
        let schema = Self { fields, lacks_segment_indexes: false };
        schema.check(&Limits::none())?;
        Ok(schema)
    }

    /// Returns the schema for shards with these optional-feature bits (spec §7). Without the bit for segment indexes, a
    /// field with the name of a segment index belongs to the user. [`Schema::new`] assumes that all bits that the
    /// schema needs are set.
    ///
    /// ```
    /// use shardpack_format::{Field, FieldKind, Schema};
    /// let schema = Schema::new(vec![Field::stored("image", FieldKind::Image), Field::segments("image")])?;
    /// assert_eq!(schema.with_features(0).user_fields().count(), 2);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    #[must_use]
    pub fn with_features(self, optional_features: u64) -> Self {
        Self { lacks_segment_indexes: optional_features & SEGMENT_INDEXES == 0, ..self }
    }

    /// Returns the schema with further fields.
    ///
    /// # Errors
    /// Same as [`Schema::new`].
    ///
    /// ```
    /// use shardpack_format::{Dtype, Field, Schema};
    /// let schema = Schema::default().with_fields([Field::scalar("score", Dtype::F32)])?;
    /// assert_eq!(schema.scalar_bytes(), 4);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    pub fn with_fields(&self, more: impl IntoIterator<Item = Field>) -> Result<Self> {
        let mut schema = self.clone();
        schema.fields.extend(more);
        schema.check(&Limits::none())?;
        Ok(schema)
    }

    /// Returns all fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Iterates over the fields with a payload, in record order.
    pub fn stored(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.kind != FieldKind::Scalar)
    }

    /// Iterates over the scalar fields, in the order of the index columns.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, Dtype)> {
        self.fields.iter().filter_map(|f| f.dtype.map(|dtype| (f.name.as_str(), dtype)))
    }

    /// Iterates over the scalar fields, and the byte range of each in a sample's packed scalars.
    ///
    /// ```
    /// use shardpack_format::{Dtype, Field, Schema};
    /// let schema = Schema::new(vec![Field::scalar("label", Dtype::I64), Field::scalar("score", Dtype::F32)])?;
    /// assert!(schema.scalar_ranges().eq([("label", Dtype::I64, 0..8), ("score", Dtype::F32, 8..12)]));
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    pub fn scalar_ranges(&self) -> impl Iterator<Item = (&str, Dtype, Range<usize>)> {
        self.scalars().scan(0, |next, (name, dtype)| {
            let start = *next;
            *next += dtype.size();
            Some((name, dtype, start..*next))
        })
    }

    /// Returns the number of fields with a payload.
    #[must_use]
    pub fn stored_count(&self) -> usize {
        self.stored().count()
    }

    /// Returns the packed size of a sample's scalars in bytes.
    #[must_use]
    pub fn scalar_bytes(&self) -> u64 {
        self.scalars().map(|(_, dtype)| dtype.bytes()).sum()
    }

    /// Returns the position of a field among the stored fields.
    #[must_use]
    pub fn stored_position(&self, name: &str) -> Option<usize> {
        self.stored().position(|f| f.name == name)
    }

    /// Iterates over the fields that are visible to users: all except segment indexes (spec §5.5).
    ///
    /// ```
    /// use shardpack_format::{Field, FieldKind, Schema};
    /// let schema = Schema::new(vec![Field::stored("image", FieldKind::Image), Field::segments("image")])?;
    /// assert!(schema.user_fields().all(|field| field.name == "image"));
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    pub fn user_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !self.is_segment_index(field))
    }

    /// True if a field contains the segment indexes of a picture field.
    #[must_use]
    pub fn is_segment_index(&self, field: &Field) -> bool {
        let may_be = field.kind == FieldKind::Bytes && !self.lacks_segment_indexes;
        let picture = Field::picture_of_segments(&field.name).filter(|_| may_be);
        let is = |other: &Field| other.kind == FieldKind::Image && picture == Some(other.name.as_str());
        picture.is_some() && self.fields.iter().any(is)
    }

    /// Returns the position of the segment indexes that belong to the picture field at position `picture`. Both
    /// positions count only stored fields.
    #[must_use]
    pub fn segments_position(&self, picture: usize) -> Option<usize> {
        let of = self.stored().nth(picture).filter(|field| field.kind == FieldKind::Image)?;
        if self.lacks_segment_indexes {
            return None;
        }
        self.stored().position(|field| {
            field.kind == FieldKind::Bytes && Field::picture_of_segments(&field.name) == Some(of.name.as_str())
        })
    }

    /// Returns the optional-feature bits of shards with this schema (spec §7).
    #[must_use]
    pub fn optional_features(&self) -> u64 {
        let has_segments = self.fields.iter().any(|field| self.is_segment_index(field));
        if has_segments { SEGMENT_INDEXES } else { 0 }
    }

    /// Returns the position of a field among the scalars, and its type.
    #[must_use]
    pub fn scalar_position(&self, name: &str) -> Option<(usize, Dtype)> {
        self.scalars().enumerate().find(|(_, (n, _))| *n == name).map(|(i, (_, dtype))| (i, dtype))
    }

    /// Returns the byte range of a scalar field in a sample's packed scalars, and its type.
    #[must_use]
    pub fn scalar_range(&self, name: &str) -> Option<(Range<usize>, Dtype)> {
        self.scalar_ranges().find(|(known, ..)| *known == name).map(|(_, dtype, range)| (range, dtype))
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        if self.fields.len() as u64 > limits.max_fields {
            return Err(Error::limit("number of fields", "max_fields", limits.max_fields, self.fields.len() as u64));
        }
        if self.stored_count() > usize::from(u16::MAX) {
            return Err(Error::format("number of stored fields", "at most 65535", self.stored_count()));
        }
        let mut seen = HashSet::new();
        for field in &self.fields {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            let name = field.name.as_bytes();
            if name.len() > 255
                || !name.iter().copied().all(allowed)
                || matches!(name.first(), None | Some(b'.' | b'-'))
            {
                return Err(Error::malformed(format!(
                    "the field name {:?} is invalid: it must have 1 to 255 characters of A-Z a-z 0-9 _ - ., and not \
                     begin with . or -",
                    field.name
                )));
            }
            if !seen.insert(field.name.as_str()) {
                return Err(Error::malformed(format!("the field name {:?} occurs twice", field.name)));
            }
            if (field.kind == FieldKind::Scalar) != field.dtype.is_some() {
                let name = &field.name;
                return Err(Error::malformed(match field.dtype {
                    None => format!("field {name:?} is a scalar, so it needs a `dtype`"),
                    Some(_) => format!("field {name:?} is not a scalar, so it must not have a `dtype`"),
                }));
            }
        }
        Ok(())
    }
}

/// All options that a dataset was made with, as JSON. This crate does not interpret them.
pub type Recipe = Map<String, Value>;

/// Metadata about the dataset. Every shard repeats it, so that a shard can be read on its own.
///
/// ```
/// use shardpack_format::{Limits, Metadata};
/// let metadata = Metadata::default();
/// assert_eq!(Metadata::parse(&metadata.encode()?, &Limits::default())?, metadata);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The fields of a sample.
    #[serde(deserialize_with = "json::object")]
    pub schema: Schema,
    /// Class names, if any. The scalar field `label` is a zero-based index into this list.
    #[serde(default, deserialize_with = "json::some", skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// All options that the dataset was made with.
    pub recipe: Recipe,
    /// Number of shards in the dataset, if the writer knew it in advance.
    #[serde(default, deserialize_with = "json::some", skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
}

/// The metadata of a shard, with its JSON text. Shards with equal metadata share it in memory, because metadata with
/// many classes is larger than the rest of the index.
///
/// ```
/// use shardpack_format::{Limits, Metadata, SharedMetadata};
/// let text = Metadata::default().encode()?;
/// let first = SharedMetadata::parse(&text, None, &Limits::default())?;
/// let second = SharedMetadata::parse(&text, Some(&first), &Limits::default())?;
/// assert!(first.is_same(&second) && *second.metadata() == Metadata::default());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SharedMetadata(Arc<(Metadata, Box<[u8]>)>);

impl SharedMetadata {
    /// Parses the JSON document, or shares `known` if its bytes are equal. `known` must have been parsed
    /// under the same limits.
    ///
    /// # Errors
    /// Same as [`Metadata::parse`].
    pub fn parse(bytes: &[u8], known: Option<&Self>, limits: &Limits) -> Result<Self> {
        match known {
            Some(known) if *known.0.1 == *bytes => Ok(known.clone()),
            _ => Ok(Self(Arc::new((Metadata::parse(bytes, limits)?, bytes.into())))),
        }
    }

    /// Returns the parsed metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.0.0
    }

    /// True if both share the same memory and are therefore equal.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Metadata {
    /// Encodes the JSON document.
    ///
    /// # Errors
    /// `Usage` if the recipe cannot be written as JSON; `Format` if the schema violates its rules.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.schema.check(&Limits::none())?;
        json::to_vec(self)
    }

    /// Encodes the JSON document and checks that a reader with these limits accepts it. A writer calls this to fail
    /// before it writes the first byte.
    ///
    /// # Errors
    /// Same as [`Metadata::encode`]; also `Limit` if there are too many bytes, nodes or fields, and `Format` if the
    /// recipe is nested too deeply.
    ///
    /// ```
    /// use shardpack_format::{Dtype, Error, Field, Limits, Metadata, Schema};
    /// let fields = (0..1025).map(|i| Field::scalar(format!("x{i}"), Dtype::U8)).collect();
    /// let metadata = Metadata { schema: Schema::new(fields)?, ..Default::default() };
    /// assert!(matches!(metadata.encode_within(&Limits::default()), Err(Error::Limit { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn encode_within(&self, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = self.encode()?;
        // Parsing applies all of a reader's checks.
        Self::parse(&bytes, limits)?;
        Ok(bytes)
    }

    /// Parses the JSON document.
    ///
    /// # Errors
    /// `Format` if it is not strict JSON or violates the schema's rules; `Limit` if there are too many bytes,
    /// nodes or fields.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        if bytes.len() as u64 > limits.max_manifest_bytes {
            let limit = limits.max_manifest_bytes;
            return Err(Error::limit("shard metadata", "max_manifest_bytes", limit, bytes.len() as u64));
        }
        let metadata: Self = json::from_slice("shard metadata", bytes, limits)?;
        metadata.schema.check(limits)?;
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_indexes_belong_to_the_picture_of_their_name() {
        let fields = vec![
            Field::scalar("label", Dtype::I64),
            Field::stored("image", FieldKind::Image),
            Field::segments("image"),
            Field::stored("mask", FieldKind::Array),
            // None of these fields is a segment index: no picture is named `mask`, `b.segments` is text, and no field
            // is named `bb`.
            Field::segments("mask"),
            Field::stored("b", FieldKind::Image),
            Field::stored("b.segments", FieldKind::Text),
            Field::stored("bb.segments", FieldKind::Bytes),
        ];
        let schema = Schema::new(fields.clone()).unwrap();
        let hidden: Vec<_> = schema.fields().iter().filter(|field| schema.is_segment_index(field)).collect();
        assert_eq!(hidden, [&Field::segments("image")]);
        assert_eq!(schema.user_fields().count(), 7);
        let places: Vec<_> = (0..8).map(|position| schema.segments_position(position)).collect();
        assert_eq!(places, [Some(1), None, None, None, None, None, None, None]);
        assert_eq!(schema.optional_features(), SEGMENT_INDEXES);
        let of_user = schema.clone().with_features(0);
        assert_eq!((of_user.user_fields().count(), of_user.optional_features()), (8, 0));
        assert_eq!((of_user.segments_position(0), &of_user), (None, &schema));
        assert_eq!(of_user.with_features(SEGMENT_INDEXES).user_fields().count(), 7);
        let without = fields.into_iter().filter(|field| field.name != "image.segments").collect();
        assert_eq!(Schema::new(without).unwrap().optional_features(), 0);
    }
}
