//! Decodes stored elements to values (spec §4.3).

use crate::element::{Element, for_integer};
use crate::halves;
use half::f16;
use shardpack_base::parts::{check_length, part, part_mut};
use shardpack_format::{ArrayDescriptor, Codes, Dtype, Error, Result, Transform};

/// Number of elements in a run. All buffers of a run fit in the L1 cache together.
const RUN: usize = 512;

/// Tables of a fixed-point array, by band. The entries are repeated to the length of a piece, so that loops run over
/// whole pieces instead of single pixels.
#[derive(Default)]
pub(super) struct Tables {
    scale: Vec<f32>,
    offset: Vec<f32>,
    /// Largest allowed stored element.
    top: u16,
}

impl Tables {
    /// Refills the tables with only `bands`, in that order. Reuses their memory.
    pub(super) fn refill(
        &mut self,
        descriptor: &ArrayDescriptor,
        bands: impl Iterator<Item = usize>,
        piece_pixels: usize,
    ) -> Result<()> {
        self.scale.clear();
        self.offset.clear();
        let Transform::Fixed { bits, scale, offset } = &descriptor.transform else { return Ok(()) };
        self.top = top(*bits);
        for band in bands {
            let entry = scale.get(band).zip(offset.get(band));
            let (scale, offset) = entry.ok_or_else(|| {
                Error::usage(format!("band {band} is not in the band table, which has {} bands", scale.len()))
            })?;
            self.scale.push(*scale);
            self.offset.push(*offset);
        }
        let count = self.scale.len();
        for _ in 1..piece_pixels {
            self.scale.extend_from_within(..count);
            self.offset.extend_from_within(..count);
        }
        Ok(())
    }
}

fn top(bits: u8) -> u16 {
    u16::MAX >> 16_u8.saturating_sub(bits).min(15)
}

/// Fails unless the tables have one entry per band, and elements with a band difference have 8 or 16 bits.
/// [`ArrayDescriptor::parse`] checks this too, but a descriptor built by hand may be wrong.
pub(crate) fn check_bands(descriptor: &ArrayDescriptor, bands: usize) -> Result<()> {
    if let Transform::Fixed { scale, offset, .. } = &descriptor.transform
        && (scale.len() != bands || offset.len() != bands)
    {
        return Err(Error::usage(format!(
            "the band table must have {bands} scales and offsets (one per band), but has {} scales and {} offsets",
            scale.len(),
            offset.len()
        )));
    }
    if descriptor.band_difference && descriptor.stored.size() > 2 {
        return Err(Error::malformed(format!(
            "the array descriptor is damaged: band differences need 8-bit or 16-bit elements, not {}",
            descriptor.stored
        )));
    }
    Ok(())
}

/// Decodes whole pixels. `stored` contains elements in shape order, after undoing differences. `out` receives the bytes
/// of the same number of decoded elements.
pub(super) fn decode_piece(descriptor: &ArrayDescriptor, tables: &Tables, stored: &[u8], out: &mut [u8]) -> Result<()> {
    // The loops below would stop at the end of the shorter buffer.
    let (width, size) = (descriptor.stored.size(), descriptor.decoded.size());
    let elements = stored.len() / width;
    check_length("size of the stored elements in bytes", elements * width, stored.len())?;
    check_length("size of the decoded elements in bytes", elements * size, out.len())?;
    match (&descriptor.transform, descriptor.stored, descriptor.decoded) {
        (Transform::None, from, to) if from == to => copy_checked(from, stored, out)?,
        (Transform::F16, Dtype::F16, Dtype::F16) => out.copy_from_slice(stored),
        (Transform::F16, Dtype::F16, Dtype::F32) => halves::widen(stored, out),
        (Transform::F16, Dtype::F16, Dtype::F64) => convert(f16::to_f64, stored, out),
        (Transform::None, Dtype::F32, Dtype::F64) => convert(|value: f32| f64::from(value), stored, out),
        (Transform::Fixed { .. }, from, Dtype::F64) => {
            // Before widening, round to float32 as the specification requires.
            let mut narrow = [0; 4 * RUN];
            let rows = stored.chunks(width * RUN).zip(out.chunks_mut(8 * RUN)).enumerate();
            for (run, (stored, out)) in rows {
                let narrow = part_mut(&mut narrow, 0..4 * (stored.len() / width), "float32 values in a run")?;
                fixed(from, tables, run * RUN, stored, narrow)?;
                convert(|value: f32| f64::from(value), narrow, out);
            }
        }
        (Transform::Fixed { .. }, from, Dtype::F32) => fixed(from, tables, 0, stored, out)?,
        (Transform::Integer, Dtype::Bool, to) => {
            check_booleans(stored)?;
            integers(Dtype::U8, to, stored, out)?;
        }
        (Transform::Integer, from, to) => integers(from, to, stored, out)?,
        (_, from, to) => {
            return Err(Error::malformed(format!("the transform of the array cannot decode {from} to {to}")));
        }
    }
    if descriptor.codes != Codes::default() {
        put_codes(descriptor, stored, out)?;
    }
    Ok(())
}

/// Checks booleans, the only type with invalid elements.
fn copy_checked(dtype: Dtype, stored: &[u8], out: &mut [u8]) -> Result<()> {
    check_length("size of the elements in bytes", stored.len(), out.len())?;
    out.copy_from_slice(stored);
    if dtype == Dtype::Bool { check_booleans(stored) } else { Ok(()) }
}

