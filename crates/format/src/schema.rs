//! The schema: the fields of a sample (spec §3.1), and a shard's metadata about its dataset (spec
//! §3.2).

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::json;
use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Kind of a field's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FieldKind {
    /// An encoded picture: codec `jpeg`, or `raw` with its media type as descriptor.
    Image,
    /// An array with an [`ArrayDescriptor`](crate::ArrayDescriptor): codec `raw`, `zstd` or
    /// `blosc2`.
    Array,
    /// UTF-8 text: codec `raw` or `zstd`.
    Text,
    /// A JSON document: codec `raw` or `zstd`.
    Json,
    /// Bytes: codec `raw` or `zstd`.
    Bytes,
    /// One number, stored in the record's head and in a column of the index, not in the payload.
    Scalar,
}

/// The name in the schema's JSON: `image`.
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

/// One field of the schema.
///
/// ```
/// use shardpack_format::{Dtype, Field, FieldKind};
/// assert_eq!(Field::scalar("label", Dtype::I64).dtype, Some(Dtype::I64));
/// assert_eq!(Field::stored("image", FieldKind::Image).dtype, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name, unique in the schema: 1 to 255 bytes of `A–Z a–z 0–9 _ - .`, not beginning with `.` or
    /// `-`.
    pub name: String,
    /// Kind of its content.
    #[serde(deserialize_with = "json::choice")]
    pub kind: FieldKind,
    /// Element type; for scalars only.
    #[serde(default, deserialize_with = "json::some_choice", skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
}

impl Field {
    /// A scalar field.
    #[must_use]
    pub fn scalar(name: impl Into<String>, dtype: Dtype) -> Self {
        Self { name: name.into(), kind: FieldKind::Scalar, dtype: Some(dtype) }
    }

    /// A field whose value is stored in the record's payload.
    #[must_use]
    pub fn stored(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), kind, dtype: None }
    }
}

/// The fields of a sample, in order.
///
/// ```
/// use shardpack_format::{Dtype, Field, FieldKind, Schema};
/// let schema = Schema::new(vec![Field::stored("image", FieldKind::Image), Field::scalar("label", Dtype::I64)])?;
/// assert_eq!(schema.scalar_bytes(), 8);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    #[serde(deserialize_with = "json::objects")]
    fields: Vec<Field>,
}

impl Schema {
    /// A schema of these fields.
    ///
    /// # Errors
    /// `Format` if a name is not allowed or occurs twice, if a dtype is missing for a scalar or
    /// given for another kind, or if there are more than 65,535 fields with a payload, the most in
    /// a record.
    pub fn new(fields: Vec<Field>) -> Result<Self> {
        let schema = Self { fields };
        schema.check(&Limits::none())?;
        Ok(schema)
    }

    /// Every field, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields with a payload, in the order of the records.
    pub fn stored(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.kind != FieldKind::Scalar)
    }

    /// The scalar fields, in the order of the index's columns.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, Dtype)> {
        self.fields.iter().filter_map(|f| f.dtype.map(|dtype| (f.name.as_str(), dtype)))
    }

    /// Number of fields with a payload.
    #[must_use]
    pub fn stored_count(&self) -> usize {
        self.stored().count()
    }

    /// Bytes of all scalars of one sample, packed.
    #[must_use]
    pub fn scalar_bytes(&self) -> u64 {
        self.scalars().map(|(_, dtype)| dtype.bytes()).sum()
    }

    /// Position among the stored fields.
    #[must_use]
    pub fn stored_position(&self, name: &str) -> Option<usize> {
        self.stored().position(|f| f.name == name)
    }

    /// Position among the scalar fields, and the type.
    #[must_use]
    pub fn scalar_position(&self, name: &str) -> Option<(usize, Dtype)> {
        self.scalars().enumerate().find(|(_, (n, _))| *n == name).map(|(i, (_, dtype))| (i, dtype))
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        if self.fields.len() as u64 > limits.max_fields {
            return Err(Error::limit("fields", "max_fields", limits.max_fields, self.fields.len() as u64));
        }
        if self.stored_count() > usize::from(u16::MAX) {
            return Err(Error::format("stored fields", "at most 65535", self.stored_count()));
        }
        let mut seen = HashSet::new();
        for field in &self.fields {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            let name = field.name.as_bytes();
            if name.len() > 255
                || !name.iter().copied().all(allowed)
                || matches!(name.first(), None | Some(b'.' | b'-'))
            {
                let expected = "1 to 255 of A-Z a-z 0-9 _ - ., not beginning with . or -";
                return Err(Error::format("field name", expected, format!("{:?}", field.name)));
            }
            if !seen.insert(field.name.as_str()) {
                return Err(Error::format("field names", "different names", format!("{:?} twice", field.name)));
            }
            if (field.kind == FieldKind::Scalar) != field.dtype.is_some() {
                let found = field.dtype.map_or("no dtype", Dtype::name);
                let expected =
                    if field.dtype.is_none() { "a dtype for a scalar" } else { "no dtype for a stored field" };
                return Err(Error::format(format!("field {:?}", field.name), expected, found));
            }
        }
        Ok(())
    }
}

/// Every option that made a dataset, as JSON; this crate does not interpret it.
pub type Recipe = Map<String, Value>;

/// Metadata about the dataset in every shard, so that a lone shard can be read.
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
    /// The fields.
    #[serde(deserialize_with = "json::object")]
    pub schema: Schema,
    /// Names of the classes: the scalar field `label` is an index into this list, from 0. Absent if
    /// there are no classes.
    #[serde(default, deserialize_with = "json::some", skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// Every option that made the dataset.
    pub recipe: Recipe,
    /// Number of shards of the dataset, if the writer knew it in advance.
    #[serde(default, deserialize_with = "json::some", skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
}

/// The metadata of a shard together with its JSON text. All shards with the same metadata share it
/// in memory: with many classes, metadata is larger than the rest of an index.
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
    /// Reads the JSON document, or shares `known` if it was read from exactly the same bytes with
    /// the same limits.
    ///
    /// # Errors
    /// As [`Metadata::parse`].
    pub fn parse(bytes: &[u8], known: Option<&Self>, limits: &Limits) -> Result<Self> {
        match known {
            Some(known) if *known.0.1 == *bytes => Ok(known.clone()),
            _ => Ok(Self(Arc::new((Metadata::parse(bytes, limits)?, bytes.into())))),
        }
    }

    /// The parsed metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.0.0
    }

    /// Returns whether both share the same memory, which proves them equal without a comparison.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Metadata {
    /// The JSON document.
    ///
    /// # Errors
    /// `Usage` if the recipe cannot be written as JSON; `Format` if the schema breaks its rules.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.schema.check(&Limits::none())?;
        json::to_vec(self)
    }

    /// The JSON document, if a reader with these limits would accept it: a writer checks this
    /// before it writes the first byte.
    ///
    /// # Errors
    /// As [`Metadata::encode`]; `Limit` on too many bytes, nodes or fields; `Format` if the recipe
    /// nests too deeply.
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
        // Use the reader's own code, so that no rule of the reader is missing here.
        Self::parse(&bytes, limits)?;
        Ok(bytes)
    }

    /// Reads the JSON document.
    ///
    /// # Errors
    /// `Format` if it is not strict JSON or breaks the schema's rules; `Limit` on too many bytes,
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
