//! Value transforms (spec §4.3). Chooses a transform for each array, and converts elements to stored elements and back.

mod decode;
mod fixed;
mod float16;
mod integer;
mod scan;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use crate::element::Float;
use decode::{Tables, decode_piece};
pub(crate) use decode::{check_bands, special_bits};
pub(crate) use whole::{To, ValueScratch, Values, is_as_stored};

use crate::arrange::Arrangement;
use crate::element::Element;
use crate::elements::Elements;
use crate::error::{EncodeError, EncodeResult};
use crate::fidelity::Fidelity;
use crate::settings::ValueRule;
use crate::source::{ArraySource, BLOCK_BYTES, element_count, for_each_block};
use half::f16;
use shardpack_base::parts::part_mut;
use shardpack_base::vectorised;
use shardpack_format::{Codes, Dtype, Layout, Transform};

pub(crate) struct StoredValues {
    pub(crate) decoded: Dtype,
    pub(crate) stored: Dtype,
    pub(crate) transform: Transform,
    pub(crate) no_data: Option<f64>,
    pub(crate) codes: Codes,
    pub(crate) arrangement: Arrangement,
    pub(crate) fidelity: Fidelity,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) rule: ValueRule,
    pub(crate) layout: Layout,
    pub(crate) difference: bool,
    pub(crate) no_data: Option<f64>,
}

/// Transforms and arranges `array`, and passes its stored elements to `elements` piece by piece.
pub(crate) fn store(
    array: &dyn ArraySource,
    request: &Request,
    elements: &mut Elements<'_>,
) -> EncodeResult<StoredValues> {
    match array.dtype() {
        Dtype::F16 => Job::<f32>::new(array, request, load_f16).store(elements),
        Dtype::F32 => Job::<f32>::new(array, request, f32::load).store(elements),
        Dtype::F64 => Job::<f64>::new(array, request, f64::load).store(elements),
        _ => integer::store(array, request, elements),
    }
}

fn load_f16(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; 256];
    for (from, to) in bytes.chunks(512).zip(out.chunks_mut(256)) {
        f16::load(from, &mut halves);
        let (halves, _) = halves.split_at(to.len());
        half::slice::HalfFloatSliceExt::convert_to_f32_slice(halves, to);
    }
}

/// Returns the requested arrangement for elements of type `stored`, as far as this array allows it.
pub(crate) fn arrangement(array: &dyn ArraySource, stored: Dtype, request: &Request) -> Arrangement {
    let shape = array.shape();
    let width = stored.size();
    let elements = element_count(array);
    let bands = shape.last().and_then(|&n| usize::try_from(n).ok()).unwrap_or(1).max(1);
    Arrangement {
        layout: if shape.len() < 2 { Layout::AsShape } else { request.layout },
        difference: request.difference && width <= 2 && stored != Dtype::Bool && !shape.is_empty(),
        width,
        bands,
        pixels: elements / bands,
    }
}

struct Job<'a, T> {
    array: &'a dyn ArraySource,
    request: &'a Request,
    load: fn(&[u8], &mut [T]),
    /// Size of a source element in bytes.
    width: usize,
    no_data: Option<T>,
}

impl<'a, T: Float> Job<'a, T> {
    fn new(array: &'a dyn ArraySource, request: &'a Request, load: fn(&[u8], &mut [T])) -> Self {
        let width = array.dtype().size();
        let no_data = request.no_data.map(|v| match array.dtype() {
            Dtype::F16 => T::from_f64(f16::from_f64(v).to_f64()),
            _ => T::from_f64(v),
        });
        Self { array, request, load, width, no_data }
    }

    fn store(&self, elements: &mut Elements<'_>) -> EncodeResult<StoredValues> {
        use ValueRule::{F16, Fixed, IntegerOrF16, IntegerOrF16OrFixed, IntegerOrFixed, IntegerOrKeep, Keep};
        let rule = if self.elements() == 0 { Keep } else { self.request.rule };
        if !matches!(rule, Keep | F16 | Fixed { .. })
            && let Some(scan) = self.scan()?
        {
            return match integer::store_float(self, &scan, elements)? {
                Some(stored) => Ok(stored),
                // The values are all integers, but they may include a negative zero or a NaN with a payload, which no
                // integer can represent.
                None => self.keep(elements),
            };
        }
        match rule {
            Keep | IntegerOrKeep => self.keep(elements),
            F16 | IntegerOrF16 | IntegerOrF16OrFixed { .. } if self.array.dtype() == Dtype::F16 => self.keep(elements),
            F16 => float16::store(self, f64::INFINITY, elements),
            IntegerOrF16 => match float16::store(self, f64::INFINITY, elements) {
                // The user did not explicitly request float16. Storing the values unchanged takes more space, but no
                // measured value becomes no-data.
                Err(EncodeError::BecomesNoData { .. }) => self.keep(elements),
                result => result,
            },
            IntegerOrF16OrFixed { max_error } => match float16::store(self, max_error, elements) {
                Err(
                    EncodeError::OutOfRange { .. } | EncodeError::BecomesNoData { .. } | EncodeError::ErrorBound { .. },
                ) => self.fixed(max_error, elements),
                result => result,
            },
            Fixed { max_error } | IntegerOrFixed { max_error } => self.fixed(max_error, elements),
        }
    }

