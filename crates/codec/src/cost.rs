//! What it costs to read and decode: the model by which the trial chooses (docs/adr/0002-choosing-a-codec.md).
//!
//! Constants, not a clock: the same inputs and options must give the same bytes on every machine, however busy it is.

use crate::settings::{ArrayLayout, ArraySettings, Coder, Filter};

/// Assumed rate at which stored bytes arrive: one core's share of a good NVMe drive or network, and of the copy out of the page cache.
const READ_NS_PER_BYTE: f64 = 0.5;

/// Nanoseconds to undo the coder and the filter, for each stored byte, one core. Measured by `examples/candidates.rs`; the runs are in the
/// ADR.
const fn decode_ns_per_byte(coder: Coder, filter: Filter) -> f64 {
    match (coder, filter) {
        (Coder::Raw, _) => 0.03,
        (Coder::Blosc2Lz4 | Coder::Blosc2Lz4hc, Filter::None) => 0.30,
        (Coder::Blosc2Lz4 | Coder::Blosc2Lz4hc, Filter::Shuffle) => 0.20,
        (Coder::Blosc2Lz4 | Coder::Blosc2Lz4hc, Filter::Bitshuffle) => 0.33,
        (Coder::Blosc2Lz4 | Coder::Blosc2Lz4hc, Filter::Bytedelta) => 0.29,
        (Coder::Blosc2Zstd | Coder::Zstd, Filter::None) => 0.80,
        (Coder::Blosc2Zstd | Coder::Zstd, Filter::Shuffle) => 0.50,
        (Coder::Blosc2Zstd | Coder::Zstd, Filter::Bitshuffle) => 0.60,
        (Coder::Blosc2Zstd | Coder::Zstd, Filter::Bytedelta) => 0.90,
    }
}

/// Nanoseconds to undo the difference along the bands, for each stored element.
const DIFFERENCE_NS: f64 = 0.5;
/// Nanoseconds to bring the bands back to the end, for each stored element.
const BAND_MAJOR_NS: f64 = 0.4;

/// Predicted time in seconds to read and decode `payload_bytes` into `stored_bytes` of `elements`.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
pub(crate) fn read_seconds(settings: &ArraySettings, payload_bytes: u64, stored_bytes: u64, elements: u64) -> f64 {
    let mut per_element = 0.0;
    if settings.band_difference {
        per_element += DIFFERENCE_NS;
    }
    if settings.layout == ArrayLayout::BandMajor {
        per_element += BAND_MAJOR_NS;
    }
    let ns = payload_bytes as f64 * READ_NS_PER_BYTE
        + stored_bytes as f64 * decode_ns_per_byte(settings.coder, settings.filter)
        + elements as f64 * per_element;
    ns * 1e-9
}
