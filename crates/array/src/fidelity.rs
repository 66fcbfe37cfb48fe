//! Precision lost by a lossy value transform, measured on the values that a reader decodes.

use crate::angles::Angles;
use crate::element::Comparison;
use crate::element::Float;
use fearless_simd::prelude::{Simd, SimdBase, SimdFrom};
use fearless_simd::{Level, dispatch, f64x8};
use serde::{Deserialize, Serialize};

/// Smallest normal number of float16, 2⁻¹⁴. The relative error of a smaller value is meaningless.
pub const F16_MIN_NORMAL: f64 = 6.103_515_625e-5;

/// Fidelity figures of one array, or the merged figures of several arrays.
///
/// Lossless storage has no errors, so none are measured. Errors and angles exclude NaN, infinities and no-data.
///
/// ```
/// use shardpack_array::Fidelity;
/// let mut total = Fidelity { values: 10, max_abs_error: 0.5, ..Default::default() };
/// total.merge(&Fidelity { values: 5, max_abs_error: 0.25, ..Default::default() });
/// assert_eq!((total.values, total.max_abs_error), (15, 0.5));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// Number of elements.
    pub values: u64,
    /// Number of source elements that are NaN.
    pub nan: u64,
    /// Number of source elements equal to the no-data value.
    pub no_data: u64,
    /// Number of source elements that are infinite.
    pub infinite: u64,
    /// Number of elements clipped to the nearest value in range. Always 0 in version 1 of the format, where a value out
    /// of range is an error.
    pub clipped: u64,
    /// Number of non-zero source elements below 2⁻¹⁴ in magnitude that are stored as float16, which has fewer digits
    /// in this range.
    pub subnormal: u64,
    /// Number of elements whose decoded value or bit pattern differs from the source.
    pub changed: u64,
    /// Number of elements that contribute to `sum_abs_error`: the finite elements that are not no-data and were
    /// lossily transformed.
    pub measured: u64,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Sum of the absolute errors.
    pub sum_abs_error: f64,
    /// Largest relative error of the elements with a magnitude of at least 2⁻¹⁴.
    pub max_rel_error: f64,
    /// Number of spectra whose angle was measured. Spectra are the pixels of an array with three axes. Spectra that
    /// consist of zeros or contain NaN, infinities or no-data have no angle.
    pub spectra: u64,
    /// Largest spectral angle, in radians.
    pub max_angle: f64,
    /// Sum of the spectral angles, in radians.
    pub sum_angle: f64,
    /// Histogram of the spectral angles. Empty in figures read from a dataset.
    #[serde(default)]
    pub angles: Angles,
}

impl Fidelity {
    /// Returns the mean absolute error of the measured values, or 0 if there are none.
    #[must_use]
    pub fn mean_abs_error(&self) -> f64 {
        mean(self.sum_abs_error, self.measured)
    }

    /// Returns the mean spectral angle in radians, or 0 if there are no spectra.
    #[must_use]
    pub fn mean_angle(&self) -> f64 {
        mean(self.sum_angle, self.spectra)
    }

    /// Adds the figures of other arrays.
    ///
    /// Sums of floats depend on the order of addition. Always merge in the order of the samples, regardless of the
    /// threads that computed the figures.
    pub fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.nan += other.nan;
        self.no_data += other.no_data;
        self.infinite += other.infinite;
        self.clipped += other.clipped;
        self.subnormal += other.subnormal;
        self.changed += other.changed;
        self.measured += other.measured;
        self.max_abs_error = self.max_abs_error.max(other.max_abs_error);
        self.sum_abs_error += other.sum_abs_error;
        self.max_rel_error = self.max_rel_error.max(other.max_rel_error);
        self.spectra += other.spectra;
        self.max_angle = self.max_angle.max(other.max_angle);
        self.sum_angle += other.sum_angle;
        self.angles.merge(&other.angles);
    }
}

