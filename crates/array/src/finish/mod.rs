//! Converts decoded elements to batch elements: changes the float type, normalises each band, and flips or rotates
//! the pixels. The GPU kernels produce the same results, bit for bit.

mod factors;
mod fill;
mod room;
mod runs;
mod singles;
mod taker;
mod target;
#[cfg(test)]
mod tests;
mod volume;
#[cfg(test)]
mod volume_tests;
mod warped;

pub use factors::Factors;
pub use fill::{Fill, NoDataBits, element_bytes, integer_bytes};
pub(crate) use room::place;
pub use room::{Origins, OutputRow};
pub use runs::change_runs;
pub(crate) use taker::{Taker, TakerScratch};
pub(crate) use target::Target;

use crate::turn::Turn;
use crate::volume_warp::VolumeWarp;
use crate::warp::{Resampling, Warp};
use shardpack_base::parts::part;
use shardpack_format::{Dtype, ElementType, Error, Layout, Result, to_usize};
use std::ops::Range;

/// Type of the output values.
///
/// Values are converted to 16-bit floats in two steps, by way of float32. Each step rounds to the nearest, ties to
/// even, and values out of range become infinite. A NaN becomes quiet and keeps its sign and the upper bits of its
/// payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum As {
    /// The type of the array itself.
    #[default]
    Decoded,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a float32.
    Bf16,
    /// IEEE binary32.
    F32,
}

impl As {
    /// Returns the variant for the given element type, or `None` if the type is not a float of at most 32 bits.
    #[must_use]
    pub const fn float(element: ElementType) -> Option<Self> {
        match element {
            ElementType::Dtype(Dtype::F16) => Some(Self::F16),
            ElementType::Bf16 => Some(Self::Bf16),
            ElementType::Dtype(Dtype::F32) => Some(Self::F32),
            ElementType::Dtype(_) => None,
        }
    }

    /// Returns the output type if the decoded elements have type `decoded`.
    ///
    /// # Errors
    /// `Usage` if booleans would be converted to floats.
    pub fn of(self, decoded: Dtype) -> Result<ElementType> {
        let to = match self {
            Self::Decoded => decoded.into(),
            Self::F16 => Dtype::F16.into(),
            Self::Bf16 => ElementType::Bf16,
            Self::F32 => Dtype::F32.into(),
        };
        match decoded {
            Dtype::Bool if to != Dtype::Bool => Err(Error::usage(format!("a bool array cannot be converted to {to}"))),
            _ => Ok(to),
        }
    }
}

/// How decoded elements are converted to batch elements. The default leaves them unchanged.
///
/// ```
/// use shardpack_array::{As, Factors, Finish, Turn};
/// use shardpack_format::{Dtype, Layout};
/// let finish = Finish {
///     to: As::F32,
///     factors: Some(Factors::new(&[1.0, 2.0], &[2.0, 4.0])?),
///     turn: Turn { flip_columns: true, ..Turn::NONE },
///     ..Finish::NOTHING
/// };
/// // [1, 2, 2]: two pixels of two bands.
/// let mut out = vec![0; 16];
/// finish.apply(Dtype::U8, [1, 2, 2], Layout::AsShape, &[1, 2, 3, 6], &mut out)?;
/// assert_eq!(out, [1.0_f32, 1.0, 0.0, 0.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// Type of the output values.
    pub to: As,
    /// Normalisation of the values, if any. Requires a float type.
    pub factors: Option<Factors>,
    /// Replacement of no-data, if any. Requires a float type.
    pub fill: Option<Fill>,
    /// Affine map of the pixels, applied before flips and rotations.
    pub warp: Option<Warp>,
    /// Affine map and low resolution for a box of a volume. Used instead of `warp` by
    /// [`Finish::apply_to_volume`].
    pub volume: Option<VolumeWarp>,
    /// Flips and rotations of the pixels.
    pub turn: Turn,
}

impl From<As> for Finish {
    fn from(to: As) -> Self {
        Self { to, ..Self::NOTHING }
    }
}

impl Finish {
    /// A conversion that neither changes nor moves elements.
    pub const NOTHING: Self =
        Self { to: As::Decoded, factors: None, fill: None, warp: None, volume: None, turn: Turn::NONE };

    /// True if this conversion neither changes nor moves elements of the given type.
    #[must_use]
    pub fn is_nothing(&self, decoded: Dtype) -> bool {
        self.factors.is_none()
            && self.fill.is_none()
            && self.warp.is_none()
            && self.volume.is_none()
            && self.turn.is_none()
            && self.to.of(decoded).is_ok_and(|to| to == decoded)
    }

