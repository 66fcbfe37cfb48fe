//! Field values decoded: arrays, text, bytes, by the codecs of `shardpack_codec`. Which field may use which codec was checked with the record.

use crate::error::Result;
use crate::sample::{RecordView, Sample};
use shardpack_codec::{Array, ArrayDecoder, decode_bytes};
use shardpack_format::{ArrayDescriptor, Error as FormatError, FieldKind};

/// Puts the field's name before what is wrong with it.
pub(crate) fn name_field(name: &str, error: FormatError) -> FormatError {
    match error {
        FormatError::Format { place, what, expected, found } => {
            FormatError::Format { place, what: format!("field `{name}`: {what}"), expected, found }
        }
        FormatError::Limit { place, what, name: limit_name, limit, found } => {
            FormatError::Limit { place, what: format!("field `{name}`: {what}"), name: limit_name, limit, found }
        }
        other => other,
    }
}

impl RecordView<'_> {
    /// Shape, types and transform of an array field, without decoding it.
    ///
    /// # Errors
    /// `Usage` if there is no such array field, or if this sample has no value for it; `Format` or `Limit` if the descriptor is not as it should be.
    pub fn descriptor(&self, name: &str) -> Result<ArrayDescriptor> {
        let value = self.present(name, &[FieldKind::Array])?;
        ArrayDescriptor::parse(value.descriptor, self.limits()).map_err(|e| self.field_error(name, e))
    }

    /// Decodes an array field; `decoder` keeps its scratch memory for the next one.
    ///
    /// # Errors
    /// As [`RecordView::descriptor`]; `Format` too if the payload is damaged or does not decode to the array's size.
    pub fn array(&self, name: &str, decoder: &mut ArrayDecoder) -> Result<Array> {
        let value = self.present(name, &[FieldKind::Array])?;
        let decoded = ArrayDescriptor::parse(value.descriptor, self.limits())
            .and_then(|descriptor| decoder.decode(value.codec, &descriptor, value.bytes, self.limits()));
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// Decodes an array field straight into `out`, C-contiguous, exactly as long as the descriptor's `decoded_bytes`.
    ///
    /// # Errors
    /// As [`RecordView::array`]; `Usage` too if `out` has another length.
    pub fn array_into(&self, name: &str, decoder: &mut ArrayDecoder, out: &mut [u8]) -> Result<()> {
        let value = self.present(name, &[FieldKind::Array])?;
        let decoded = ArrayDescriptor::parse(value.descriptor, self.limits())
            .and_then(|descriptor| decoder.decode_into(value.codec, &descriptor, value.bytes, out, self.limits()));
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// The content of a text, JSON or bytes field, once its codec is undone.
    ///
    /// # Errors
    /// `Usage` if there is no such field, or if this sample has no value for it; `Format` or `Limit` if it does not decode as it should.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let value = self.present(name, &[FieldKind::Text, FieldKind::Json, FieldKind::Bytes])?;
        let decoded = decode_bytes(value.codec, value.bytes, value.decoded_bytes, self.limits());
        decoded.map_err(|e| self.field_error(name, e))
    }

    /// The content of a text or JSON field.
    ///
    /// # Errors
    /// As [`RecordView::bytes`]; `Format` too if it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<String> {
        self.present(name, &[FieldKind::Text, FieldKind::Json])?;
        String::from_utf8(self.bytes(name)?)
            .map_err(|e| self.field_error(name, FormatError::format("text", "UTF-8", e.utf8_error())))
    }

    /// Puts the field and this record's place into an error found in its bytes.
    pub(crate) fn field_error(&self, name: &str, error: FormatError) -> crate::Error {
        // Offsets so far count within the value: of no use to a reader of the message.
        self.error(name_field(name, error))
    }
}

impl Sample {
    /// As [`RecordView::descriptor`].
    ///
    /// # Errors
    /// As there.
    pub fn descriptor(&self, name: &str) -> Result<ArrayDescriptor> {
        self.view().descriptor(name)
    }

    /// Decodes an array field with a decoder of its own; for many, hand one in with [`RecordView::array`].
    ///
    /// # Errors
    /// As [`RecordView::array`].
    pub fn array(&self, name: &str) -> Result<Array> {
        self.view().array(name, &mut ArrayDecoder::new())
    }

    /// As [`RecordView::bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.view().bytes(name)
    }

    /// As [`RecordView::text`].
    ///
    /// # Errors
    /// As there.
    pub fn text(&self, name: &str) -> Result<String> {
        self.view().text(name)
    }
}
