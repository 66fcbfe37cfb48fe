//! From decoded elements to those of a batch: another float type, mean and standard deviation of
//! each band, and pixels turned. Kernels do the same, to the bit.

mod factors;
mod runs;
mod singles;
#[cfg(test)]
mod tests;

pub use factors::Factors;
pub use runs::change_runs;

use crate::turn::Turn;
use shardpack_base::parts::{part, part_mut};
use shardpack_format::{Dtype, ElementType, Error, Layout, Result};
use singles::RUN;

/// In which type values come out.
///
/// The shorter floats are made from the decoded value by way of float32: each of the two steps
/// rounds to the nearest, ties to even, and what is too large becomes infinite. A NaN keeps its
/// sign and the upper bits of its payload, and becomes quiet.
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
    /// What makes elements of this type; `None` if it is no float of at most 32 bits.
    #[must_use]
    pub const fn float(element: ElementType) -> Option<Self> {
        match element {
            ElementType::Dtype(Dtype::F16) => Some(Self::F16),
            ElementType::Bf16 => Some(Self::Bf16),
            ElementType::Dtype(Dtype::F32) => Some(Self::F32),
            ElementType::Dtype(_) => None,
        }
    }

    /// The type of what comes out for an array of `decoded` elements.
    ///
    /// # Errors
    /// `Usage` if a boolean is to become a float.
    pub fn of(self, decoded: Dtype) -> Result<ElementType> {
        let to = match self {
            Self::Decoded => decoded.into(),
            Self::F16 => Dtype::F16.into(),
            Self::Bf16 => ElementType::Bf16,
            Self::F32 => Dtype::F32.into(),
        };
        match decoded {
            Dtype::Bool if to != Dtype::Bool => {
                Err(Error::usage("element type of the output", "bool, as the array has it", to))
            }
            _ => Ok(to),
        }
    }
}

/// What becomes of decoded elements, by default nothing.
///
/// ```
/// use shardpack_array::{As, Factors, Finish, Turn};
/// use shardpack_format::{Dtype, Layout};
/// let finish = Finish {
///     to: As::F32,
///     factors: Some(Factors::new(&[1.0, 2.0], &[2.0, 4.0])?),
///     turn: Turn { flip_columns: true, ..Turn::NONE },
/// };
/// // [1, 2, 2]: two pixels of two bands.
/// let mut out = vec![0; 16];
/// finish.apply(Dtype::U8, ([1, 2, 2], Layout::AsShape), &[1, 2, 3, 6], &mut out)?;
/// assert_eq!(out, [1.0_f32, 1.0, 0.0, 0.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// Type of the output.
    pub to: As,
    /// Normalisation, of a float type.
    pub factors: Option<Factors>,
    /// Where pixels go.
    pub turn: Turn,
}

impl From<As> for Finish {
    fn from(to: As) -> Self {
        Self { to, ..Self::NOTHING }
    }
}

impl Finish {
    /// Elements stay what and where they are.
    pub const NOTHING: Self = Self { to: As::Decoded, factors: None, turn: Turn::NONE };

    /// Whether elements of this type stay what and where they are.
    #[must_use]
    pub fn is_nothing(&self, decoded: Dtype) -> bool {
        self.factors.is_none() && self.turn.is_none() && self.to.of(decoded).is_ok_and(|to| to == decoded)
    }

    /// Fails unless this can be done to an array of so many rows, columns and bands.
    ///
    /// # Errors
    /// `Usage` if a boolean is to become a float, values are to be normalised to another type than
    /// a float of at most 32 bits, there is neither one factor for all bands nor one for each, or
    /// rows and columns are to change places and there are not as many of both.
    pub fn check(&self, decoded: Dtype, [rows, columns, bands]: [u64; 3]) -> Result<ElementType> {
        let element = self.to.of(decoded)?;
        if let Some(factors) = &self.factors {
            if As::float(element).is_none() {
                return Err(Error::usage("normalised values", "float16, bfloat16 or float32", element));
            }
            factors.check(bands)?;
        }
        if self.turn.transpose && rows != columns {
            let found = format!("{rows} × {columns}");
            return Err(Error::usage("array to turn by a quarter", "as many rows as columns", found));
        }
        Ok(element)
    }

