//! Writes numbers in the byte order of the device.

/// Appends 64-bit numbers, followed by 32-bit numbers.
pub(super) fn put_all<const N: usize>(numbers: [u64; N], words: &[u32], out: &mut Vec<u8>) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    out.extend(words.iter().flat_map(|n| n.to_le_bytes()));
}
