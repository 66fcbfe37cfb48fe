//! Describes a launch: the kernel, its grid and block, and its parameters.

/// Maximum size of a kernel's parameters in bytes.
const MAX_BYTES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) kernel: &'static str,
    /// Number of blocks along x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads per block along x, y and z.
    pub(crate) block: [u32; 3],
    pub(crate) params: Params,
}

impl Launch {
    #[must_use]
    pub(crate) fn has_work(&self) -> bool {
        self.grid.iter().all(|n| *n > 0)
    }
}

/// The single struct that a kernel takes as its parameter, in C layout.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Params {
    words: [u64; MAX_BYTES / 8],
    len: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Params({:x?})", self.words.get(..self.len / 8).unwrap_or_default())
    }
}

impl Params {
    #[must_use]
    pub(crate) const fn new() -> Self {
        Self { words: [0; MAX_BYTES / 8], len: 0 }
    }

    /// Appends an address or another 64-bit number. Parameters beyond the maximum size are dropped. A test checks the
    /// size for every kernel.
    #[must_use]
    pub(crate) fn address(mut self, value: u64) -> Self {
        let word = self.len.div_ceil(8);
        if let Some(to) = self.words.get_mut(word) {
            *to = value;
        }
        self.len = (word + 1) * 8;
        self
    }

    #[must_use]
    pub(crate) fn u32(mut self, value: u32) -> Self {
        if let Some(to) = self.words.get_mut(self.len / 8) {
            // The first of two 32-bit numbers is in the lower half, because both host and device are little-endian.
            *to |= u64::from(value) << (self.len % 8 * 8);
        }
        self.len += 4;
        self
    }

    #[must_use]
    pub(crate) fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }

    /// Returns the bytes of the parameters, padded to a multiple of 8.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.words.iter().take(self.len.div_ceil(8)).flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) const fn words(&self) -> &[u64; MAX_BYTES / 8] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_at_multiples_of_8() {
        assert_eq!(Params::new().u32(1).address(2).bytes(), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }
}
