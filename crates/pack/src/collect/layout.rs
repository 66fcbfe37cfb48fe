//! The layout of a record: the fields of the program, and the columns that the packer adds.

use super::error::{CollectError, Result};
use super::kind::Kind;
use super::options::CollectOptions;
use super::trials::ArrayField;
use super::value::{Sample, Value};
use crate::export::ICC_FIELD;
use crate::pack::{fidelity, picture_totals};
use shardpack_format::{Dtype, Field, Schema};
use shardpack_recipe::PictureOptions;
use std::collections::BTreeMap;
use std::ops::Range;

/// Columns of the only picture field: its stored size, and what a reader has to know about it.
pub(super) const PICTURE_COLUMNS: [(&str, Dtype); 4] =
    [("height", Dtype::U32), ("width", Dtype::U32), ("orientation", Dtype::U8), ("gpu_jpeg", Dtype::Bool)];
/// Columns of the shape of the first array field.
pub(super) const SHAPE_COLUMNS: [&str; 3] = ["height", "width", "channels"];

/// One field of the program.
#[derive(Debug)]
pub(super) struct FieldLayout {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// For arrays: what is known about them so far.
    pub(super) array: Option<ArrayField>,
    /// Whether there are columns with its figures.
    pub(super) figures: bool,
}

/// Everything that the schema and the first sample decide.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) fields: Vec<FieldLayout>,
    /// The schema of records in the spool, with a field for profiles if there may be any.
    pub(super) schema: Schema,
    /// How pictures are stored.
    pub(super) pictures: PictureOptions,
    /// The order of the schema's fields, if it is not that in which samples are laid out.
    pub(super) order: Option<Order>,
    /// Whether the profile of a picture is taken out of it.
    pub(super) takes_icc: bool,
    /// Whether it has a field.
    pub(super) has_icc: bool,
    /// The picture field that the columns of pictures describe, if there is just one.
    pub(super) described_picture: Option<usize>,
    /// The array field that the columns of shapes describe, and its number of axes.
    pub(super) described_array: Option<(usize, usize)>,
}

/// For each stored field of a schema, and for each scalar one, where a sample that was laid out has it.
#[derive(Debug)]
pub(super) struct Order {
    stored: Vec<usize>,
    scalars: Vec<Range<usize>>,
}

/// What a layout is made of.
pub(super) struct Parts {
    pub(super) kinds: Vec<(String, Kind)>,
    pub(super) how: PictureOptions,
    pub(super) takes_icc: bool,
    pub(super) has_icc: bool,
    pub(super) described_picture: Option<usize>,
    pub(super) described_array: Option<(usize, usize)>,
    /// Whether there are columns with figures, by field.
    pub(super) figures: Vec<bool>,
}

impl Layout {
    /// Decides the layout from the program's schema and the first sample.
    pub(super) fn new(
        schema: Option<&[(String, Kind)]>,
        first: &Sample,
        key: &str,
        options: &CollectOptions,
    ) -> Result<Self> {
        let value = |name: &str| first.values.iter().find(|(field, _)| field == name).and_then(|(_, v)| v.as_ref());
        let kinds: Vec<(String, Kind)> = match schema {
            Some(schema) => schema.to_vec(),
            None => {
                let kind = |(name, v): &(String, Option<Value>)| {
                    // A class may be given by name instead of by number.
                    let is_class = name == "label" && options.classes.is_some() && matches!(v, Some(Value::Text(_)));
                    let kind = if is_class { Kind::Scalar(Dtype::I64) } else { Kind::of(key, name, v.as_ref())? };
                    Ok((name.clone(), kind))
                };
                first.values.iter().map(kind).collect::<Result<_>>()?
            }
        };
        if kinds.is_empty() {
            return Err(CollectError::usage("schema", "at least one field", "none", ""));
        }
        let pictures: Vec<usize> = positions(&kinds, |kind| kind.is_picture());
        let described_picture = if let [only] = pictures.as_slice() { Some(*only) } else { None };
        let mut how = options.pictures.clone();
        // The columns can hold orientation and profile of one picture per sample. If there are
        // several pictures, each keeps its metadata.
        if pictures.len() > 1 {
            how.keep_metadata();
        }
        let icc = described_picture.is_some() && how.takes_profiles_out();
        let taken = |name: &str| kinds.iter().any(|(field, _)| field == name);
        let shaped = positions(&kinds, |kind| matches!(kind, Kind::Array(_))).into_iter().find_map(|position| {
            let (name, _) = kinds.get(position)?;
            match value(name) {
                Some(Value::Array(array)) if (2..=3).contains(&array.shape().len()) => {
                    Some((position, array.shape().len()))
                }
                _ => None,
            }
        });
        // Without these columns a loader knows shapes only from records, and takes that of the
        // first for all.
        let described_array =
            shaped.filter(|(_, axes)| pictures.is_empty() && !SHAPE_COLUMNS.iter().take(*axes).any(|name| taken(name)));
        let figures = kinds.iter().map(|(name, kind)| match kind {
            Kind::Image | Kind::Frames => !how.keeps_files(),
            // Integers never lose anything.
            Kind::Array(Some(dtype)) => dtype.is_float(),
            Kind::Array(None) => !matches!(value(name), Some(Value::Array(array)) if !array.dtype().is_float()),
            _ => false,
        });
        let figures = figures.collect();
        Self::of(Parts { kinds, how, takes_icc: icc, has_icc: icc, described_picture, described_array, figures })
    }

