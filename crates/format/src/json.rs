//! Strict JSON: one reading of every document (spec §3).
//!
//! No duplicate keys, bounded depth, nothing after the document; and of serde's several readings of a type only the plain one: a structure
//! is an object (serde would take an array too), a choice is a string (serde would take `{"name": null}` too), an optional key is absent
//! (serde would take `null` too).

use crate::error::{Error, Result};
use crate::limits::Limits;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses `bytes` into `T`.
pub(crate) fn from_slice<T: DeserializeOwned>(what: &'static str, bytes: &[u8], max_depth: u64) -> Result<T> {
    let value = parse(what, bytes, max_depth)?;
    object(value).map_err(|e: serde_json::Error| fail(what, e))
}

/// Checks that `bytes` are one strict JSON text, as a field of kind `json` holds it.
///
/// # Errors
/// `Format` if they are not, or if they nest deeper than [`Limits::max_json_depth`].
///
/// ```
/// use shardpack_format::{Limits, check_json};
/// assert!(check_json(br#"{"a": [1, 2]}"#, &Limits::default()).is_ok());
/// assert!(check_json(br#"{"a": 1, "a": 2}"#, &Limits::default()).is_err());
/// ```
pub fn check_json(bytes: &[u8], limits: &Limits) -> Result<()> {
    parse("JSON", bytes, limits.max_json_depth).map(drop)
}

fn parse(what: &'static str, bytes: &[u8], max_depth: u64) -> Result<Value> {
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: max_depth }.deserialize(&mut de).map_err(|e| fail(what, e))?;
    de.end().map_err(|e| fail(what, e))?;
    Ok(value)
}

fn fail(what: &'static str, e: serde_json::Error) -> Error {
    Error::format(what, "strict JSON as the specification describes", e)
}

/// A structure from an object, and from nothing else.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(de: D) -> std::result::Result<T, D::Error> {
    T::deserialize(Value::Object(Map::deserialize(de)?)).map_err(D::Error::custom)
}

/// Structures from an array of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(de: D) -> std::result::Result<Vec<T>, D::Error> {
    let maps = Vec::<Map<String, Value>>::deserialize(de)?;
    maps.into_iter().map(|map| T::deserialize(Value::Object(map)).map_err(D::Error::custom)).collect()
}

/// A choice from a string, and from nothing else.
pub(crate) fn choice<'de, D: Deserializer<'de>, T: DeserializeOwned>(de: D) -> std::result::Result<T, D::Error> {
    T::deserialize(Value::String(String::deserialize(de)?)).map_err(D::Error::custom)
}

/// As [`choice`], for a key that may be absent, but not `null`.
pub(crate) fn some_choice<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    de: D,
) -> std::result::Result<Option<T>, D::Error> {
    choice(de).map(Some)
}

/// A value whose key may be absent, but not `null`.
pub(crate) fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(de: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(de).map(Some)
}

/// The canonical bytes of `value`: two-space indentation and a final line feed, keys in the order of the specification.
pub(crate) fn to_vec<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut out = serde_json::to_vec_pretty(value).map_err(|e| Error::usage("JSON value", "a serialisable one", e))?;
    out.push(b'\n');
    Ok(out)
}

/// Reads exactly `2 × N` lower-case hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(s: &str) -> Result<[u8; N]> {
    let fail = || Error::format("hexadecimal number", format!("{} lower-case digits", 2 * N), format!("{s:?}"));
    let digit = |b: u8| match b {
        b'0'..=b'9' => Ok(b - b'0'),
        b'a'..=b'f' => Ok(b - b'a' + 10),
        _ => Err(fail()),
    };
    let (pairs, rest) = s.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return Err(fail());
    }
    let mut out = [0; N];
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(out)
}

/// Lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Builds a [`Value`], refusing what `serde_json` would let pass: keys that occur twice.
#[derive(Clone, Copy)]
struct Strict {
    depth: u64,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> std::result::Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("nested too deeply"))?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> std::result::Result<Value, D::Error> {
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> std::result::Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> std::result::Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> std::result::Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_f64<E>(self, v: f64) -> std::result::Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_str<E>(self, v: &str) -> std::result::Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Vec::new();
        while let Some(value) = seq.next_element_seed(inner)? {
            out.push(value);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            if out.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}