    fn fixed(&self, max_error: f64, elements: &mut Elements<'_>) -> EncodeResult<StoredValues> {
        // There is one offset per position along the last axis. An array with a single axis would have as many
        // offsets as values.
        match self.array.shape() {
            [] | [_] => self.keep(elements),
            _ => fixed::store(self, max_error, elements),
        }
    }

    fn keep(&self, elements: &mut Elements<'_>) -> EncodeResult<StoredValues> {
        let mut fidelity = Fidelity { values: self.elements() as u64, ..Fidelity::default() };
        let mut values = [T::default(); 4096];
        let dtype = self.array.dtype();
        let no_data = self.no_data.map(T::to_f64);
        // Count the values while their bytes are still in the cache, on their way to the coder.
        let count = |bytes: &[u8]| {
            for bytes in bytes.chunks(4096 * self.width) {
                let run = part_mut(&mut values, 0..bytes.len() / self.width, "values in a run")?;
                (self.load)(bytes, run);
                self.count_specials(run, &mut fidelity);
            }
            Ok(())
        };
        let arrangement = keep(self.array, self.request, elements, count)?;
        let codes = Codes::default();
        Ok(StoredValues {
            decoded: dtype,
            stored: dtype,
            transform: Transform::None,
            no_data,
            codes,
            arrangement,
            fidelity,
        })
    }

    fn count_specials(&self, values: &[T], fidelity: &mut Fidelity) {
        if is_plain(values, self.no_data) {
            return;
        }
        for &value in values {
            if self.no_data == Some(value) {
                fidelity.no_data += 1;
            } else if value.to_f64().is_nan() {
                fidelity.nan += 1;
            } else if value.to_f64().is_infinite() {
                fidelity.infinite += 1;
            }
        }
    }

    fn elements(&self) -> usize {
        element_count(self.array)
    }

