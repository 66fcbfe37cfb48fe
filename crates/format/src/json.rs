//! Strict JSON: every document has exactly one interpretation (spec §3).
//!
//! Keys are unique, the nesting depth is bounded, and nothing follows the document. Where serde accepts several forms,
//! only one is allowed:
//!
//! - A structure is an object, never an array.
//! - A choice is a string, never `{"name": null}`.
//! - An optional key without a value is absent, never `null`.

use crate::error::{Error, Result};
use crate::limits::Limits;
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

/// Number of extra nodes that each object counts as. Even a small map takes about that much more memory than a
/// number.
const OBJECT_NODES: u64 = 8;

/// Parses an object into `T`. First checks the text, which bounds the memory of `T`. The check itself allocates memory
/// only for the keys of open objects.
pub(crate) fn from_slice<T: DeserializeOwned>(what: &'static str, bytes: &[u8], limits: &Limits) -> Result<T> {
    check(what, bytes, limits)?;
    let mut de = serde_json::Deserializer::from_slice(bytes);
    // The text is valid JSON, but does not describe a `T`.
    object(&mut de).map_err(|e: serde_json::Error| Error::malformed(format!("the {what} is not valid: {e}")))
}

/// Checks that `bytes` are a single strict JSON text, such as the value of a `json` field. Allocates memory only for
/// the keys of open objects.
///
/// # Errors
/// `Format` if the text is not strict JSON, or is nested deeper than [`Limits::max_json_depth`]; `Limit` if it has more
/// than [`Limits::max_json_nodes`] nodes.
///
/// ```
/// use shardpack_format::{Limits, check_json};
/// assert!(check_json(br#"{"a": [1, 2]}"#, &Limits::default()).is_ok());
/// assert!(check_json(br#"{"a": 1, "a": 2}"#, &Limits::default()).is_err());
/// ```
pub fn check_json(bytes: &[u8], limits: &Limits) -> Result<()> {
    check("value", bytes, limits).map(drop)
}

pub(crate) fn check(what: &'static str, bytes: &[u8], limits: &Limits) -> Result<u64> {
    let mut nodes = Nodes { count: 0, limit: limits.max_json_nodes };
    let mut de = serde_json::Deserializer::from_slice(bytes);
    let checked = Strict { depth: limits.max_json_depth, nodes: &mut nodes }.deserialize(&mut de);
    let checked = checked.and_then(|()| de.end());
    if nodes.count > nodes.limit {
        return Err(Error::limit(
            format!("number of JSON nodes in the {what}"),
            "max_json_nodes",
            nodes.limit,
            nodes.count,
        ));
    }
    checked.map_err(|e| fail(what, e))?;
    Ok(nodes.count)
}

fn fail(what: &'static str, e: serde_json::Error) -> Error {
    Error::malformed(format!("the {what} is not valid JSON: {e}"))
}

struct AsObject<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for AsObject<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(de: D) -> std::result::Result<T, D::Error> {
    T::deserialize(AsObject(de))
}

pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(de: D) -> std::result::Result<Vec<T>, D::Error> {
    struct One<T>(T);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for One<T> {
        fn deserialize<D: Deserializer<'de>>(de: D) -> std::result::Result<Self, D::Error> {
            object(de).map(One)
        }
    }
    struct All<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for All<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vec<T>, A::Error> {
            let mut out = Vec::new();
            while let Some(One(item)) = seq.next_element()? {
                out.push(item);
            }
            Ok(out)
        }
    }
    de.deserialize_seq(All(PhantomData))
}

pub(crate) fn choice<'de, D: Deserializer<'de>, T: DeserializeOwned>(de: D) -> std::result::Result<T, D::Error> {
    T::deserialize(StringDeserializer::<D::Error>::new(String::deserialize(de)?))
}

pub(crate) fn some_choice<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    de: D,
) -> std::result::Result<Option<T>, D::Error> {
    choice(de).map(Some)
}

pub(crate) fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(de: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(de).map(Some)
}

/// Encodes `value` canonically: keys in the order of the specification, indented by two spaces, with a final line feed.
pub(crate) fn to_vec<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut out =
        serde_json::to_vec_pretty(value).map_err(|e| Error::usage(format!("cannot write the value as JSON: {e}")))?;
    out.push(b'\n');
    Ok(out)
}

/// Reads exactly `2 × N` lower-case hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(s: &str) -> Result<[u8; N]> {
    let fail =
        || Error::format("hexadecimal number", format!("{} characters from 0-9 and a-f", 2 * N), format!("{s:?}"));
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

/// Returns the bytes as hexadecimal digits in lower case.
///
/// ```
/// assert_eq!(shardpack_format::to_hex(&[0x05, 0xaf]), "05af");
/// ```
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' - 10 + value });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

struct Nodes {
    count: u64,
    limit: u64,
}

impl Nodes {
    fn add<E: serde::de::Error>(&mut self, nodes: u64) -> std::result::Result<(), E> {
        self.count = self.count.saturating_add(nodes);
        if self.count > self.limit {
            return Err(E::custom("too many values"));
        }
        Ok(())
    }
}

/// Walks through a value without storing it. Refuses duplicate keys, which `serde_json` would accept.
struct Strict<'n> {
    depth: u64,
    nodes: &'n mut Nodes,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(&mut self) -> std::result::Result<u64, E> {
        self.depth.checked_sub(1).ok_or_else(|| E::custom("nested too deeply"))
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> std::result::Result<(), D::Error> {
        self.nodes.add(1)?;
        de.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> std::result::Result<(), A::Error> {
        let depth = self.deeper()?;
        while seq.next_element_seed(Strict { depth, nodes: &mut *self.nodes })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> std::result::Result<(), A::Error> {
        let depth = self.deeper()?;
        self.nodes.add(OBJECT_NODES)?;
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            self.nodes.add(1)?;
            map.next_value_seed(Strict { depth, nodes: &mut *self.nodes })?;
            if let Some(key) = seen.replace(key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
        }
        Ok(())
    }
}