    /// Checks that this conversion fits an array with the given numbers of rows, columns and bands. Returns the output
    /// type.
    ///
    /// # Errors
    /// `Usage` in these cases:
    ///
    /// - Booleans would be converted to floats.
    /// - Values are normalised or interpolated, or no-data is replaced, but the output is not a float of at most 32
    ///   bits.
    /// - The output type cannot represent the value outside the array.
    /// - The number of factors is neither 1 nor the number of bands.
    /// - Rows and columns are exchanged, but the array is not square.
    pub fn check(&self, decoded: Dtype, [rows, columns, bands]: [u64; 3]) -> Result<ElementType> {
        let element = self.to.of(decoded)?;
        let floats = [
            ("normalised arrays", self.factors.is_some()),
            ("arrays with replaced no-data values", self.fill.is_some()),
        ];
        if let (None, Some((what, _))) = (As::float(element), floats.into_iter().find(|(_, is_asked)| *is_asked)) {
            return Err(Error::usage(format!(
                "{what} must be loaded as float16, bfloat16 or float32, not as {element}"
            )));
        }
        if let Some(factors) = &self.factors {
            factors.check(bands)?;
        }
        match self.sampling() {
            Some(Resampling::Bilinear { .. }) if As::float(element).is_none() => {
                let text = "interpolated arrays must be loaded as float16, bfloat16 or float32";
                return Err(Error::usage(format!("{text}, not as {element}")));
            }
            Some(Resampling::Nearest { outside }) if element_bytes(element, outside).is_none() => {
                return Err(Error::usage(format!(
                    "{element} cannot represent the fill value {outside} for pixels outside the array"
                )));
            }
            _ => {}
        }
        if self.turn.transpose && rows != columns {
            let found = format!("{rows} × {columns}");
            return Err(Error::usage(format!("rotations by 90° need a square array, but this one is {found}")));
        }
        Ok(element)
    }

    /// Returns how the affine map resamples pixels or voxels, or `None` if there is no map.
    fn sampling(&self) -> Option<Resampling> {
        self.volume.as_ref().map(|volume| volume.sampling).or(self.warp.map(|warp| warp.sampling))
    }

    /// Converts the decoded `elements` of an array with the given numbers of rows, columns and bands. Writes them to
    /// `out` in little-endian order. Input and output are in the order of `layout`.
    ///
    /// # Errors
    /// Same as [`Finish::check`]; also `Usage` if `elements` or `out` has the wrong length.
    pub fn apply(
        &self,
        decoded: Dtype,
        shape: [u64; 3],
        layout: Layout,
        elements: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let target = Target::new(self, decoded, shape, layout, layout)?;
        check_bytes(decoded.array_bytes(&shape)?, elements, target.element().array_bytes(&shape)?, out)?;
        let (mut scratch, mut out) = (TakerScratch::default(), out);
        let mut taker = Taker::new(&target, &mut scratch, &mut out, 0);
        taker.take(elements)?;
        taker.finish()
    }

    /// Converts a window of an array, given as a range of rows and a range of columns. `elements` contains all decoded
    /// elements of the array, in the order rows, columns, bands. The output is in the order of `layout`.
    ///
    /// ```
    /// use shardpack_array::{As, Finish};
    /// use shardpack_format::{Dtype, Layout};
    /// // The last two pixels of the second of two rows of three, with one band.
    /// let mut out = vec![0; 8];
    /// let (shape, layout, window) = ([2, 3, 1], Layout::AsShape, [1..2, 1..3]);
    /// Finish::from(As::F32).apply_to_window(Dtype::U8, shape, layout, window, &[0, 1, 2, 3, 4, 5], &mut out)?;
    /// assert_eq!(out, [4.0_f32, 5.0].map(f32::to_le_bytes).concat());
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Finish::check`]; also `Usage` if the window is not inside the array, or `elements` or `out` has the
    /// wrong length.
    pub fn apply_to_window(
        &self,
        decoded: Dtype,
        shape: [u64; 3],
        layout: Layout,
        window: [Range<u64>; 2],
        elements: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let [rows, columns, bands] = shape;
        let [y, x] = &window;
        if y.start > y.end || y.end > rows || x.start > x.end || x.end > columns {
            return Err(Error::usage(format!(
                "the window {window:?} is not within the array of {rows} × {columns} pixels"
            )));
        }
        let size = [y.end - y.start, x.end - x.start, bands];
        let is_held = self.turn.transpose || self.warp.is_some();
        let target = match is_held {
            // Rows become columns or are interpolated, so the window is copied and then converted like a whole array.
            true => Target::new(self, decoded, size, Layout::AsShape, layout)?,
            false => Target::of_window(self, decoded, shape, Layout::AsShape, layout, window.clone())?,
        };
        check_bytes(decoded.array_bytes(&shape)?, elements, target.element().array_bytes(&size)?, out)?;
        let pixel = to_usize(bands) * decoded.size();
        let run = to_usize(size[1]) * pixel;
        let (mut scratch, mut out) = (TakerScratch::default(), out);
        let mut taker = Taker::new(&target, &mut scratch, &mut out, 0);
        taker.expect(to_usize(size[0]) * to_usize(size[1]));
        for row in y.clone() {
            let first = to_usize(row * columns + x.start);
            if !is_held {
                taker.skip_to(first)?;
            }
            taker.take(part(elements, first * pixel..first * pixel + run, "window row")?)?;
        }
        taker.finish()
    }
}

/// Error for a fill value that the element type cannot represent. Options with such a value are refused earlier.
fn unfit_fill(element: ElementType, outside: f64) -> Error {
    Error::internal(format!("the value {outside} for places outside the array does not fit in {element}"), "", "")
}

fn check_bytes(decoded: u64, elements: &[u8], output: u64, out: &[u8]) -> Result<()> {
    for (what, expected, found) in [("decoded elements", decoded, elements.len()), ("output buffer", output, out.len())]
    {
        if found as u64 != expected {
            return Err(Error::usage(format!("the {what} must have {expected} bytes, not {found}")));
        }
    }
    Ok(())
}