    /// Makes the elements of the output, little-endian, into the whole of `out`. `elements` are
    /// decoded ones, of so many rows, columns and bands, in the order of the layout, which the
    /// output has too.
    ///
    /// # Errors
    /// As [`Finish::check`]; `Usage` if `elements` or `out` have another length.
    pub fn apply(
        &self,
        decoded: Dtype,
        (shape, layout): ([u64; 3], Layout),
        elements: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let element = self.check(decoded, shape)?;
        for (what, expected, found) in [
            ("decoded elements", decoded.array_bytes(&shape)?, elements.len()),
            ("output buffer", element.array_bytes(&shape)?, out.len()),
        ] {
            if found as u64 != expected {
                return Err(Error::usage(what, format!("{expected} bytes"), found));
            }
        }
        if out.is_empty() {
            return Ok(());
        }
        // No axis is 0, so each is at most the number of bytes.
        let [rows, columns, bands] = shape.map(|axis| usize::try_from(axis).unwrap_or(usize::MAX));
        let (planes, each) = match layout {
            Layout::AsShape => (1, bands),
            Layout::BandMajor => (bands, 1),
        };
        let job = Job { finish: self, decoded, element, size: [rows, columns], each };
        let plane = rows * columns * each;
        let mut row = Vec::new();
        let out_planes = out.chunks_exact_mut(plane * element.size());
        for (number, (from, to)) in elements.chunks_exact(plane * decoded.size()).zip(out_planes).enumerate() {
            job.plane(if planes == 1 { 0 } else { number }, from, to, &mut row)?;
        }
        Ok(())
    }
}

/// The work on an array.
struct Job<'a> {
    finish: &'a Finish,
    decoded: Dtype,
    element: ElementType,
    /// Rows and columns.
    size: [usize; 2],
    /// Elements of a pixel that stand beside each other.
    each: usize,
}

impl Job<'_> {
    /// A plane, of which `band` is the first band. `row` is scratch memory.
    fn plane(&self, band: usize, from: &[u8], to: &mut [u8], row: &mut Vec<u8>) -> Result<()> {
        let turn = &self.finish.turn;
        let [_, columns] = self.size;
        let (length, length_out) =
            (columns * self.each * self.decoded.size(), columns * self.each * self.element.size());
        let converts = self.finish.factors.is_some() || self.element != self.decoded;
        // Row by row of the output, so that what is written is written once and in order. Of a
        // transposed plane a row reads one element of each row of the array; the rows of cache that it
        // touches serve the rows after it.
        for (number, out) in to.chunks_exact_mut(length_out).enumerate() {
            if !turn.transpose && !turn.flip_columns {
                let [y, _] = turn.source([number, 0], self.size);
                let from = part(from, y * length..(y + 1) * length, "row of an array")?;
                match converts {
                    true => self.convert(band, from, out)?,
                    false => out.copy_from_slice(from),
                }
                continue;
            }
            if !converts {
                self.gather(number, from, out)?;
                continue;
            }
            row.resize(length, 0);
            self.gather(number, from, row)?;
            self.convert(band, row, out)?;
        }
        Ok(())
    }

    /// Row `number` of the turned plane.
    fn gather(&self, number: usize, from: &[u8], out: &mut [u8]) -> Result<()> {
        let pixel = self.each * self.decoded.size();
        // Lengths that the compiler knows make copies single instructions.
        match pixel {
            1 => self.gather_pixels::<1>(number, from, out),
            2 => self.gather_pixels::<2>(number, from, out),
            4 => self.gather_pixels::<4>(number, from, out),
            8 => self.gather_pixels::<8>(number, from, out),
            _ => {
                for (column, to) in out.chunks_exact_mut(pixel).enumerate() {
                    let at = self.source(number, column) * pixel;
                    to.copy_from_slice(part(from, at..at + pixel, "pixel of an array")?);
                }
                Ok(())
            }
        }
    }

    fn gather_pixels<const N: usize>(&self, number: usize, from: &[u8], out: &mut [u8]) -> Result<()> {
        let from = from.as_chunks::<N>().0;
        for (column, to) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let at = self.source(number, column);
            *to = *from.get(at).ok_or_else(|| Error::internal("pixel of an array", from.len(), at))?;
        }
        Ok(())
    }

    /// Number of the pixel of the array that comes to a place of the output.
    const fn source(&self, row: usize, column: usize) -> usize {
        let [y, x] = self.finish.turn.source([row, column], self.size);
        // As many columns as rows, if they change places.
        let [_, columns] = self.size;
        y * columns + x
    }

    /// Elements of one row, whose first one has the band `band`.
    fn convert(&self, band: usize, from: &[u8], out: &mut [u8]) -> Result<()> {
        let mut singles = [0.0; RUN];
        let (width, size) = (self.decoded.size(), self.element.size());
        for (number, (from, out)) in from.chunks(RUN * width).zip(out.chunks_mut(RUN * size)).enumerate() {
            let run = part_mut(&mut singles, 0..from.len() / width, "elements of a run")?;
            singles::load(self.decoded, from, run);
            if let Some(factors) = &self.finish.factors {
                match self.each {
                    1 => factors.normalise_band(band, run),
                    each => factors.normalise(number * RUN % each, run),
                }
            }
            singles::store(self.element, run, out);
        }
        Ok(())
    }
}
