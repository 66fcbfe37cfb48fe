//! Derives the limits of a reader from the size of the largest record to accept.

use shardpack_format::Limits;

/// Default limit on the largest record or decoded field: 4 GiB.
pub const MAX_RECORD_BYTES: u64 = shardpack_recipe::MAX_BYTES;

/// Returns limits that allow records and decoded fields of up to `max_record` bytes. Runs of a
/// repeated value may decode to an eighth of `max_record` or, if that is larger, to their default
/// limit, but never to more than `max_record`. All other limits keep their defaults.
///
/// ```
/// let limits = shardpack::read_limits(shardpack::MAX_RECORD_BYTES);
/// assert_eq!((limits.max_record_bytes, limits.max_decoded_bytes), (4 << 30, 4 << 30));
/// let runs = |max_record| shardpack::read_limits(max_record).max_run_bytes;
/// assert_eq!([4 << 30, 1 << 30, 8 << 30, 1 << 20].map(runs), [512 << 20, 512 << 20, 1 << 30, 1 << 20]);
/// ```
#[must_use]
pub fn read_limits(max_record: u64) -> Limits {
    let defaults = Limits::default();
    Limits {
        max_record_bytes: max_record,
        max_decoded_bytes: max_record,
        max_run_bytes: (max_record / 8).max(defaults.max_run_bytes).min(max_record),
        ..defaults
    }
}