#[allow(clippy::cast_precision_loss, reason = "a mean over more than 2^53 values may lose its last digit")]
fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Computes a [`Fidelity`] piece by piece, while the source values and the decoded values are still in the cache.
pub(crate) struct Meter<T> {
    pub(crate) total: Fidelity,
    no_data: Option<T>,
    /// Number of elements in a spectrum, or 0 if the array has no spectra.
    spectrum: usize,
    sums: Vec<Sums>,
}

/// Sums over one spectrum, or over a piece of an array without spectra.
#[derive(Default)]
struct Sums {
    /// Σ u²
    uu: f64,
    /// Σ d², with d = v − u
    dd: f64,
    /// Σ d·(u + v) = Σ v² − Σ u²
    ds: f64,
    abs: f64,
    max: f64,
}

/// Number of values summed in parallel: one vector of eight, or two of four.
const LANES: usize = 8;

impl<T: Float> Meter<T> {
    pub(crate) fn new(no_data: Option<T>, spectrum: usize) -> Self {
        Self { total: Fidelity::default(), no_data, spectrum, sums: Vec::new() }
    }

    /// Adds a run of whole spectra with their `source` and `decoded` values. `plain` is true if the run contains no
    /// NaN, infinity or no-data.
    pub(crate) fn add(&mut self, source: &[T], decoded: &[f32], plain: bool, f16: bool) {
        self.total.values += source.len() as u64;
        let run = if self.spectrum == 0 { source.len().max(1) } else { self.spectrum };
        let (rel, sums) = (self.total.max_rel_error, &mut self.sums);
        sums.resize_with(source.len().div_ceil(run), Sums::default);
        // Compare the values and compute the sums while both arrays are in the L1 cache.
        let found = dispatch!(Level::new(), simd => compare_and_sum(simd, source, decoded, run, rel, plain, sums));
        self.total.changed += u64::from(found.changed);
        if !plain {
            source.chunks(run).zip(decoded.chunks(run)).for_each(|(u, v)| self.add_mixed(u, v, f16));
            return;
        }
        self.total.measured += source.len() as u64;
        if f16 {
            self.total.subnormal += u64::from(found.small);
        }
        if found.worse {
            source.iter().zip(decoded).for_each(|(u, v)| self.relative(u.to_f64(), f64::from(*v)));
        }
        let sums = std::mem::take(&mut self.sums);
        sums.iter().for_each(|sum| self.finish(sum, true));
        self.sums = sums;
    }

    /// Adds a run that may contain special values. This is the slow path.
    fn add_mixed(&mut self, source: &[T], decoded: &[f32], f16: bool) {
        let mut sum = Sums::default();
        let mut whole = true;
        for (&source, &v) in source.iter().zip(decoded) {
            let (u, v) = (source.to_f64(), f64::from(v));
            if self.no_data == Some(source) {
                self.total.no_data += 1;
            } else if u.is_nan() {
                self.total.nan += 1;
            } else if u.is_infinite() {
                self.total.infinite += 1;
            } else {
                let (d, m) = (v - u, u.abs());
                sum.uu += u * u;
                sum.dd += d * d;
                sum.ds += d * (u + v);
                sum.abs += d.abs();
                sum.max = sum.max.max(d.abs());
                self.relative(u, v);
                self.total.subnormal += u64::from(f16 && m < F16_MIN_NORMAL && m > 0.0);
                self.total.measured += 1;
                continue;
            }
            whole = false;
        }
        self.finish(&sum, whole);
    }

    fn relative(&mut self, u: f64, v: f64) {
        if u.abs() >= F16_MIN_NORMAL {
            self.total.max_rel_error = self.total.max_rel_error.max((v - u).abs() / u.abs());
        }
    }

