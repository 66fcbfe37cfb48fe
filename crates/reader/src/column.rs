//! Provides the values of a scalar field for many samples, such as labels, heights or widths, from
//! the indexes alone.

use crate::scalar::Scalar;
use shardpack_format::Dtype;

/// All values of one scalar field, packed in sample order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Column {
    pub(crate) const fn new(dtype: Dtype, bytes: Vec<u8>) -> Self {
        Self { dtype, bytes }
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the element type.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the elements as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the elements as little-endian bytes without copying them.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.bytes.len() as u64 / self.dtype.bytes()
    }

    /// Returns true if the column is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns value `i`, or `None` past the end.
    #[must_use]
    pub fn value(&self, i: u64) -> Option<Scalar> {
        let width = self.dtype.size();
        let start = usize::try_from(i).ok()?.checked_mul(width)?;
        Scalar::from_bytes(self.dtype, self.bytes.get(start..start.checked_add(width)?)?)
    }

    /// Iterates over all values.
    pub fn values(&self) -> impl Iterator<Item = Scalar> {
        (0..self.len()).filter_map(|i| {
            let value = self.value(i);
            debug_assert!(value.is_some(), "value {i} of {} of type {}", self.len(), self.dtype);
            value
        })
    }

    /// Returns all values as signed integers, or `None` if the type is floating-point or a value is 2⁶³ or more.
    #[must_use]
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        self.values().map(Scalar::as_i64).collect()
    }

    /// Returns all values as floating-point numbers. Integers beyond 2⁵³ are rounded.
    #[must_use]
    pub fn to_f64s(&self) -> Vec<f64> {
        self.values().map(Scalar::as_f64).collect()
    }
}