fn check_booleans(stored: &[u8]) -> Result<()> {
    if stored.iter().fold(false, |any, b| any | (*b > 1)) {
        return Err(Error::malformed("the array is damaged: a boolean is neither 0 nor 1"));
    }
    Ok(())
}

/// Decodes fixed-point elements. `first` is the position of the first element within the piece.
fn fixed(from: Dtype, tables: &Tables, first: usize, stored: &[u8], out: &mut [u8]) -> Result<()> {
    match from {
        Dtype::U8 => fixed_of::<u8>(tables, first, stored, out),
        Dtype::U16 => fixed_of::<u16>(tables, first, stored, out),
        _ => Err(Error::format("stored type for fixed-point values", "uint8 or uint16", from)),
    }
}

fn fixed_of<S: Element + Default + Into<u16>>(
    tables: &Tables,
    first: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (mut from, mut to) = ([S::default(); RUN], [0.0_f32; RUN]);
    let mut top = 0_u16;
    let elements = first..first + stored.len() / size_of::<S>();
    let offset = part(&tables.offset, elements.clone(), "offsets for a piece")?;
    let bands = offset.chunks(RUN).zip(part(&tables.scale, elements, "scales for a piece")?.chunks(RUN));
    for ((stored, out), (offset, scale)) in stored.chunks(size_of::<S>() * RUN).zip(out.chunks_mut(4 * RUN)).zip(bands)
    {
        let count = stored.len() / size_of::<S>();
        S::load(stored, &mut from);
        for (((step, offset), scale), to) in from.iter().take(count).zip(offset).zip(scale).zip(&mut to) {
            let step: u16 = (*step).into();
            top = top.max(step);
            *to = offset + f32::from(step) * scale;
        }
        f32::store(&to, out);
    }
    if top > tables.top {
        return Err(Error::format("stored value of a fixed-point element", format!("at most {}", tables.top), top));
    }
    Ok(())
}

/// Converts stored integers to another type. The writer has checked that no value changes. A value from a
/// malicious file may wrap around, which does no harm.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    reason = "see above"
)]
fn integers(from: Dtype, to: Dtype, stored: &[u8], out: &mut [u8]) -> Result<()> {
    for_integer!(
        from,
        S => for_integer!(
            to,
            D => convert(|value: S| value as D, stored, out),
            Dtype::F16 => convert(|value: S| f16::from_f32(value as f32), stored, out),
            Dtype::F32 => convert(|value: S| value as f32, stored, out),
            Dtype::F64 => convert(|value: S| value as f64, stored, out),
            _ => return Err(Error::format("decoded type for the integer transform", "a numeric type", to)),
        ),
        _ => return Err(Error::format("stored type for the integer transform", "an integer type", from)),
    );
    Ok(())
}

fn convert<S: Element + Default, D: Element + Default>(each: impl Fn(S) -> D, stored: &[u8], out: &mut [u8]) {
    let (mut from, mut to) = ([S::default(); RUN], [D::default(); RUN]);
    for (stored, out) in stored.chunks(size_of::<S>() * RUN).zip(out.chunks_mut(size_of::<D>() * RUN)) {
        S::load(stored, &mut from);
        for (from, to) in from.iter().zip(&mut to) {
            *to = each(*from);
        }
        D::store(&to, out);
    }
}

fn put_codes(descriptor: &ArrayDescriptor, stored: &[u8], out: &mut [u8]) -> Result<()> {
    let (width, size) = (descriptor.stored.size(), descriptor.decoded.size());
    let no_data = descriptor.no_data.unwrap_or(f64::NAN);
    let codes = descriptor.codes;
    let pairs = [
        (codes.nan, f64::NAN),
        (codes.no_data, no_data),
        (codes.pos_inf, f64::INFINITY),
        (codes.neg_inf, f64::NEG_INFINITY),
    ];
    for (code, value) in pairs {
        let Some(code) = code else { continue };
        let (pattern, value) = (code.to_le_bytes(), special_bytes(value, descriptor.decoded));
        let pattern = part(&pattern, 0..width, "pattern for a special value")?;
        let value = part(&value, 0..size, "bytes for a special value")?;
        for (stored, out) in stored.chunks_exact(width).zip(out.chunks_exact_mut(size)) {
            if stored == pattern {
                out.copy_from_slice(value);
            }
        }
    }
    Ok(())
}

fn special_bytes(value: f64, dtype: Dtype) -> [u8; 8] {
    special_bits(value, dtype).to_le_bytes()
}

/// Returns the bits of a special value. On every processor, NaN becomes the positive quiet NaN with a zero payload.
#[allow(clippy::cast_possible_truncation, reason = "the writer rounds the no-data value in the same way")]
pub(crate) fn special_bits(value: f64, dtype: Dtype) -> u64 {
    match (dtype, value.is_nan()) {
        (Dtype::F16, true) => 0x7E00,
        (Dtype::F16, false) => f16::from_f64(value).to_bits().into(),
        (Dtype::F32, true) => 0x7FC0_0000,
        (Dtype::F32, false) => (value as f32).to_bits().into(),
        (_, true) => 0x7FF8_0000_0000_0000,
        (_, false) => value.to_bits(),
    }
}
