//! Converts between sizes in memory and on disk, which are both 64-bit numbers.

const _: () = assert!(usize::BITS == 64, "shardpack needs a platform with 64-bit addresses");

/// Converts a size, position or count from a file to `usize`.
///
/// The conversion is exact, because the crate compiles only where `usize` has 64 bits.
///
/// ```
/// assert_eq!(shardpack_format::to_usize(u64::MAX), usize::MAX);
/// ```
#[expect(clippy::cast_possible_truncation, reason = "the assertion above: usize has 64 bits")]
pub fn to_usize(number: impl Into<u64>) -> usize {
    number.into() as usize
}

/// Converts a count or width to 32 bits. Larger numbers become `u32::MAX`.
///
/// ```
/// assert_eq!(shardpack_format::saturating_u32(7_usize), 7);
/// assert_eq!(shardpack_format::saturating_u32(1_usize << 32), u32::MAX);
/// ```
#[must_use]
pub fn saturating_u32<N: TryInto<u32>>(number: N) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// Converts a size in bytes or a time in nanoseconds to 64 bits. Larger numbers become `u64::MAX`.
///
/// ```
/// assert_eq!(shardpack_format::saturating_u64(1_u128 << 64), u64::MAX);
/// ```
#[must_use]
pub fn saturating_u64<N: TryInto<u64>>(number: N) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

/// Converts a size or a time in nanoseconds to a signed 64-bit number. Larger numbers become `i64::MAX`.
///
/// ```
/// assert_eq!(shardpack_format::saturating_i64(u64::MAX), i64::MAX);
/// ```
#[must_use]
pub fn saturating_i64<N: TryInto<i64>>(number: N) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
