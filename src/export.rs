//! Field values as the files that a user expects: pictures as they were, arrays as `.npy`, text and JSON as they are.

use crate::npy;
use shardpack_codec::{ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, FieldKind, FieldValue, Limits, Result};
use std::borrow::Cow;
use std::io::{self, Write};

/// The content of a file: a head that we make, and a body that may be borrowed from the record.
#[derive(Debug)]
pub struct Content<'a> {
    head: Vec<u8>,
    body: Cow<'a, [u8]>,
}

impl Content<'_> {
    /// Writes head and body.
    ///
    /// # Errors
    /// As the writer.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        out.write_all(&self.body)
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.body.len() as u64
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Decodes one stored field value into what its file holds.
///
/// # Errors
/// `Format` if the value is damaged, `Limit` if it is over the limits.
pub fn content<'a>(
    kind: FieldKind,
    value: &FieldValue<'a>,
    decoder: &mut ArrayDecoder,
    limits: &Limits,
) -> Result<Content<'a>> {
    Ok(match kind {
        FieldKind::Image => Content { head: Vec::new(), body: Cow::Borrowed(value.bytes) },
        FieldKind::Array => {
            let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
            let array = decoder.decode(value.codec, &descriptor, value.bytes, limits)?;
            Content { head: npy::header(&array), body: Cow::Owned(array.into_bytes()) }
        }
        _ => {
            let body = decode_bytes(value.codec, value.bytes, value.decoded_bytes, limits)?;
            Content { head: Vec::new(), body: Cow::Owned(body) }
        }
    })
}

/// Where [`content`] goes below the folder of `unpack`: the key itself for a picture, `<key>.npy` for the first array field of the
/// schema (a key that ends in `.npy` as it is), `<key>.<field>.<extension>` for every other field.
#[must_use]
pub fn file_name(key: &str, field: &str, kind: FieldKind, first_of_kind: bool) -> String {
    let stem = key.strip_suffix(".npy").unwrap_or(key);
    match (kind, first_of_kind) {
        (FieldKind::Image, true) => key.to_owned(),
        (FieldKind::Array, true) => format!("{stem}.npy"),
        (FieldKind::Array, false) => format!("{stem}.{field}.npy"),
        (FieldKind::Text, _) => format!("{stem}.{field}.txt"),
        (FieldKind::Json, _) => format!("{stem}.{field}.json"),
        _ => format!("{key}.{field}.bin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_fields_apart() {
        assert_eq!(file_name("a/b.JPEG", "image", FieldKind::Image, true), "a/b.JPEG");
        assert_eq!(file_name("a/b.tif", "cube", FieldKind::Array, true), "a/b.tif.npy");
        assert_eq!(file_name("a/b.npy", "cube", FieldKind::Array, true), "a/b.npy");
        assert_eq!(file_name("a/b.npy", "mask", FieldKind::Array, false), "a/b.mask.npy");
        assert_eq!(file_name("a/b.npy", "meta", FieldKind::Json, true), "a/b.meta.json");
    }
}
