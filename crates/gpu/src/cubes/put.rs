//! Writes numbers in the byte order of the device.

/// Appends numbers of 64 bits, and then numbers of 32 bits.
pub(super) fn put_all<const N: usize>(numbers: [u64; N], words: &[u32], out: &mut Vec<u8>) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    out.extend(words.iter().flat_map(|n| n.to_le_bytes()));
}
