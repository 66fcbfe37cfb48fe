//! Field values as the files that a user expects: pictures as they were, arrays as `.npy`, text and JSON as they are.

mod file;
mod names;

pub use file::{Pending, Placed, place};
pub use names::{FileField, FileNames, file_name};

use crate::npy;
use shardpack_format::{Field, FieldKind};
use shardpack_reader::{ArrayDecoder, RecordView, Result};
use std::borrow::Cow;
use std::io::{self, Read, Write};

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

    /// Head and body, to be read.
    pub fn reader(&self) -> impl Read + '_ {
        self.head.as_slice().chain(&*self.body)
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

impl From<String> for Content<'_> {
    fn from(text: String) -> Self {
        Self { head: Vec::new(), body: Cow::Owned(text.into_bytes()) }
    }
}

/// Decodes one stored field of a sample into what its file holds; `None` where this sample has no value.
///
/// # Errors
/// `Format` if the value is damaged, `Limit` if it is over the limits, `Usage` for a scalar field.
pub fn content<'a>(view: &RecordView<'a>, field: &Field, decoder: &mut ArrayDecoder) -> Result<Option<Content<'a>>> {
    let name = field.name.as_str();
    if view.field(name)?.is_none() {
        return Ok(None);
    }
    let (head, body) = match field.kind {
        FieldKind::Image => (Vec::new(), Cow::Borrowed(view.image(name)?.bytes)),
        FieldKind::Array => {
            let array = view.array(name, decoder)?;
            (npy::header(&array), Cow::Owned(array.into_bytes()))
        }
        _ => (Vec::new(), Cow::Owned(view.bytes(name)?)),
    };
    Ok(Some(Content { head, body }))
}
