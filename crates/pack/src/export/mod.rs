//! Exports field values as files in common formats. Pictures keep their own formats, arrays become `.npy`
//! files, and text and JSON do not change.

pub(crate) mod durable;
mod file;
mod names;

pub use file::{OutFolder, Pending, Placed};
pub use names::{FileField, FileNames, file_name};

use crate::npy;
use shardpack_format::{Field, FieldKind, is_hidden};
use shardpack_jpeg::{Frames, with_metadata};
use shardpack_reader::{ArrayDecoder, RecordView, Result, Scalar};
use std::borrow::Cow;
use std::io::{self, Read, Write};

/// The content of a file. It consists of a generated head, and a body that may borrow from the record.
#[derive(Debug)]
pub struct FileContent<'a> {
    head: Vec<u8>,
    body: Cow<'a, [u8]>,
}

impl FileContent<'_> {
    /// Writes the head and the body.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        out.write_all(&self.body)
    }

    /// Returns a reader of the head followed by the body.
    pub fn reader(&self) -> impl Read + '_ {
        self.head.as_slice().chain(&*self.body)
    }

    /// Returns true if the content is not UTF-8, or contains control characters that affect a terminal. Line
    /// breaks and tabs are fine.
    #[must_use]
    pub fn is_hidden_text(&self) -> bool {
        let has_hidden = |bytes| {
            std::str::from_utf8(bytes)
                .map_or(true, |text| text.contains(|c| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t')))
        };
        has_hidden(&self.head) || has_hidden(&self.body)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.head.len() as u64 + self.body.len() as u64
    }

    /// Returns true if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<String> for FileContent<'_> {
    fn from(text: String) -> Self {
        Self { head: Vec::new(), body: Cow::Owned(text.into_bytes()) }
    }
}

/// Decodes one stored field of a sample into file content, or returns `None` if the field has no value. The
/// frames of a clip become one stream of concatenated JPEGs, as players expect.
///
/// # Errors
/// `Format` if the value is damaged, `Limit` if it exceeds the limits, `Usage` for a scalar field.
pub fn content<'a>(
    view: &RecordView<'a>,
    field: &Field,
    decoder: &mut ArrayDecoder,
) -> Result<Option<FileContent<'a>>> {
    let name = field.name.as_str();
    if view.field(name)?.is_none() {
        return Ok(None);
    }
    let (head, body) = match field.kind {
        FieldKind::Image => {
            let image = view.image(name)?;
            let frames = frames_of(view, name)?;
            let mut dressed = frames.iter().map(|frame| dressed(view, frames.media_type(), frame));
            let body = match frames.is_list() {
                true => Cow::Owned(dressed.collect::<Result<Vec<_>>>()?.concat()),
                false => dressed.next().unwrap_or(Ok(Cow::Borrowed(image.bytes)))?,
            };
            (Vec::new(), body)
        }
        FieldKind::Array => {
            let array = view.array(name, decoder)?;
            (npy::header(&array), Cow::Owned(array.into_bytes()))
        }
        _ => (Vec::new(), Cow::Owned(view.bytes(name)?)),
    };
    Ok(Some(FileContent { head, body }))
}

/// Returns the files of a clip, named relative to the clip's folder, or `None` if the field is not a clip.
///
/// # Errors
/// Same as [`content`].
pub fn frames<'a>(view: &RecordView<'a>, field: &Field) -> Result<Option<Vec<(String, FileContent<'a>)>>> {
    if field.kind != FieldKind::Image || view.field(&field.name)?.is_none() {
        return Ok(None);
    }
    let frames = frames_of(view, &field.name)?;
    if !frames.is_list() {
        return Ok(None);
    }
    let file = |(number, frame)| {
        let body = dressed(view, frames.media_type(), frame)?;
        Ok((format!("{number:06}.jpg"), FileContent { head: Vec::new(), body }))
    };
    frames.iter().enumerate().map(file).collect::<Result<_>>().map(Some)
}

fn frames_of<'a>(view: &RecordView<'a>, field: &str) -> Result<Frames<'a>> {
    let image = view.image(field)?;
    Ok(Frames::of(image.media_type, image.bytes)?)
}

/// Name of the field for ICC profiles that are stored separately from their pictures.
pub const ICC_FIELD: &str = "icc";

/// Returns a picture as a file. A JPEG gets its profile and orientation back, so other programs show it correctly.
fn dressed<'a>(view: &RecordView<'a>, media_type: &str, jpeg: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    if media_type != "image/jpeg" {
        return Ok(Cow::Borrowed(jpeg));
    }
    let stored = view.schema().scalar_position("orientation").map(|_| view.scalar_if_any("orientation")).transpose()?;
    let orientation = stored.flatten().and_then(Scalar::as_i64);
    let orientation = orientation.and_then(|o| u8::try_from(o).ok()).filter(|o| (1..=8).contains(o)).unwrap_or(1);
    let icc = match view.field(ICC_FIELD) {
        Ok(Some(_)) => view.bytes(ICC_FIELD).ok(),
        _ => None,
    };
    if icc.is_none() && orientation == 1 {
        return Ok(Cow::Borrowed(jpeg));
    }
    let mut out = Vec::with_capacity(jpeg.len() + icc.as_ref().map_or(0, Vec::len) + 256);
    match with_metadata(jpeg, icc.as_deref(), orientation, &mut out) {
        Ok(()) => Ok(Cow::Owned(out)),
        Err(error @ shardpack_format::Error::Internal { .. }) => Err(error.into()),
        // The field `icc` may be the user's own, with other content. Return the picture as it is stored.
        Err(_) => Ok(Cow::Borrowed(jpeg)),
    }
}
