//! Option values as the caller passes them, and their conversion to typed values.

use crate::{ArgumentError, Word, parse_size};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The value of an option, as passed by the caller. Numbers may also be passed as text.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A switch: on or off.
    Switch(bool),
    /// An integer.
    Integer(i128),
    /// A number that may have a fraction.
    Float(f64),
    /// A word, or any other value as text.
    Text(String),
    /// A path, which may contain invalid Unicode.
    Path(PathBuf),
    /// Two numbers: a height and a width, or a part and the number of parts.
    Pair(u64, u64),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Path(path) => path.display().fmt(f),
            Self::Pair(first, second) => write!(f, "({first}, {second})"),
        }
    }
}

type Result<T, E = ArgumentError> = std::result::Result<T, E>;

/// An option value with the name of its option.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// Name of the option.
    pub option: &'static str,
    /// The value, as passed by the caller.
    pub value: &'a OptionValue,
}

impl Given<'_> {
    fn refused(self, expected: impl fmt::Display) -> ArgumentError {
        ArgumentError::new(self.option, expected, format!("`{}`", self.value.to_string().escape_debug()))
    }

    /// Parses the value's text with `parse`.
    ///
    /// # Errors
    /// Fails if `parse` does not accept the value.
    pub fn read<T>(self, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T> {
        parse(&self.value.to_string()).map_err(|said| ArgumentError::of(self.option, said))
    }

    /// Reads a value that is spelled as one of the words of `T`.
    ///
    /// # Errors
    /// Fails if the value is not one of the words.
    pub fn word<T: Word>(self) -> Result<T> {
        self.read(T::parse)
    }

    /// Reads a switch, which is on or off.
    ///
    /// # Errors
    /// Fails if the value is not a switch.
    pub fn switch(self) -> Result<bool> {
        match self.value {
            OptionValue::Switch(on) => Ok(*on),
            OptionValue::Text(text) if text == "true" || text == "false" => Ok(text == "true"),
            _ => Err(self.refused("true or false")),
        }
    }

    /// Reads an integer within a range.
    ///
    /// # Errors
    /// Fails if the value is not an integer within the range.
    pub fn integer<T>(self, range: RangeInclusive<T>) -> Result<T>
    where
        T: TryFrom<i128> + PartialOrd + fmt::Display,
    {
        let number = match self.value {
            OptionValue::Integer(number) => Some(*number),
            OptionValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number));
        number.ok_or_else(|| self.refused(format_args!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// Reads a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub fn float(self) -> Result<f64> {
        let number = match self.value {
            OptionValue::Float(number) => Some(*number),
            #[allow(clippy::cast_precision_loss, reason = "any number is accepted here")]
            OptionValue::Integer(number) => Some(*number as f64),
            OptionValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.refused("a number"))
    }

    /// Reads a size in bytes, with or without a unit.
    ///
    /// # Errors
    /// Fails if the value is not a size.
    pub fn size(self) -> Result<u64> {
        self.read(parse_size)
    }

    /// Reads a number of threads.
    ///
    /// # Errors
    /// Fails if the value is not a number of threads.
    pub fn threads(self) -> Result<usize> {
        self.read(parse_threads)
    }

    /// Reads any value as text.
    ///
    /// # Errors
    /// Never fails. Returns a result only so that all readers of values are used alike.
    pub fn text(self) -> Result<String> {
        Ok(self.value.to_string())
    }

    /// Reads any value as a path.
    ///
    /// # Errors
    /// Same as [`text`](Self::text).
    pub fn path(self) -> Result<PathBuf> {
        Ok(match self.value {
            OptionValue::Path(path) => path.clone(),
            other => other.to_string().into(),
        })
    }

    /// Reads a height and a width.
    ///
    /// # Errors
    /// Fails if the value is not a height and a width.
    pub fn spatial(self) -> Result<(u64, u64)> {
        match *self.value {
            OptionValue::Pair(height, width) => parse_spatial(&format!("{height}x{width}")),
            ref other => parse_spatial(&other.to_string()),
        }
        .map_err(|said| ArgumentError::of(self.option, said))
    }

    /// Reads a part and the number of parts.
    ///
    /// # Errors
    /// Fails if the value is not a part and a number of parts.
    pub fn part(self) -> Result<(u32, u32)> {
        match *self.value {
            OptionValue::Pair(part, of) => parse_part(&format!("{part}/{of}")),
            ref other => parse_part(&other.to_string()),
        }
        .map_err(|said| ArgumentError::of(self.option, said))
    }
}

/// Parses a height and a width such as `480x640`.
///
/// # Errors
/// A message that states the expected and the found value.
pub fn parse_spatial(text: &str) -> Result<(u64, u64), String> {
    let fail = || format!("`{text}` is not a valid height and width: expected two positive integers, such as 100x120");
    let (h, w) = text.split_once(['x', 'X', '×']).ok_or_else(fail)?;
    match (h.trim().parse(), w.trim().parse()) {
        (Ok(h), Ok(w)) if h > 0 && w > 0 => Ok((h, w)),
        _ => Err(fail()),
    }
}

/// Parses `2/8` as part 2 of 8. Parts are counted from 1.
///
/// # Errors
/// Same as [`parse_spatial`].
pub fn parse_part(text: &str) -> Result<(u32, u32), String> {
    let fail = || format!("`{text}` is not a valid part: expected I/N with I from 1 to N, such as 1/4");
    let (i, n) = text.split_once('/').ok_or_else(fail)?;
    match (i.trim().parse(), n.trim().parse()) {
        (Ok(i), Ok(n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err(fail()),
    }
}

/// Parses a target score such as `ssimulacra2=80`.
///
/// # Errors
/// Same as [`parse_spatial`].
pub fn parse_target(text: &str) -> Result<f64, String> {
    let fail = || format!("expected ssimulacra2=SCORE with a score from 1 to 100, found `{text}`");
    let score = text.strip_prefix("ssimulacra2=").and_then(|score| score.parse().ok()).ok_or_else(fail)?;
    if (1.0..=100.0).contains(&score) { Ok(score) } else { Err(fail()) }
}

/// Parses a number of threads.
///
/// # Errors
/// Same as [`parse_spatial`].
pub fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1024) => Ok(n),
        _ => Err(format!("expected a number from 1 to 1024, found `{text}`")),
    }
}
