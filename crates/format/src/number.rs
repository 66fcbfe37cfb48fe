//! Sizes in memory and sizes on disk: both have 64 bits.

const _: () = assert!(usize::BITS == 64, "shardpack needs a platform with 64-bit addresses");

/// A size or position in memory, from one of a file or a count.
///
/// It loses nothing: the crate does not compile where `usize` has other than 64 bits.
///
/// ```
/// assert_eq!(shardpack_format::to_usize(u64::MAX), usize::MAX);
/// ```
#[expect(clippy::cast_possible_truncation, reason = "the assertion above: usize has 64 bits")]
pub fn to_usize(number: impl Into<u64>) -> usize {
    number.into() as usize
}
