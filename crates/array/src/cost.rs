//! Cost model of reading and decoding, which the trial uses to choose settings (docs/adr/0002-choosing-a-codec.md).
//!
//! The model uses constants instead of a clock: the same inputs and options must produce the same bytes on every
//! machine, however busy it is.

use crate::filter::Filter;
use crate::settings::{ArrayLayout, ArraySettings};
use shardpack_format::Codec;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) payload_bytes: u64,
    pub(crate) stored_bytes: u64,
    /// Number of stored bytes that the coder outputs. All other stored bytes are runs or are stored unchanged.
    pub(crate) coded_bytes: u64,
    pub(crate) elements: u64,
}

/// Time to read a stored byte, in nanoseconds: 2 GB/s for the whole machine, the speed of a good drive or network.
const READ_NS: f64 = 0.5;
/// Number of cores that feed one GPU. They share the reading speed, but each core decodes on its own. A model with a
/// single core would nearly always choose no compression.
const CORES: f64 = 8.0;

/// Time to undo a filter, in nanoseconds per byte, including the copies between the coder's buffers.
const fn filter_ns(filter: Filter) -> f64 {
    match filter {
        Filter::None => COPY_NS,
        Filter::Shuffle => SHUFFLE_NS,
        Filter::Bitshuffle => BITSHUFFLE_NS,
        Filter::Bytedelta => BYTEDELTA_NS,
    }
}

// Nanoseconds per byte, measured by `examples/candidates.rs`. The ADR lists the runs and the fit.
const COPY_NS: f64 = 0.11;
const SHUFFLE_NS: f64 = 0.17;
const BITSHUFFLE_NS: f64 = 0.40;
const BYTEDELTA_NS: f64 = 0.31;
/// Time to undo the difference of a stored element, in nanoseconds. This is almost free, because differences are
/// undone while elements are assembled.
const DIFFERENCE_NS: f64 = 0.03;
/// Additional time per stored element of a band-major payload, in nanoseconds. It is spent on
/// traffic between caches and memory, which all cores share.
const BAND_MAJOR_NS: f64 = 0.27;

/// Predicts the time to read and decode an array on the host, in microseconds.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
pub(crate) fn host_us(settings: &ArraySettings, work: &Work) -> f64 {
    let mut per_element = 0.0;
    if settings.band_difference {
        per_element += DIFFERENCE_NS;
    }
    if settings.layout == ArrayLayout::BandMajor {
        per_element += BAND_MAJOR_NS;
    }
    let decode_ns = work.coded_bytes as f64 * settings.coder.spec().decode_ns
        + work.stored_bytes as f64 * filter_ns(settings.filter)
        + work.elements as f64 * per_element;
    (work.payload_bytes as f64 * READ_NS + decode_ns / CORES) * 1e-3
}

/// Time to stage a byte, in nanoseconds: 16 threads read from the page cache and check the CRC, and
/// the bytes cross the bus. This amounts to 28 GB/s.
const STAGE_NS: f64 = 0.036;

// Kernel times per stored byte, in nanoseconds. The kernel times of the coders are in the files of the coders.
const DEVICE_VALUES_NS: f64 = 0.0025;
const DEVICE_SHUFFLE_NS: f64 = 0.0003;
const DEVICE_BITSHUFFLE_NS: f64 = 0.0014;
/// Additional kernel time per stored byte in shape order, in nanoseconds. In this order, the bands of a pixel are
/// adjacent, so streams have more LZ4 sequences and fewer streams are stored unchanged.
const DEVICE_AS_SHAPE_NS: f64 = 0.0024;

/// Weight of the kernel time. If two candidates take about equally long to stage, the candidate with the faster
/// kernels wins. Training needs the rest of the device's time, and a dataset that stays on the device costs only kernel
/// time.
const KERNELS_SHARE: f64 = 0.25;

/// Predicts the time to stage an array for a GPU and to decode it there, in microseconds. Staging and kernels overlap
/// in the loader, so the longer of the two counts, plus a share of the kernel time.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
pub(crate) fn device_us(settings: &ArraySettings, work: &Work) -> f64 {
    let (payload, stored, coded) = (work.payload_bytes as f64, work.stored_bytes as f64, work.coded_bytes as f64);
    let coder = settings.coder.spec();
    let (staging_ns, coder_ns) = (payload * STAGE_NS, coded * coder.device_ns);
    let mut per_byte = DEVICE_VALUES_NS;
    per_byte += match settings.filter {
        Filter::None => 0.0,
        Filter::Shuffle => DEVICE_SHUFFLE_NS,
        // The byte delta was not measured separately.
        Filter::Bitshuffle | Filter::Bytedelta => DEVICE_BITSHUFFLE_NS,
    };
    if settings.layout == ArrayLayout::AsShape && coder.codec != Codec::Raw {
        per_byte += DEVICE_AS_SHAPE_NS;
    }
    let kernels_ns = coder_ns + stored * per_byte;
    (staging_ns.max(kernels_ns) + kernels_ns * KERNELS_SHARE) * 1e-3
}
