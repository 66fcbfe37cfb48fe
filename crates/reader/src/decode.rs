//! Decodes the values of fields (arrays, pictures, text and bytes). When a record is checked, it is refused if a codec
//! is not valid for its field.

use crate::error::Result;
use crate::sample::{RecordView, Sample};
use crate::scalar::Scalar;
use shardpack_array::{Array, ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, Dtype, Error as FormatError, FieldKind};
use shardpack_jpeg::{Frames, JpegHeader, PictureDecoder, Rendering, StoredPicture};

/// Returns the Exif orientation of a picture, 1..=8: the value stored by the packer or, in datasets without
/// one, the orientation in the JPEG itself.
pub fn orientation(stored: Option<i64>, is_jpeg: bool, bytes: &[u8]) -> u8 {
    let orientation = match stored {
        Some(stored) => u8::try_from(stored).unwrap_or(0),
        None if !is_jpeg => 1,
        None => JpegHeader::parse(bytes).ok().and_then(|header| header.orientation).unwrap_or(1),
    };
    if (1..=8).contains(&orientation) { orientation } else { 1 }
}

/// Adds the field's name to an error.
pub fn name_field(name: &str, error: FormatError) -> FormatError {
    match error {
        FormatError::Format { place, what, expected, found, hint } => {
            FormatError::Format { place, what: format!("field `{name}`: {what}"), expected, found, hint }
        }
        FormatError::Limit { place, what, name: limit_name, limit, found } => {
            FormatError::Limit { place, what: format!("field `{name}`: {what}"), name: limit_name, limit, found }
        }
        FormatError::Internal { place, what, expected, found } => {
            FormatError::Internal { place, what: format!("field `{name}`: {what}"), expected, found }
        }
        other => other,
    }
}

fn all(
    frames: &Frames<'_>,
    orientation: u8,
    decoder: &mut PictureDecoder,
    limit: u64,
) -> std::result::Result<Array, FormatError> {
    let (height, width) = decoder.size_of(frames.media_type(), frames.first(), orientation)?;
    let time = frames.is_list().then_some(frames.len() as u64);
    let shape: Vec<u64> = time.into_iter().chain([height.into(), width.into(), 3]).collect();
    let bytes = Dtype::U8.array_bytes(&shape)?;
    let too_large = |limit| FormatError::limit("decoded picture", "max_decoded_bytes", limit, bytes);
    if bytes > limit {
        return Err(too_large(limit));
    }
    let mut pixels = vec![0; usize::try_from(bytes).map_err(|_| too_large(usize::MAX as u64))?];
    let rendering = Rendering { orientation, ..Rendering::default() };
    let each = (pixels.len() / frames.len()).max(1);
    for (number, (frame, out)) in frames.iter().zip(pixels.chunks_exact_mut(each)).enumerate() {
        let size = decoder.size_of(frames.media_type(), frame, orientation)?;
        if size != (height, width) {
            let (high, wide) = size;
            return Err(FormatError::usage(format!(
                "frame {number} has {high} × {wide} pixels, but the first frame has {height} × {width}"
            ))
            .with_hint("use a loader with a view that resizes all frames to one size, such as `resize224`"));
        }
        decoder.decode_into(&StoredPicture::new(frames.media_type(), frame), &rendering, out)?;
    }
    Array::new(Dtype::U8, shape, pixels)
}

