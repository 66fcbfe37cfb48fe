//! Generates baseline JPEGs of every kind from random coefficients: with any subsampling that the kernels accept, any
//! restart interval, and Huffman codes of any shape.

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.next() % n
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) size: (u16, u16),
    /// Luma sampling factors; (0, 0) is gray.
    pub(crate) factors: (u8, u8),
    pub(crate) interval: u16,
    /// Maximum number of AC coefficients in a block.
    pub(crate) detail: u32,
    pub(crate) seed: u64,
}

/// A Huffman code: the length and bits of each symbol, and the content of its DHT segment.
struct Code {
    bits: [(u32, u32); 256],
    stored: Vec<u8>,
}

impl Code {
    /// Generates a random tree with a leaf for each symbol. One of the deepest leaves is left out, so that no code
    /// consists only of ones.
    fn new(symbols: &[u8], random: &mut Random) -> Self {
        let mut lengths = vec![0_u32];
        while lengths.len() < symbols.len() + 1 {
            let n = random.below(lengths.len() as u32) as usize;
            // Splitting recent leaves yields long codes.
            let n = if random.below(3) == 0 { lengths.len() - 1 } else { n };
            if lengths[n] < 16 {
                lengths[n] += 1;
                lengths.push(lengths[n]);
            }
        }
        lengths.sort_unstable();
        lengths.pop();
        let mut order = symbols.to_vec();
        for n in (1..order.len()).rev() {
            order.swap(n, random.below(n as u32 + 1) as usize);
        }
        let mut bits = [(0, 0); 256];
        let (mut code, mut last) = (0, 0);
        let mut counts = [0_u8; 16];
        for (&symbol, &length) in order.iter().zip(&lengths) {
            code <<= length - last;
            last = length;
            bits[usize::from(symbol)] = (length, code);
            code += 1;
            counts[length as usize - 1] += 1;
        }
        Self { bits, stored: [counts.as_slice(), &order].concat() }
    }
}

struct Scan {
    out: Vec<u8>,
    buffer: u64,
    count: u32,
}

impl Scan {
    fn put(&mut self, (length, bits): (u32, u32)) {
        self.buffer = self.buffer << length | u64::from(bits);
        self.count += length;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.buffer >> self.count) as u8;
            self.out.push(byte);
            if byte == 0xFF {
                self.out.push(0);
            }
        }
    }

    fn value(&mut self, value: i32, size: u32) {
        let bits = if value < 0 { value + (1 << size) - 1 } else { value };
        self.put((size, bits as u32));
    }

    fn end(&mut self) {
        if self.count > 0 {
            let n = 8 - self.count;
            self.put((n, (1 << n) - 1));
        }
    }
}

fn size_of(value: i32) -> u32 {
    32 - value.unsigned_abs().leading_zeros()
}

