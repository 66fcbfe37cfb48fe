//! Recipe entries that other versions may have written in a different form.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A recipe entry: either a value that this version understands, or JSON that is kept unchanged.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<T> {
    /// A value that this version understands.
    Typed(T),
    /// JSON that a later version or another program wrote.
    Foreign(Value),
}

impl<T> Entry<T> {
    /// Returns the value, or `None` if this version does not understand the entry.
    #[must_use]
    pub const fn typed(&self) -> Option<&T> {
        match self {
            Self::Typed(value) => Some(value),
            Self::Foreign(_) => None,
        }
    }
}

impl<T> From<T> for Entry<T> {
    fn from(value: T) -> Self {
        Self::Typed(value)
    }
}

impl<T: Serialize> Serialize for Entry<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Typed(value) => value.serialize(serializer),
            Self::Foreign(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Entry<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(serde_json::from_value(value.clone()).map_or(Self::Foreign(value), Self::Typed))
    }
}