    /// The layout of these parts.
    pub(super) fn of(parts: Parts) -> Result<Self> {
        let Parts { kinds, how, takes_icc, has_icc, described_picture, described_array, figures } = parts;
        let mut all: Vec<Field> = kinds.iter().map(|(name, kind)| field(name, *kind)).collect();
        if has_icc {
            all.push(Field::stored(ICC_FIELD, shardpack_format::FieldKind::Bytes));
        }
        if described_picture.is_some() {
            all.extend(PICTURE_COLUMNS.map(|(name, dtype)| Field::scalar(name, dtype)));
        }
        if let Some((_, axes)) = described_array {
            all.extend(SHAPE_COLUMNS.iter().take(axes).map(|name| Field::scalar(*name, Dtype::U32)));
        }
        let mut fields = Vec::new();
        for ((name, kind), figures) in kinds.into_iter().zip(figures) {
            let array = matches!(kind, Kind::Array(_)).then(ArrayField::default);
            if kind == Kind::Frames {
                all.push(Field::scalar(format!("{name}.frames"), Dtype::U32));
            }
            match kind {
                Kind::Image | Kind::Frames if figures => {
                    all.extend(picture_totals::fields(&name, how.reencodes()));
                }
                _ if figures => all.extend(fidelity::fields(&name)),
                _ => {}
            }
            fields.push(FieldLayout { name, kind, array, figures });
        }
        let schema = Schema::new(all).map_err(|error| {
            let hint = "beside a picture, the names icc, height, width, orientation and gpu_jpeg are taken, and names of figures such as `image.score`";
            let (expected, found) = match error {
                shardpack_format::Error::Format { expected, found, .. } => (expected, found),
                other => ("names that are allowed".into(), other.to_string()),
            };
            CollectError::usage("field name", expected, found, hint)
        })?;
        let (pictures, order) = (how, None);
        Ok(Self { fields, schema, order, pictures, takes_icc, has_icc, described_picture, described_array })
    }

    /// Takes the order of the fields of `schema`, which has the same ones.
    pub(super) fn follow(&mut self, schema: &Schema) -> Result<()> {
        if self.schema == *schema {
            return Ok(());
        }
        let missing = || shardpack_format::Error::internal("field of a layout", "one of the schema", "another");
        let stored = schema.stored().map(|field| self.schema.stored_position(&field.name).ok_or_else(missing));
        let stored = stored.collect::<Result<_, _>>()?;
        let mut places = BTreeMap::new();
        let mut end = 0;
        for (name, dtype) in self.schema.scalars() {
            places.insert(name, end..end + dtype.size());
            end += dtype.size();
        }
        let scalars = schema.scalars().map(|(name, _)| places.get(name).cloned().ok_or_else(missing));
        let scalars = scalars.collect::<Result<_, _>>()?;
        self.order = Some(Order { stored, scalars });
        self.schema = schema.clone();
        Ok(())
    }
}

impl Order {
    /// The values and the scalars of a sample in this order.
    pub(super) fn arrange<T>(&self, stored: Vec<T>, scalars: &[u8]) -> Result<(Vec<T>, Vec<u8>)> {
        let missing = || shardpack_format::Error::internal("value of a sample", "one for each field", "none");
        let mut stored: Vec<Option<T>> = stored.into_iter().map(Some).collect();
        let take = |from: &usize| stored.get_mut(*from).and_then(Option::take).ok_or_else(missing);
        let arranged = self.stored.iter().map(take).collect::<Result<_, _>>()?;
        let mut bytes = Vec::with_capacity(scalars.len());
        for place in &self.scalars {
            bytes.extend(scalars.get(place.clone()).ok_or_else(missing)?);
        }
        Ok((arranged, bytes))
    }
}

fn positions(kinds: &[(String, Kind)], is: impl Fn(&Kind) -> bool) -> Vec<usize> {
    kinds.iter().enumerate().filter(|(_, (_, kind))| is(kind)).map(|(position, _)| position).collect()
}

fn field(name: &str, kind: Kind) -> Field {
    match (kind, kind.stored()) {
        (Kind::Scalar(dtype), _) => Field::scalar(name, dtype),
        (_, Some(stored)) => Field::stored(name, stored),
        // Only scalars are not stored.
        (_, None) => Field::scalar(name, Dtype::U8),
    }
}
