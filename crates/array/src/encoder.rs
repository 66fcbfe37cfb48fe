//! Encodes arrays as payloads.

use crate::array::Array;
use crate::bytes::{UNIT_BYTES, expands_too_far, has_too_many_runs};
use crate::codecs::{Coder, Raw, UnitEncoder};
use crate::elements::{ElementScratch, Elements, UnitSink};
use crate::error::EncodeResult;
use crate::fidelity::Fidelity;
use crate::filter::Filter;
use crate::settings::ArraySettings;
use crate::source::ArraySource;
use crate::values::{self, Request, StoredValues};
use shardpack_base::parts::item_bytes;
use shardpack_format::{ArrayDescriptor, Codec, Error, Result};

/// An encoded array, as stored in a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedArray {
    /// Codec of the payload: `Raw` if the requested coder does not save space.
    pub codec: Codec,
    /// Describes how to decode the payload: types, shape, layout and transform.
    pub descriptor: ArrayDescriptor,
    /// The encoded bytes.
    pub payload: Vec<u8>,
    /// Precision lost by the value transform.
    pub fidelity: Fidelity,
}

/// Result of [`ArrayEncoder::encode_into`], which describes the appended payload.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredArray {
    /// Codec of the payload: `Raw` if the requested coder does not save space.
    pub codec: Codec,
    /// Describes how to decode the payload: types, shape, layout and transform.
    pub descriptor: ArrayDescriptor,
    /// Precision lost by the value transform.
    pub fidelity: Fidelity,
}

/// Encodes arrays with fixed settings. Each thread has its own encoder, which reuses the coder's contexts and its
/// scratch memory. For band-major payloads, the scratch memory is as large as the stored elements of the largest
/// array. For other payloads, it is a few MiB.
///
/// The output depends only on the settings and the array, not on the arrays that were encoded before.
///
/// ```
/// use shardpack_array::{Array, ArrayDecoder, ArrayEncoder, ArrayOptions};
/// use shardpack_format::{Dtype, Limits};
///
/// let cube = Array::new(Dtype::F32, vec![2, 3, 4], (0..24_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect())?;
/// let settings = shardpack_array::trial(&[(&cube, None)], &ArrayOptions::default())?.settings;
/// let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
/// assert_eq!(encoded.descriptor.stored, Dtype::U8); // integers, so no value is lost
/// let back = ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default())?;
/// assert_eq!(back, cube);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArrayEncoder {
    settings: ArraySettings,
    coder: Box<dyn UnitEncoder>,
    /// Replaces the coder if the coder's payload would exceed a reader's limit on expansion. LZ4 payloads never
    /// exceed it.
    fallback: Option<Box<dyn UnitEncoder>>,
    scratch: ElementScratch,
}

impl ArrayEncoder {
    /// Creates an encoder with the given settings.
    ///
    /// # Errors
    /// `Usage` if the settings contradict each other (see [`ArraySettings::check`]).
    pub fn new(settings: ArraySettings) -> Result<Self> {
        settings.check()?;
        let coder = (settings.coder.spec().encoder)(settings.level, settings.filter)?;
        Ok(Self { settings, coder, fallback: None, scratch: ElementScratch::default() })
    }

    /// Returns the settings of this encoder.
    #[must_use]
    pub const fn settings(&self) -> &ArraySettings {
        &self.settings
    }

    /// Encodes `array`. `no_data` is converted to the array's type. Elements equal to it stay distinguishable from
    /// values.
    ///
    /// # Errors
    /// [`EncodeError::OutOfRange`](crate::EncodeError::OutOfRange) and
    /// [`EncodeError::ErrorBound`](crate::EncodeError::ErrorBound) if the values do not fit the settings.
    pub fn encode(&mut self, array: &Array, no_data: Option<f64>) -> EncodeResult<EncodedArray> {
        let mut encoded = self.encode_reusing(array, no_data, Vec::new())?;
        encoded.payload.shrink_to_fit();
        Ok(encoded)
    }

    /// Same as [`ArrayEncoder::encode`], but the payload reuses the memory of `buffer`, whose content is dropped.
    /// Reusing its pages saves more time than LZ4 needs for encoding.
    ///
    /// # Errors
    /// Same as [`ArrayEncoder::encode`].
    pub fn encode_reusing(
        &mut self,
        array: &Array,
        no_data: Option<f64>,
        buffer: Vec<u8>,
    ) -> EncodeResult<EncodedArray> {
        let mut payload = buffer;
        payload.clear();
        let StoredArray { codec, descriptor, fidelity } = self.encode_into(array, no_data, &mut payload)?;
        Ok(EncodedArray { codec, descriptor, payload, fidelity })
    }