    fn finish(&mut self, sum: &Sums, whole: bool) {
        self.total.sum_abs_error += sum.abs;
        self.total.max_abs_error = self.total.max_abs_error.max(sum.max);
        if self.spectrum == 0 || !whole {
            return;
        }
        if let Some(angle) = angle(sum.uu, sum.dd, sum.ds) {
            self.total.spectra += 1;
            self.total.sum_angle += angle;
            self.total.angles.add(angle);
            self.total.max_angle = self.total.max_angle.max(angle);
        }
    }
}

#[inline(always)]
fn compare_and_sum<T: Float, S: Simd>(
    simd: S,
    source: &[T],
    decoded: &[f32],
    run: usize,
    rel: f64,
    plain: bool,
    sums: &mut [Sums],
) -> Comparison {
    let found = T::compare(source, decoded, rel);
    if plain {
        // Per lane: 1 if the lane belongs to the last values of a run, 0 otherwise.
        let mut filled = [0.0; LANES];
        filled.iter_mut().take(run % LANES).for_each(|lane| *lane = 1.0);
        for (i, sum) in sums.iter_mut().enumerate() {
            let start = i * run;
            let (Some(u), Some(v)) = (source.get(start..), decoded.get(start..)) else { break };
            *sum = sum_plain(simd, u, v, run, &filled);
        }
    }
    found
}

#[inline(always)]
fn sum_plain<T: Float, S: Simd>(simd: S, source: &[T], decoded: &[f32], run: usize, filled: &[f64; LANES]) -> Sums {
    let zero = simd.splat_f64x8(0.0);
    let mut lanes = Lanes { uu: zero, dd: zero, ds: zero, abs: zero, max: zero };
    let whole = run.min(source.len()) / LANES;
    let (us, u_rest) = source.as_chunks::<LANES>();
    let (vs, v_rest) = decoded.as_chunks::<LANES>();
    for (u, v) in us.iter().zip(vs).take(whole) {
        lanes.add(T::widen(simd, u), f32::widen(simd, v));
    }
    // The unused lanes contain zeros, which do not change any figure.
    match (us.get(whole), vs.get(whole)) {
        _ if run.is_multiple_of(LANES) && run <= source.len() => {}
        // The lanes after the run contain values of the next run, which are finite too. Multiplying these values by 0
        // removes them, which is faster than copying the last values of this run elsewhere.
        (Some(u), Some(v)) => {
            let filled = f64x8::simd_from(simd, *filled);
            lanes.add(T::widen(simd, u) * filled, f32::widen(simd, v) * filled);
        }
        _ => {
            let (mut u, mut v) = ([T::default(); LANES], [0.0; LANES]);
            let count = run.min(source.len()) - whole * LANES;
            u.iter_mut().zip(u_rest).take(count).for_each(|(u, from)| *u = *from);
            v.iter_mut().zip(v_rest).take(count).for_each(|(v, from)| *v = *from);
            lanes.add(T::widen(simd, &u), f32::widen(simd, &v));
        }
    }
    // The order of additions must not change, because the stored figures depend on it.
    let sum = |lanes: f64x8<S>| {
        let (a, b) = simd.split_f64x8(lanes);
        simd.reduce_sum_f64x4(a + b)
    };
    let (a, b) = simd.split_f64x8(lanes.max);
    let max = simd.reduce_max_f64x4(a.max(b));
    Sums { uu: sum(lanes.uu), dd: sum(lanes.dd), ds: sum(lanes.ds), abs: sum(lanes.abs), max }
}

/// Eight [`Sums`] in parallel, each over every eighth value. The vectors are explicit, because the compiler does not
/// vectorise loops over arrays of lanes.
struct Lanes<S: Simd> {
    uu: f64x8<S>,
    dd: f64x8<S>,
    ds: f64x8<S>,
    abs: f64x8<S>,
    max: f64x8<S>,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn add(&mut self, u: f64x8<S>, v: f64x8<S>) {
        let d = v - u;
        let e = d.abs();
        self.uu += u * u;
        self.dd += d * d;
        self.ds += d * (u + v);
        self.abs += e;
        self.max = self.max.max(e);
    }
}

