//! Encodes arrays as payloads.

use crate::array::Array;
use crate::bytes::{UNIT_BYTES, expands_too_far, has_too_many_runs};
use crate::codecs::{Coder, Raw, UnitEncoder};
use crate::elements::{ElementScratch, Elements, Units};
use crate::error::EncodeResult;
use crate::fidelity::Fidelity;
use crate::filter::Filter;
use crate::settings::ArraySettings;
use crate::source::ArraySource;
use crate::values::{self, Request, StoredValues};
use shardpack_base::parts::item_bytes;
use shardpack_format::{ArrayDescriptor, Codec, Result};

/// An array in the form in which it is stored in a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedArray {
    /// Codec of the payload; `Raw` if the requested coder does not save space.
    pub codec: Codec,
    /// Description of the payload.
    pub descriptor: ArrayDescriptor,
    /// The stored bytes.
    pub payload: Vec<u8>,
    /// Loss of precision.
    pub fidelity: Fidelity,
}

/// Result of [`ArrayEncoder::encode_into`]: facts about the appended payload.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredArray {
    /// Codec of the payload; `Raw` if the requested coder does not save space.
    pub codec: Codec,
    /// Description of the payload.
    pub descriptor: ArrayDescriptor,
    /// Loss of precision.
    pub fidelity: Fidelity,
}

/// Encodes arrays with fixed settings. Each thread has its own encoder, which keeps the coder's contexts and
/// scratch memory. For band-major payloads the scratch memory is the size of the largest array's stored
/// elements, for others a few MiB.
///
/// The same settings and array give the same bytes, whatever arrays were encoded before.
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
    /// Coder to use if a payload would expand beyond a reader's limits. LZ4 payloads never do.
    fallback: Option<Box<dyn UnitEncoder>>,
    scratch: ElementScratch,
}

impl ArrayEncoder {
    /// Creates an encoder with these settings.
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

    /// Encodes `array`. `no_data` is converted to the array's type; elements equal to it are kept apart from
    /// the values.
    ///
    /// # Errors
    /// [`EncodeError::OutOfRange`](crate::EncodeError::OutOfRange) and
    /// [`EncodeError::ErrorBound`](crate::EncodeError::ErrorBound) if the values do not fit the settings.
    pub fn encode(&mut self, array: &Array, no_data: Option<f64>) -> EncodeResult<EncodedArray> {
        let mut encoded = self.encode_reusing(array, no_data, Vec::new())?;
        encoded.payload.shrink_to_fit();
        Ok(encoded)
    }

    /// Does the same as [`ArrayEncoder::encode`], but the payload reuses the memory of `buffer`, whose
    /// content is dropped. Reusing its pages saves more time than LZ4 takes.
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

    /// Appends the payload of `array` to `out`, so that a record can be built in place. Elements equal to
    /// `no_data` are kept apart from the values.
    ///
    /// The array is read a few hundred KiB at a time, once for encoding. Some settings need to look at the
    /// values before that. If floats may turn out to be integers, the array is read up to the first fraction;
    /// for fixed point, or if integers may be narrowed, it is read completely. It is read once more if the
    /// payload is no smaller than the elements. After an error, `out` holds its old content and perhaps part
    /// of the payload.
    ///
    /// # Errors
    /// Same as [`ArrayEncoder::encode`], and the errors of the source.
    pub fn encode_into(
        &mut self,
        array: &dyn ArraySource,
        no_data: Option<f64>,
        out: &mut Vec<u8>,
    ) -> EncodeResult<StoredArray> {
        let ArraySettings { values, layout, band_difference, .. } = self.settings;
        let request = Request { rule: values, layout: layout.into(), difference: band_difference, no_data };
        let (scratch, mut raw) = (&mut self.scratch, Raw);
        let mut payload = Payload::new(out, &mut *self.coder);
        let stored = values::store(array, &request, &mut Elements::new(&mut payload, scratch))?;
        let mut codec = payload.coder.codec();
        if payload.expands_too_far() {
            payload.coder = fallback(&mut self.fallback, &self.settings)?;
            codec = payload.coder.codec();
            values::store(array, &request, &mut Elements::new(&mut payload, scratch))?;
        }
        if codec != Codec::Raw && (payload.is_no_smaller() || payload.has_too_many_runs()) {
            codec = Codec::Raw;
            payload.coder = &mut raw;
            values::store(array, &request, &mut Elements::new(&mut payload, scratch))?;
        }
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

    /// Overwrites `payload` with the coder's output for the arranged `elements` of `width` bytes each.
    /// Besides the codec, returns how many element bytes a reader's coder will have to make, which excludes
    /// runs and bytes stored unchanged.
    pub(crate) fn code(&mut self, elements: &[u8], width: usize, payload: &mut Vec<u8>) -> Result<(Codec, u64)> {
        let item_bytes = item_bytes(width)?;
        payload.clear();
        let mut raw = Raw;
        let mut payload = Payload::new(payload, &mut *self.coder);
        payload.all(elements, item_bytes)?;
        if payload.expands_too_far() {
            payload.coder = fallback(&mut self.fallback, &self.settings)?;
            payload.all(elements, item_bytes)?;
        }
        if payload.coder.codec() != Codec::Raw && (payload.is_no_smaller() || payload.has_too_many_runs()) {
            payload.coder = &mut raw;
            payload.all(elements, item_bytes)?;
        }
        Ok((payload.coder.codec(), payload.coded))
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
    /// Bytes of the elements so far, before coding.
    decoded: usize,
    /// Bytes of the elements that a reader's coder will have to make.
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

    /// Such an array is stored uncoded, because none of the coders can store a long run as data.
    fn has_too_many_runs(&self) -> bool {
        has_too_many_runs(self.decoded as u64, self.coded, self.bytes() as u64)
    }

    fn is_no_smaller(&self) -> bool {
        self.bytes() >= self.decoded
    }
}

impl Units for Payload<'_> {
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
