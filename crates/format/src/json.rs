//! Strict JSON: no duplicate keys, bounded depth, and nothing after the document (spec §3).

use crate::error::{Error, Result};
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses `bytes` into `T`.
pub(crate) fn from_slice<T: DeserializeOwned>(what: &'static str, bytes: &[u8], max_depth: u64) -> Result<T> {
    let fail = |e: serde_json::Error| Error::format(what, "strict JSON as the specification describes", e);
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: max_depth }.deserialize(&mut de).map_err(fail)?;
    de.end().map_err(fail)?;
    T::deserialize(value).map_err(fail)
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

    fn deserialize<D: serde::Deserializer<'de>>(self, de: D) -> std::result::Result<Value, D::Error> {
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
