//! Stores columns with one value per sample, without an allocation per value.

use serde::{Deserialize, Serialize};
use shardpack_format::bug;

/// A column of short strings, stored in a single buffer.
///
/// ```
/// use shardpack_sources::columns::Texts;
/// let texts: Texts = ["a", "", "bc"].into_iter().collect();
/// assert_eq!(texts.get(2), Some("bc"));
/// assert_eq!(texts.iter().collect::<Vec<_>>(), ["a", "", "bc"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts {
    buffer: String,
    ends: Vec<u64>,
}

impl Texts {
    /// Creates an empty column.
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: String::new(), ends: Vec::new() }
    }

    /// Appends a string.
    pub fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len() as u64);
    }

    /// Returns the string at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = usize::try_from(*self.ends.get(index)?).ok()?;
        let start = match index.checked_sub(1) {
            Some(before) => usize::try_from(*self.ends.get(before)?).ok()?,
            None => 0,
        };
        self.buffer.get(start..end)
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the column is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Iterates over all strings.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        (0..self.len()).filter_map(|index| {
            let text = self.get(index);
            debug_assert!(text.is_some(), "text {index} of {}", self.len());
            text
        })
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut out = Self::default();
        texts.into_iter().for_each(|text| out.push(text));
        out
    }
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ColumnValues {
    /// `true` and `false`.
    Bool(Vec<bool>),
    /// Integers.
    Int(Vec<i64>),
    /// Numbers that are not all integers.
    Float(#[serde(with = "bits")] Vec<f64>),
    /// Values of any other type, as strings.
    Text(Texts),
    /// Lists and objects, as the JSON text in the table.
    Json(Texts),
}

impl ColumnValues {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(texts) | Self::Json(texts) => texts.len(),
        }
    }

    /// Returns true if there are exactly `samples` values, and the offsets of the strings are valid.
    pub(crate) fn are_of(&self, samples: usize) -> bool {
        let is_whole = match self {
            Self::Text(texts) | Self::Json(texts) => (0..samples).all(|sample| texts.get(sample).is_some()),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) => true,
        };
        self.len() == samples && is_whole
    }

    /// Returns true if the column is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of the values' type for messages.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "true or false",
            Self::Int(_) => "integers",
            Self::Float(_) => "numbers",
            Self::Text(_) => "text",
            Self::Json(_) => "lists or objects",
        }
    }

    /// Returns the values of the rows in `order`.
    ///
    /// Panics if a row does not exist, because all later samples would otherwise get wrong values.
    #[must_use]
    pub fn permuted(&self, order: &[u32]) -> Self {
        fn pick<T, C: FromIterator<T>>(order: &[u32], get: impl Fn(usize) -> Option<T>) -> C {
            let value = |&row: &u32| get(row as usize).unwrap_or_else(|| bug("a column has a value for each row"));
            order.iter().map(value).collect()
        }
        match self {
            Self::Bool(values) => Self::Bool(pick(order, |row| values.get(row).copied())),
            Self::Int(values) => Self::Int(pick(order, |row| values.get(row).copied())),
            Self::Float(values) => Self::Float(pick(order, |row| values.get(row).copied())),
            Self::Text(texts) => Self::Text(pick(order, |row| texts.get(row))),
            Self::Json(texts) => Self::Json(pick(order, |row| texts.get(row))),
        }
    }
}

/// A named column with one value per sample, in sample order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableColumn {
    /// Name of the column and of its field in the dataset.
    pub name: String,
    /// Values of the column.
    pub values: ColumnValues,
}

/// Stores floats as their bits, because JSON has no NaN.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[f64], out: S) -> Result<S::Ok, S::Error> {
        values.iter().map(|value| value.to_bits()).collect::<Vec<_>>().serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<u64>::deserialize(input)?.into_iter().map(f64::from_bits).collect())
    }
}