impl RecordView<'_> {
    /// Returns the shape, types and transform of an array field without decoding it.
    ///
    /// # Errors
    /// `Usage` if there is no such array field or this sample has no value for it; `Format` or `Limit` if the
    /// descriptor is invalid.
    pub fn descriptor(&self, name: &str) -> Result<ArrayDescriptor> {
        let value = self.present(name, &[FieldKind::Array])?;
        ArrayDescriptor::parse(value.descriptor, self.limits()).map_err(|e| self.field_error(name, e))
    }

    /// Decodes an array field. `decoder` reuses its scratch memory between calls.
    ///
    /// # Errors
    /// Same as [`RecordView::descriptor`], and also `Format` if the payload is damaged or does not decode to
    /// the size of the array.
    pub fn array(&self, name: &str, decoder: &mut ArrayDecoder) -> Result<Array> {
        let value = self.present(name, &[FieldKind::Array])?;
        let decoded = ArrayDescriptor::parse(value.descriptor, self.limits())
            .and_then(|descriptor| decoder.decode(value.codec, &descriptor, value.bytes, self.limits()));
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// Decodes an array field directly into `out`, in C-contiguous order. The length of `out` must be
    /// `decoded_bytes` of the descriptor.
    ///
    /// # Errors
    /// Same as [`RecordView::array`], and also `Usage` if `out` has a different length.
    pub fn array_into(&self, name: &str, decoder: &mut ArrayDecoder, out: &mut [u8]) -> Result<()> {
        let value = self.present(name, &[FieldKind::Array])?;
        let decoded = ArrayDescriptor::parse(value.descriptor, self.limits())
            .and_then(|descriptor| decoder.decode_into(value.codec, &descriptor, value.bytes, out, self.limits()));
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// Decodes the picture of an image field. The result is upright, with shape `[height, width, 3]` and type
    /// uint8. A list of pictures becomes `[time, height, width, 3]`. `decoder` reuses its scratch memory
    /// between calls.
    ///
    /// # Errors
    /// Same as [`RecordView::image`], and also `Format` if the picture is damaged, `Limit` if it is too large,
    /// and `Usage` if the pictures of a list differ in size.
    pub fn pixels(&self, name: &str, decoder: &mut PictureDecoder) -> Result<Array> {
        let image = self.image(name)?;
        let stored =
            self.schema().scalar_position("orientation").map(|_| self.scalar_if_any("orientation")).transpose()?;
        let stored = stored.flatten().and_then(Scalar::as_i64);
        let decoded = Frames::of(image.media_type, image.bytes).and_then(|frames| {
            let orientation = orientation(stored, frames.media_type() == "image/jpeg", frames.first());
            all(&frames, orientation, decoder, self.limits().max_decoded_bytes)
        });
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// Decodes the content of a text, JSON or bytes field.
    ///
    /// # Errors
    /// `Usage` if there is no such field or this sample has no value for it; `Format` or `Limit` if it cannot
    /// be decoded.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let value = self.present(name, &[FieldKind::Text, FieldKind::Json, FieldKind::Bytes])?;
        let decoded = decode_bytes(value.codec, value.bytes, value.decoded_bytes, self.limits());
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// Decodes the content of a text or JSON field.
    ///
    /// # Errors
    /// Same as [`RecordView::bytes`], and also `Format` if the content is not UTF-8.
    pub fn text(&self, name: &str) -> Result<String> {
        self.present(name, &[FieldKind::Text, FieldKind::Json])?;
        String::from_utf8(self.bytes(name)?).map_err(|e| {
            self.field_error(name, FormatError::malformed(format!("the text is not valid UTF-8: {}", e.utf8_error())))
        })
    }

    /// Adds the field name and this record's location to an error about its bytes.
    pub(crate) fn field_error(&self, name: &str, error: FormatError) -> crate::Error {
        // The offset in the error is relative to the value. Replace it with the offset in the file.
        self.error(name, name_field(name, error))
    }
}

impl Sample {
    /// Decodes a picture with a new decoder. For many pictures, reuse one decoder with [`RecordView::pixels`].
    ///
    /// # Errors
    /// Same as [`RecordView::pixels`].
    pub fn pixels(&self, name: &str) -> Result<Array> {
        self.view().pixels(name, &mut PictureDecoder::new(self.view().limits().clone()))
    }

    /// Same as [`RecordView::descriptor`].
    ///
    /// # Errors
    /// Same as [`RecordView::descriptor`].
    pub fn descriptor(&self, name: &str) -> Result<ArrayDescriptor> {
        self.view().descriptor(name)
    }

    /// Decodes an array field with a new decoder. For many arrays, reuse one decoder with [`RecordView::array`].
    ///
    /// # Errors
    /// Same as [`RecordView::array`].
    pub fn array(&self, name: &str) -> Result<Array> {
        self.view().array(name, &mut ArrayDecoder::new())
    }

    /// Same as [`RecordView::bytes`].
    ///
    /// # Errors
    /// Same as [`RecordView::bytes`].
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.view().bytes(name)
    }

    /// Same as [`RecordView::text`].
    ///
    /// # Errors
    /// Same as [`RecordView::text`].
    pub fn text(&self, name: &str) -> Result<String> {
        self.view().text(name)
    }
}
