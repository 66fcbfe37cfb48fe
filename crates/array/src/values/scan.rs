//! Checks whether floats are all integers.

use super::Job;
use crate::element::Float;
use crate::error::EncodeResult;
use shardpack_base::vectorised;

/// 1.5 × 2⁵². If it is added to a number below 2⁵¹ in magnitude, the low bits of the sum are the nearest integer.
/// This avoids a conversion instruction.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scan {
    /// Smallest value that is not no-data.
    pub(super) min: f64,
    /// Largest value that is not no-data. Below `min` if there is none.
    pub(super) max: f64,
    pub(super) nan: u64,
    pub(super) no_data: u64,
    pub(super) infinite: u64,
    /// True if 32-bit integers and reserved codes can restore every bit. This excludes negative zeros, infinities,
    /// numbers beyond 32 bits, and every NaN except the canonical one.
    pub(super) exact: bool,
}

impl<T: Float> Job<'_, T> {
    /// Scans all values. Returns `None` at the first finite value that has a fraction and is not no-data.
    pub(super) fn scan(&self) -> EncodeResult<Option<Scan>> {
        let mut scan =
            Scan { min: f64::INFINITY, max: f64::NEG_INFINITY, nan: 0, no_data: 0, infinite: 0, exact: true };
        let mut integers = true;
        self.for_each_run(|values| {
            let plain = vectorised(
                #[inline(always)]
                || scan.add_plain(values, self.no_data),
            );
            if !plain {
                integers = scan.add_mixed(values, self.no_data);
            }
            integers
        })?;
        Ok(integers.then_some(scan))
    }
}

impl Scan {
    #[inline(always)]
    fn add_plain<T: Float>(&mut self, values: &[T], no_data: Option<T>) -> bool {
        // Bands that consist of no-data are common, so no-data must not take the slow path. A no-data value of NaN is
        // treated like any other NaN.
        let no_data = no_data.filter(|n| !n.to_f64().is_nan());
        let (known, skipped) = (no_data.is_some(), no_data.unwrap_or_default());
        let (mut fits, mut min, mut max, mut count) = (true, self.min, self.max, 0_u32);
        for value in values {
            let v = value.to_f64();
            let skip = known & (value.bits() == skipped.bits());
            // If the no-data value is a zero, the zero with the other sign equals it but has different bits.
            // `add_mixed` handles that case.
            let twin = known & (*value == skipped);
            let sound = ((v + ROUND) - ROUND == v) & (v.abs() <= 4_294_967_296.0) & ((v != 0.0) | v.is_sign_positive());
            fits &= skip | (sound & !twin);
            min = if (v < min) & !skip { v } else { min };
            max = if (v > max) & !skip { v } else { max };
            count += u32::from(skip);
        }
        if !fits {
            return false;
        }
        (self.min, self.max) = (min, max);
        self.no_data += u64::from(count);
        self.exact &= min > max || (min >= f64::from(i32::MIN) && max <= f64::from(u32::MAX));
        true
    }

    /// Adds values of any kind. Returns false at the first value that has a fraction.
    fn add_mixed<T: Float>(&mut self, values: &[T], no_data: Option<T>) -> bool {
        for &value in values {
            let v = value.to_f64();
            if let Some(no_data) = no_data
                && no_data == value
            {
                self.no_data += 1;
                self.exact &= no_data.bits() == value.bits();
            } else if v.is_nan() {
                self.nan += 1;
                self.exact &= value.bits() == T::NAN_BITS;
            } else if v.is_infinite() {
                self.infinite += 1;
                self.exact = false;
            } else {
                if v.trunc() != v {
                    return false;
                }
                self.exact &= !(v == 0.0 && v.is_sign_negative());
                self.exact &= v >= f64::from(i32::MIN) && v <= f64::from(u32::MAX);
                self.min = self.min.min(v);
                self.max = self.max.max(v);
            }
        }
        true
    }
}