/// Returns the angle between the vectors u and v from Σu², Σ(v−u)² and Σv² − Σu². Returns `None` if u or v
/// has length 0.
///
/// The usual arccos(u·v / |u||v|) cannot tell angles below 1e-8 from 0. This is Kahan's formula
/// 2·asin(½·|u/|u| − v/|v||) ("How futile are mindless assessments of roundoff", 2006, §12). The chord follows from
/// |u/|u| − v/|v||² = (|d|² − (|v| − |u|)²) / (|u||v|) with d = v − u. The terms that cancel have the size of the
/// error, not of the data, so the absolute error is about 1e-8·|d|/|u|.
fn angle(uu: f64, dd: f64, ds: f64) -> Option<f64> {
    let vv = uu + ds;
    if !(uu > 0.0 && vv > 0.0 && uu.is_finite() && vv.is_finite()) {
        return None;
    }
    let (a, b) = (uu.sqrt(), vv.sqrt());
    let growth = ds / (a + b);
    let chord = ((dd - growth * growth) / (a * b)).max(0.0).sqrt();
    let half = (chord / 2.0).min(1.0);
    // Nearly every angle is so small that the next term of the series, 3/40·half⁵, would not change the last digit.
    if half < 1e-4 {
        return Some(2.0 * (half + half * half * half / 6.0));
    }
    // Use libm, because the stored figures must be the same on every machine, which the platform's `asin` does not
    // guarantee.
    Some(2.0 * libm::asin(half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_angles_are_seen_and_scaling_is_none() {
        // v is u, rotated by 1e-7 in the plane of the first two axes. arccos would return 0.
        let (u, turn) = ([3.0_f64, 4.0], 1e-7_f64);
        let v = [u[0] * turn.cos() - u[1] * turn.sin(), u[0] * turn.sin() + u[1] * turn.cos()];
        let dd: f64 = u.iter().zip(v).map(|(u, v)| (v - u) * (v - u)).sum();
        let ds: f64 = u.iter().zip(v).map(|(u, v)| (v - u) * (v + u)).sum();
        let got = angle(25.0, dd, ds).unwrap();
        assert!((got - turn).abs() < 1e-14, "{got}");
        // The vectors u and v = 1.001·u have the same direction, so the angle must be 0.
        let got = angle(25.0, 25.0e-6, 25.0 * (1.001 * 1.001 - 1.0)).unwrap();
        assert!(got < 1e-9, "{got}");
        assert_eq!(angle(0.0, 1.0, 1.0), None);
        assert!((angle(1.0, 4.0, 0.0).unwrap() - std::f64::consts::PI).abs() < 1e-12);
    }

    #[test]
    fn the_fast_way_agrees_with_the_slow() {
        let source: Vec<f32> = (0..700).map(|i| ((i * 37 % 1000) as f32 - 500.0) * 1e-3 + 1e-6).collect();
        let decoded: Vec<f32> = source.iter().map(|v| half::f16::from_f32(*v).to_f32()).collect();
        let (mut fast, mut slow) = (Meter::new(None, 7), Meter::new(None, 7));
        fast.add(&source, &decoded, true, true);
        slow.add(&source, &decoded, false, true);
        let (fast, slow) = (fast.total, slow.total);
        assert!(slow.spectra == 100 && slow.subnormal > 0 && slow.changed > 600 && slow.max_rel_error > 1e-4);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
        assert!(near(fast.sum_abs_error, slow.sum_abs_error) && near(fast.sum_angle, slow.sum_angle));
        assert!(near(fast.max_angle, slow.max_angle));
        let exact = |f: Fidelity| Fidelity { sum_abs_error: 0.0, sum_angle: 0.0, max_angle: 0.0, ..f };
        assert_eq!(exact(fast), exact(slow));
    }
}