    /// Calls `each` with consecutive runs of values until it returns false.
    fn for_each_run(&self, mut each: impl FnMut(&[T]) -> bool) -> EncodeResult<()> {
        let mut values = [T::default(); 4096];
        for_each_block(self.array, BLOCK_BYTES, |block| {
            for bytes in block.chunks(4096 * self.width) {
                let run = part_mut(&mut values, 0..bytes.len() / self.width, "values in a run")?;
                (self.load)(bytes, run);
                if !each(run) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn decoded_no_data(&self) -> Option<f32> {
        self.no_data.map(|v| f32::from_f64(v.to_f64()))
    }

    /// Fails if an element of `source` that is not no-data decodes to no-data. `first` is the index of the first
    /// element.
    ///
    /// A reserved code for no-data would not help: the stored patterns would differ, but readers would return equal
    /// values.
    fn check_apart(&self, source: &[T], decoded: &[f32], first: u64, no_data: f32) -> EncodeResult<()> {
        // Check the whole run first, in a loop without branches.
        let meets = vectorised(
            #[inline(always)]
            || decoded.iter().fold(false, |any, v| any | (*v == no_data)),
        );
        if !meets {
            return Ok(());
        }
        let mut pairs = source.iter().zip(decoded);
        match pairs.position(|(u, v)| *v == no_data && self.no_data != Some(*u)) {
            None => Ok(()),
            Some(i) => Err(EncodeError::BecomesNoData {
                position: position(self.array.shape(), first + i as u64),
                value: source.get(i).map_or(f64::NAN, |v| v.to_f64()),
                no_data: no_data.into(),
            }),
        }
    }

    fn spectrum(&self) -> usize {
        match self.array.shape() {
            [_, _, bands] if *bands > 1 => usize::try_from(*bands).unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns the smallest and the largest value, ignoring no-data and non-finite values. Returns `None` if there are
    /// no others.
    fn range(&self) -> EncodeResult<Option<(f64, f64)>> {
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        self.for_each_run(|values| {
            for &value in values {
                let v = value.to_f64();
                if v.is_finite() && self.no_data != Some(value) {
                    range = (range.0.min(v), range.1.max(v));
                }
            }
            true
        })?;
        Ok((range.0 <= range.1).then_some(range))
    }
}

fn is_plain<T: Float>(values: &[T], no_data: Option<T>) -> bool {
    is_below(values, f64::INFINITY, no_data)
}

/// True if every value is below `limit` in magnitude (and therefore not NaN), and none is no-data. `limit` must be a
/// float32.
fn is_below<T: Float>(values: &[T], limit: f64, no_data: Option<T>) -> bool {
    let limit = T::from_f64(limit);
    // Without a no-data value, compare with NaN, which is never equal.
    let no_data = no_data.unwrap_or(T::from_f64(f64::NAN));
    vectorised(
        #[inline(always)]
        || values.iter().fold(true, |all, v| all & (v.abs() < limit) & (*v != no_data)),
    )
}

/// Stores an array unchanged. Passes the bytes to `look`, in order.
fn keep(
    array: &dyn ArraySource,
    request: &Request,
    elements: &mut Elements<'_>,
    mut look: impl FnMut(&[u8]) -> EncodeResult<()>,
) -> EncodeResult<Arrangement> {
    let arrangement = arrangement(array, array.dtype(), request);
    if arrangement.is_identity() {
        elements.take_all(array, arrangement.width, look)?;
    } else {
        for_each_piece(array, arrangement.width, &arrangement, elements, |bytes, out| {
            look(bytes)?;
            out.copy_from_slice(bytes);
            Ok(())
        })?;
    }
    Ok(arrangement)
}

impl<T: Float> Job<'_, T> {
    /// For each piece of whole pixels, calls `each` with the piece and a buffer for its stored elements, and then
    /// arranges the stored elements.
    fn for_each_piece(
        &self,
        arrangement: &Arrangement,
        elements: &mut Elements<'_>,
        mut each: impl FnMut(&[T], &mut [u8]) -> EncodeResult<()>,
    ) -> EncodeResult<()> {
        let mut values = vec![T::default(); arrangement.piece_pixels() * arrangement.bands];
        for_each_piece(self.array, self.width, arrangement, elements, |bytes, out| {
            let values = part_mut(&mut values, 0..bytes.len() / self.width, "values in a piece")?;
            (self.load)(bytes, values);
            each(values, out)
        })
    }
}

fn for_each_piece(
    array: &dyn ArraySource,
    source_width: usize,
    arrangement: &Arrangement,
    elements: &mut Elements<'_>,
    mut each: impl FnMut(&[u8], &mut [u8]) -> EncodeResult<()>,
) -> EncodeResult<()> {
    let width = arrangement.width;
    elements.begin(width, element_count(array) * width)?;
    let pixels = arrangement.piece_pixels();
    let piece = (pixels * arrangement.bands).min(element_count(array).max(1));
    let piece_bytes = piece * source_width;
    // If nothing is rearranged, these buffers are not used.
    let (mut stored, mut scratch) = (vec![0; piece * width], vec![0; piece * width]);
    let mut first = 0;
    for_each_block(array, (BLOCK_BYTES / piece_bytes).max(1) * piece_bytes, |block| {
        for bytes in block.chunks(piece_bytes) {
            let length = bytes.len() / source_width * width;
            if arrangement.is_identity() {
                each(bytes, elements.room(length))?;
                elements.filled(length)?;
                continue;
            }
            let stored = part_mut(&mut stored, 0..length, "stored elements in a piece")?;
            let scratch = part_mut(&mut scratch, 0..length, "scratch buffer for a piece")?;
            each(bytes, stored)?;
            if arrangement.layout == Layout::AsShape {
                arrangement.place(stored, scratch, 0, elements.room(length))?;
                elements.filled(length)?;
            } else {
                // Every piece contains elements of all bands, so all elements must be collected before the first band
                // is complete.
                arrangement.place(stored, scratch, first, elements.whole())?;
                first += pixels;
            }
        }
        Ok(true)
    })?;
    elements.finish()
}

fn position(shape: &[u64], mut element: u64) -> Vec<u64> {
    let mut out: Vec<u64> = Vec::with_capacity(shape.len());
    for &axis in shape.iter().rev() {
        let axis = axis.max(1);
        out.push(element % axis);
        element /= axis;
    }
    out.reverse();
    out
}