    /// Appends the payload of `array` to `out`, so that a record can be built in place. Elements equal to `no_data`
    /// stay distinguishable from values.
    ///
    /// The array is read a few hundred KiB at a time. Encoding needs one pass, and some settings need an extra pass
    /// before it. If that pass only checks whether all floats are integers, it stops at the first fraction. For fixed
    /// point and for narrowing integers, it reads the whole array. If the payload is not smaller than the elements, one
    /// more pass stores them unchanged. After an error, part of the payload may have been appended to `out`.
    ///
    /// # Errors
    /// Same as [`ArrayEncoder::encode`], plus the errors of the source.
    pub fn encode_into(
        &mut self,
        array: &dyn ArraySource,
        no_data: Option<f64>,
        out: &mut Vec<u8>,
    ) -> EncodeResult<StoredArray> {
        let ArraySettings { values, layout, band_difference, .. } = self.settings;
        let request = Request { rule: values, layout: layout.into(), difference: band_difference, no_data };
        let (stored, codec, _) =
            self.write(out, |payload, scratch| values::store(array, &request, &mut Elements::new(payload, scratch)))?;
        let StoredValues { decoded, stored, transform, no_data, codes, arrangement, fidelity } = stored;
        let descriptor = ArrayDescriptor {
            decoded,
            stored,
            transform,
            band_difference: arrangement.difference,
            layout: arrangement.layout,
            shape: array.shape().to_vec(),
            no_data,
            codes,
        };
        Ok(StoredArray { codec, descriptor, fidelity })
    }

    /// Replaces the content of `payload` with the coded `elements`, which are already arranged and have `width` bytes
    /// each. Also returns the number of bytes that the coder will output when a reader decodes the payload, without
    /// runs and bytes that are stored unchanged.
    pub(crate) fn code(&mut self, elements: &[u8], width: usize, payload: &mut Vec<u8>) -> Result<(Codec, u64)> {
        let item_bytes = item_bytes(width)?;
        payload.clear();
        let ((), codec, coded) = self.write(payload, |payload, _| payload.all(elements, item_bytes))?;
        Ok((codec, coded))
    }

    /// Appends a payload to `out` by calling `all`, which writes all elements. Calls it again with LZ4 if readers would
    /// reject the payload because it expands too far, and without a coder if coding does not pay. Returns the last
    /// result, the codec, and the number of bytes that the coder will output.
    fn write<T, E: From<Error>>(
        &mut self,
        out: &mut Vec<u8>,
        mut all: impl FnMut(&mut Payload<'_>, &mut ElementScratch) -> Result<T, E>,
    ) -> Result<(T, Codec, u64), E> {
        let (scratch, mut raw) = (&mut self.scratch, Raw);
        let mut payload = Payload::new(out, &mut *self.coder);
        let mut written = all(&mut payload, scratch)?;
        if payload.expands_too_far() {
            payload.coder = fallback(&mut self.fallback, &self.settings)?;
            written = all(&mut payload, scratch)?;
        }
        if payload.coder.codec() != Codec::Raw && (payload.is_no_smaller() || payload.has_too_many_runs()) {
            payload.coder = &mut raw;
            written = all(&mut payload, scratch)?;
        }
        Ok((written, payload.coder.codec(), payload.coded))
    }
}

fn fallback<'a>(
    slot: &'a mut Option<Box<dyn UnitEncoder>>,
    settings: &ArraySettings,
) -> Result<&'a mut dyn UnitEncoder> {
    let filter = if settings.coder.has_filters() { settings.filter } else { Filter::None };
    Ok(match slot {
        Some(fallback) => &mut **fallback,
        slot @ None => &mut **slot.insert((Coder::Blosc2Lz4.spec().encoder)(None, filter)?),
    })
}

struct Payload<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    coder: &'a mut dyn UnitEncoder,
    /// Number of element bytes so far, before encoding.
    decoded: usize,
    /// Number of bytes that the coder will output when a reader decodes the units so far.
    coded: u64,
}

impl<'a> Payload<'a> {
    fn new(out: &'a mut Vec<u8>, coder: &'a mut dyn UnitEncoder) -> Self {
        Self { start: out.len(), out, coder, decoded: 0, coded: 0 }
    }

    fn all(&mut self, elements: &[u8], item_bytes: u8) -> Result<()> {
        self.begin();
        elements.chunks(UNIT_BYTES).try_for_each(|unit| self.unit(unit, item_bytes))
    }

    fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    fn expands_too_far(&self) -> bool {
        expands_too_far(self.decoded as u64, self.coded, self.bytes() as u64)
    }

    /// True if readers would reject the payload because of its runs. The array is then stored uncoded, because every
    /// coder would store a long run as a run again.
    fn has_too_many_runs(&self) -> bool {
        has_too_many_runs(self.decoded as u64, self.coded, self.bytes() as u64)
    }

    fn is_no_smaller(&self) -> bool {
        self.bytes() >= self.decoded
    }
}

impl UnitSink for Payload<'_> {
    fn begin(&mut self) {
        self.out.truncate(self.start);
        (self.decoded, self.coded) = (0, 0);
    }

    fn unit(&mut self, unit: &[u8], item_bytes: u8) -> Result<()> {
        self.decoded += unit.len();
        self.coded += self.coder.encode(unit, item_bytes, self.out)?;
        Ok(())
    }
}