impl Source {
    pub(crate) fn components(&self) -> usize {
        if self.factors == (0, 0) { 1 } else { 3 }
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        let random = &mut Random(self.seed);
        let (width, height) = self.size;
        let mut out = vec![0xFF, 0xD8];
        let mut segment = |marker: u8, body: &[u8]| {
            out.extend([0xFF, marker]);
            out.extend((body.len() as u16 + 2).to_be_bytes());
            out.extend(body);
        };
        let quantisers: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                let most = 1 + random.below(60);
                (0..64).map(|_| 1 + random.below(most) as u8).collect()
            })
            .collect();
        segment(0xDB, &[&[0], quantisers[0].as_slice(), &[1], &quantisers[1]].concat());
        let components = self.components();
        let (h, v) = if components == 1 { (1, 1) } else { self.factors };
        let mut frame = vec![8];
        frame.extend(height.to_be_bytes());
        frame.extend(width.to_be_bytes());
        frame.push(components as u8);
        frame.extend([1, h << 4 | v, 0]);
        if components == 3 {
            frame.extend([2, 0x11, 1, 3, 0x11, 1]);
        }
        segment(0xC0, &frame);
        let dc_symbols: Vec<u8> = (0..12).collect();
        let ac_symbols: Vec<u8> =
            (0..16).flat_map(|run| (1..11).map(move |size| run << 4 | size)).chain([0, 0xF0]).collect();
        let dc = [0, 1].map(|_| Code::new(&dc_symbols, random));
        let ac = [0, 1].map(|_| Code::new(&ac_symbols, random));
        for n in 0..2 {
            segment(0xC4, &[&[n as u8], dc[n].stored.as_slice()].concat());
            segment(0xC4, &[&[0x10 | n as u8], ac[n].stored.as_slice()].concat());
        }
        if self.interval > 0 {
            segment(0xDD, &self.interval.to_be_bytes());
        }
        let scan: &[u8] = if components == 1 { &[1, 1, 0, 0, 63, 0] } else { &[3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0] };
        segment(0xDA, scan);

        let (h, v) = (u32::from(h), u32::from(v));
        let mcus = u32::from(width).div_ceil(8 * h) * u32::from(height).div_ceil(8 * v);
        let mut scan = Scan { out, buffer: 0, count: 0 };
        let mut predictions = [0; 3];
        for mcu in 0..mcus {
            if self.interval > 0 && mcu > 0 && mcu % u32::from(self.interval) == 0 {
                scan.end();
                let n = mcu / u32::from(self.interval) - 1;
                scan.out.extend([0xFF, 0xD0 | (n & 7) as u8]);
                predictions = [0; 3];
            }
            for k in 0..if components == 1 { 1 } else { h * v + 2 } {
                let component = if k < h * v { 0 } else { (k - h * v + 1) as usize };
                let table = component.min(1);
                let quantisers = &quantisers[table];
                let most = 900 / i32::from(quantisers[0]);
                let value = (random.below(2 * most as u32 + 1) as i32 - most) / (1 + random.below(4) as i32);
                let difference = value - predictions[component];
                predictions[component] = value;
                let size = size_of(difference);
                scan.put(dc[table].bits[size as usize]);
                scan.value(difference, size);
                // A block without gaps has many words.
                let is_full = self.detail > 63;
                let count = if random.below(4) == 0 { 0 } else { random.below(self.detail + 1) };
                let (mut at, mut room) = (0, 3000);
                for _ in 0..count {
                    let far = if is_full {
                        1
                    } else if random.below(9) == 0 {
                        40
                    } else {
                        3
                    };
                    let next = at + 1 + random.below(far);
                    if next > 63 {
                        break;
                    }
                    let parts = if is_full { 24 } else { 2 };
                    let most = (room / parts / i32::from(quantisers[next as usize])).min(1000);
                    if most == 0 {
                        break;
                    }
                    let value = 1 + random.below(most as u32) as i32 / (1 + random.below(9) as i32);
                    let value = if random.below(2) == 0 { value } else { -value };
                    room -= value.abs() * i32::from(quantisers[next as usize]);
                    let mut run = next - at - 1;
                    while run > 15 {
                        scan.put(ac[table].bits[0xF0]);
                        run -= 16;
                    }
                    let size = size_of(value);
                    scan.put(ac[table].bits[(run << 4 | size) as usize]);
                    scan.value(value, size);
                    at = next;
                }
                if at < 63 {
                    scan.put(ac[table].bits[0]);
                }
            }
        }
        scan.end();
        scan.out.extend([0xFF, 0xD9]);
        scan.out
    }
}

/// Changes a few bytes, most of them entropy-coded, and sometimes bytes of tables.
#[allow(dead_code, reason = "an example has this file too, and makes whole pictures")]
pub(crate) fn damage(random: &mut Random, jpeg: &mut Vec<u8>) {
    let scan = shardpack_jpeg::JpegHeader::parse(jpeg).unwrap().scan_offset as usize;
    for _ in 0..1 + random.below(3) {
        let from = if random.below(8) == 0 { 2 } else { scan };
        let at = from + random.below((jpeg.len() - from) as u32) as usize;
        match random.below(6) {
            0 => jpeg[at] ^= 1 << random.below(8),
            1 => jpeg.insert(at, random.next() as u8),
            2 => drop(jpeg.remove(at)),
            3 => jpeg[at] = 0xFF,
            _ => jpeg[at] = random.next() as u8,
        }
    }
}
