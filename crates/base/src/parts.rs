//! Provides parts of buffers, for bounds that the code itself has computed.
//!
//! A part that is out of bounds is therefore a bug, not damaged data, and becomes an `Internal` error. Returning an
//! empty part instead would silently leave wrong values in the output.

use shardpack_format::{Error, Result};
use std::ops::Range;

/// Returns the items in `range`.
///
/// # Errors
/// `Internal`, naming `what`, if there are too few items.
#[inline]
pub fn part<'a, T>(items: &'a [T], range: Range<usize>, what: &str) -> Result<&'a [T]> {
    let length = items.len();
    items.get(range.clone()).ok_or_else(|| missing(what, &range, length))
}

/// Returns the items in `range` as a mutable slice.
///
/// # Errors
/// `Internal`, naming `what`, if there are too few items.
#[inline]
pub fn part_mut<'a, T>(items: &'a mut [T], range: Range<usize>, what: &str) -> Result<&'a mut [T]> {
    let length = items.len();
    items.get_mut(range.clone()).ok_or_else(|| missing(what, &range, length))
}

/// Returns all items from index `first` to the end.
///
/// # Errors
/// `Internal`, naming `what`, if there are too few items.
#[inline]
pub fn rest<'a, T>(items: &'a [T], first: usize, what: &str) -> Result<&'a [T]> {
    items.get(first..).ok_or_else(|| missing(what, &(0..first), items.len()))
}

/// Splits the slice after the first `count` items.
///
/// # Errors
/// `Internal`, naming `what`, if there are too few items.
#[inline]
pub fn split_mut<'a, T>(items: &'a mut [T], count: usize, what: &str) -> Result<(&'a mut [T], &'a mut [T])> {
    let length = items.len();
    items.split_at_mut_checked(count).ok_or_else(|| missing(what, &(0..count), length))
}

/// Converts the width of an element, in bytes, to the integer type that the coders use.
///
/// # Errors
/// `Internal` if the width is not 1 to 8.
pub fn item_bytes(width: usize) -> Result<u8> {
    match u8::try_from(width) {
        Ok(bytes @ 1..=8) => Ok(bytes),
        _ => Err(Error::internal("element size in bytes", "1 to 8", width)),
    }
}

/// Checks that two buffers have the same length. Otherwise a loop over both would silently stop at the end of the
/// shorter one.
///
/// # Errors
/// `Internal` if the lengths differ.
#[inline]
pub fn check_length(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(other_length(what, expected, found)) }
}

#[cold]
fn missing(what: &str, range: &Range<usize>, length: usize) -> Error {
    Error::internal(what, format!("at least {}", range.end), length)
}

#[cold]
fn other_length(what: &str, expected: usize, found: usize) -> Error {
    Error::internal(what, expected, found)
}

/// Returns the first `length` bytes of `buffer`, with unspecified content. The buffer grows if it is too small, but
/// never shrinks.
pub fn grow(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    // The split cannot panic, because the buffer is long enough now.
    buffer.split_at_mut(length).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_is_an_internal_error() {
        let mut items = [1, 2, 3];
        assert_eq!(part(&items, 1..3, "items").unwrap(), [2, 3]);
        assert_eq!(rest(&items, 3, "items").unwrap(), [0; 0]);
        assert_eq!(split_mut(&mut items, 1, "items").unwrap().1, [2, 3]);
        assert_eq!(item_bytes(8).unwrap(), 8);
        let errors = [
            part(&items, 1..4, "items").unwrap_err(),
            rest(&items, 4, "items").unwrap_err(),
            part_mut(&mut items, 2..9, "items").unwrap_err(),
            split_mut(&mut items, 4, "items").unwrap_err(),
            item_bytes(0).unwrap_err(),
            item_bytes(9).unwrap_err(),
            check_length("items", 3, 2).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::Internal { .. }), "{error}");
        }
    }
}
