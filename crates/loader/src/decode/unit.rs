//! Detects coordinates that are clearly in the wrong unit. If pixels are read as relative coordinates, everything lies
//! outside the picture. If relative coordinates are read as pixels, everything lies inside the first pixel.

use shardpack_format::{Error, Result};

/// Largest plausible relative coordinate, as a multiple of the picture's side.
const FAR: f64 = 10.0;

/// Evidence for whether coordinates are relative or in pixels. `N` numbers belong together: a point or a box.
pub(super) struct UnitEvidence<const N: usize> {
    /// First numbers that are too large to be relative coordinates.
    far: Option<[f64; N]>,
    /// True if a coordinate is outside the range 0 to 1.
    beyond: bool,
    /// First numbers that are not all whole pixels.
    between: Option<[f64; N]>,
}

impl<const N: usize> Default for UnitEvidence<N> {
    fn default() -> Self {
        Self { far: None, beyond: false, between: None }
    }
}

impl<const N: usize> UnitEvidence<N> {
    pub(super) fn see(&mut self, numbers: [f64; N]) {
        if !numbers.iter().all(|number| number.is_finite()) {
            return;
        }
        if self.far.is_none() && numbers.iter().any(|number| number.abs() > FAR) {
            self.far = Some(numbers);
        }
        self.beyond |= !numbers.iter().all(|number| (0.0..=1.0).contains(number));
        if self.between.is_none() && numbers.iter().any(|number| number.fract() != 0.0) {
            self.between = Some(numbers);
        }
    }

    /// Fails if the coordinates are in the other unit. `noun` is the plural of what they describe, and `one` is the
    /// phrase for the numbers that the message shows.
    pub(super) fn check(&self, relative: bool, noun: &str, one: &str) -> Result<()> {
        match (relative, self.far, self.beyond, self.between) {
            (true, Some(numbers), ..) => Err(Error::usage(format!(
                "relative {noun} must be fractions of the picture's sides, but {one} is {numbers:?}"
            ))
            .with_hint(format!("leave out `relative` if the {noun} are in pixels"))),
            (false, _, false, Some(numbers)) => Err(Error::usage(format!(
                "{noun} must be in pixels, but all numbers in the sample are from 0 to 1, for example {numbers:?}"
            ))
            .with_hint(format!("declare the {noun} as relative if they are fractions of the picture's sides"))),
            _ => Ok(()),
        }
    }
}
