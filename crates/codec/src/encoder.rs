//! Arrays to payloads.

use crate::array::Array;
use crate::blosc2::{self, Blosc2Coder};
use crate::bytes::{UNIT_BYTES, ZstdEncoder, expands_too_far};
use crate::error::EncodeResult;
use crate::fidelity::Fidelity;
use crate::settings::{ArraySettings, Coder, Filter};
use crate::values::{self, Request, Stored};
use shardpack_format::{ArrayDescriptor, Codec, Result};

/// One array as a shard stores it.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedArray {
    /// Codec of the payload. `Raw` where the coder asked for makes it no smaller.
    pub codec: Codec,
    /// What the payload means.
    pub descriptor: ArrayDescriptor,
    /// The stored bytes.
    pub payload: Vec<u8>,
    /// What the values lost.
    pub fidelity: Fidelity,
}

/// Encodes arrays with fixed settings. One for each thread: it keeps the coder's contexts and its scratch memory, about the size of the
/// largest array's stored elements.
///
/// The same settings and array give the same bytes, whatever was encoded before.
///
/// ```
/// use shardpack_codec::{Array, ArrayDecoder, ArrayEncoder, ArrayOptions};
/// use shardpack_format::{Dtype, Limits};
///
/// let cube = Array::new(Dtype::F32, vec![2, 3, 4], (0..24_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect())?;
/// let settings = shardpack_codec::trial(&[(&cube, None)], &ArrayOptions::default())?.settings;
/// let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
/// assert_eq!(encoded.descriptor.stored, Dtype::U8); // integers, so no value is lost
/// let back = ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default())?;
/// assert_eq!(back, cube);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ArrayEncoder {
    settings: ArraySettings,
    bulk: Bulk,
    /// For payloads that would expand further than a reader's limits allow: LZ4 cannot.
    fallback: Option<Bulk>,
    stored: Vec<u8>,
}

enum Bulk {
    Blosc2(blosc2::Encoder),
    Zstd(ZstdEncoder),
    Raw,
}

impl ArrayEncoder {
    /// An encoder for these settings.
    ///
    /// # Errors
    /// `Usage` if they contradict each other (see [`ArraySettings::check`]), or if a `BLOSC_…` environment variable overrides them.
    pub fn new(settings: ArraySettings) -> Result<Self> {
        settings.check()?;
        let blosc2 = |coder| blosc2::Encoder::new(coder, settings.level, settings.filter).map(Bulk::Blosc2);
        let bulk = match (settings.coder, settings.level) {
            (Coder::Blosc2Lz4, _) => blosc2(Blosc2Coder::Lz4)?,
            (Coder::Blosc2Lz4hc, _) => blosc2(Blosc2Coder::Lz4hc)?,
            (Coder::Blosc2Zstd, _) => blosc2(Blosc2Coder::Zstd)?,
            (Coder::Zstd, level) => Bulk::Zstd(ZstdEncoder::new(level.unwrap_or(3))?),
            (Coder::Raw, _) => Bulk::Raw,
        };
        Ok(Self { settings, bulk, fallback: None, stored: Vec::new() })
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &ArraySettings {
        &self.settings
    }

    /// Encodes `array`; elements equal to `no_data` are kept apart from the values. `no_data` is compared as the array's own type has it.
    ///
    /// # Errors
    /// [`EncodeError::OutOfRange`](crate::EncodeError::OutOfRange) and [`EncodeError::ErrorBound`](crate::EncodeError::ErrorBound) if the
    /// values do not fit the settings.
    pub fn encode(&mut self, array: &Array, no_data: Option<f64>) -> EncodeResult<EncodedArray> {
        let mut encoded = self.encode_reusing(array, no_data, Vec::new())?;
        encoded.payload.shrink_to_fit();
        Ok(encoded)
    }

    /// As [`ArrayEncoder::encode`], but the payload takes over the memory of `buffer`, whose content is dropped: pages that are already there
    /// save more time than LZ4 takes.
    ///
    /// # Errors
    /// As [`ArrayEncoder::encode`].
    pub fn encode_reusing(
        &mut self,
        array: &Array,
        no_data: Option<f64>,
        buffer: Vec<u8>,
    ) -> EncodeResult<EncodedArray> {
        let ArraySettings { values, layout, band_difference, .. } = self.settings;
        let request = Request { rule: values, layout: layout.into(), difference: band_difference, no_data };
        let mut elements = std::mem::take(&mut self.stored);
        let stored = values::store(array, &request, &mut elements);
        let encoded = stored.and_then(|stored| {
            let bytes = if elements.is_empty() { array.bytes() } else { &elements };
            let mut payload = buffer;
            let (codec, _) = self.code(bytes, stored.arrangement.width, &mut payload)?;
            let Stored { decoded, stored, transform, no_data, codes, arrangement, fidelity } = stored;
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
            Ok(EncodedArray { codec, descriptor, payload, fidelity })
        });
        self.stored = elements;
        encoded
    }

    /// Overwrites `payload` with what the coder makes of `elements`, arranged, of `width` bytes each. Also returns how many of their bytes a
    /// reader's coder will have to make: those that are runs or stored as they are left out.
    pub(crate) fn code(&mut self, elements: &[u8], width: usize, payload: &mut Vec<u8>) -> Result<(Codec, u64)> {
        let item_bytes = u8::try_from(width).unwrap_or(8);
        payload.clear();
        let (mut codec, mut coded) = self.bulk.encode(elements, item_bytes, payload)?;
        if expands_too_far(elements.len() as u64, coded, payload.len() as u64) {
            let filter = if self.settings.coder.is_blosc2() { self.settings.filter } else { Filter::None };
            let fallback = match &mut self.fallback {
                Some(fallback) => fallback,
                slot @ None => slot.insert(Bulk::Blosc2(blosc2::Encoder::new(Blosc2Coder::Lz4, None, filter)?)),
            };
            payload.clear();
            (codec, coded) = fallback.encode(elements, item_bytes, payload)?;
        }
        if codec != Codec::Raw && payload.len() >= elements.len() {
            payload.clear();
            payload.extend_from_slice(elements);
            (codec, coded) = (Codec::Raw, 0);
        }
        Ok((codec, coded))
    }
}

impl Bulk {
    /// Appends the payload that holds `bytes`; also returns how many of them the coder made, runs left out.
    fn encode(&mut self, bytes: &[u8], item_bytes: u8, payload: &mut Vec<u8>) -> Result<(Codec, u64)> {
        let mut coded = 0;
        for unit in bytes.chunks(UNIT_BYTES) {
            let start = payload.len();
            match self {
                Self::Blosc2(encoder) => encoder.encode(unit, item_bytes, payload)?,
                Self::Zstd(encoder) => encoder.encode(unit, payload)?,
                Self::Raw => payload.extend_from_slice(unit),
            }
            coded += match self {
                // Walking the chunk proves, at no cost that shows, that a reader will accept it.
                Self::Blosc2(_) => {
                    blosc2::Chunk::parse(payload.get(start..).unwrap_or_default(), item_bytes, unit.len())?
                        .coded_out_bytes()
                }
                Self::Zstd(_) => unit.len() as u64,
                Self::Raw => 0,
            };
        }
        let codec = match self {
            Self::Blosc2(_) => Codec::Blosc2,
            Self::Zstd(_) => Codec::Zstd,
            Self::Raw => Codec::Raw,
        };
        Ok((codec, coded))
    }
}
