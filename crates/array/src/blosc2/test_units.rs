//! Units for tests, one kind for each code path of a coder. The tests compare digests of chunks, so a unit must
//! depend only on the arguments.

pub(crate) const KINDS: std::ops::Range<u64> = 0..16;

/// A generator of pseudo-random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

pub(crate) fn unit(kind: u64, item: usize, items: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed ^ kind << 56 ^ (item as u64) << 48);
    let len = items * item;
    let mut out = vec![0; len];
    match kind {
        // Only zeros.
        0 => {}
        1 => out.fill(random.byte()),
        2 => {
            let value = random.next().to_le_bytes();
            out.chunks_mut(item).for_each(|to| to.copy_from_slice(&value[..to.len()]));
        }
        3 => out.iter_mut().for_each(|to| *to = random.byte()),
        4 => {
            let mask = 0xFF >> (1 + random.below(7));
            out.iter_mut().for_each(|to| *to = random.byte() & mask);
        }
        // A slow random walk: the high bytes are smooth, the low bytes are noisy.
        5 => {
            let (mut value, step) = (random.next() >> 8, 1 + random.next() % 40_000);
            for to in out.chunks_mut(item) {
                value = value.wrapping_add(random.next() % step).wrapping_sub(step / 2);
                to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
            }
        }
        6 => {
            let step = 1 + random.next() % 7;
            for (i, to) in out.chunks_mut(item).enumerate() {
                to.copy_from_slice(&(i as u64 * step / 3).to_le_bytes()[..to.len()]);
            }
        }
        // Runs of four-byte or eight-byte NaN, or of only the first bytes of a NaN, surrounded by noise.
        7 => {
            let nan = if item == 8 { 0x7FF8_0000_0000_0000_u64 } else { 0x7FC0_0000 };
            let mut left = 0;
            let mut in_nan = false;
            for to in out.chunks_mut(item) {
                if left == 0 {
                    left = 1 + random.below(3000);
                    in_nan = !in_nan;
                }
                left -= 1;
                let value = if in_nan { nan } else { random.next() & 0x0FFF_FFFF };
                to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
            }
        }
        8 => {
            for _ in 0..1 + len / 200 {
                let at = random.below(len);
                out[at] = random.byte();
            }
        }
        // Noise with one repetition. Its coded stream is just short enough or just too long for the available room.
        9 => {
            out.iter_mut().for_each(|to| *to = random.byte());
            let length = random.below(80).min(len / 2);
            let (from, to) = (random.below(len / 2 - length + 1), len / 2 + random.below(len / 2 - length + 1));
            out.copy_within(from..from + length, to);
        }
        10 => {
            let period = 1 + random.below(300);
            let pattern: Vec<u8> = (0..period).map(|_| random.byte()).collect();
            out.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, byte)| *to = *byte);
        }
        11 => {
            let (noisy, value) = (random.byte(), random.byte());
            for (i, to) in out.iter_mut().enumerate() {
                *to = if noisy >> (i % item) & 1 == 1 { random.byte() } else { value };
            }
        }
        12 => {
            let words: Vec<Vec<u8>> =
                (0..40).map(|_| (0..2 + random.below(9)).map(|_| random.byte()).collect()).collect();
            let mut at = 0;
            while at < len {
                let word = &words[random.below(words.len())];
                let count = word.len().min(len - at);
                out[at..at + count].copy_from_slice(&word[..count]);
                at += count;
            }
        }
        13 | 14 => {
            let border = random.below(len + 1);
            let part = if kind == 13 { &mut out[..border] } else { &mut out[border..] };
            part.iter_mut().for_each(|to| *to = random.byte());
        }
        // A mixture of all other kinds.
        _ => {
            let mut at = 0;
            while at < items {
                let count = (1 + random.below(1 + items / 3)).min(items - at);
                let part = unit(random.next() % 15, item, count, random.next());
                out[at * item..(at + count) * item].copy_from_slice(&part);
                at += count;
            }
        }
    }
    out
}
