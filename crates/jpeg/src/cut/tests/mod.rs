//! Tests cuts: generates pictures from random numbers, and compares their cuts with the whole pictures.

mod damage;
mod example;
mod photos;
mod pixels;
mod structure;

use super::*;
use crate::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Sampling, Scale, Subsampling, Warnings};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use shardpack_format::Limits;

/// Random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n.max(1))) as u32
    }

    /// Returns a non-empty part of 0..n that often touches tile borders.
    fn part(&mut self, n: u32) -> (u32, u32) {
        let end = |random: &mut Self| {
            let at = random.below(n + 1);
            if random.below(3) == 0 { (at / 8 * 8 + random.below(3)).saturating_sub(1).min(n) } else { at }
        };
        let (a, b) = (end(self), end(self));
        let (start, end) = (a.min(b), a.max(b));
        if start < end { (start, end - start) } else { (start.min(n - 1), 1) }
    }

    fn rect(&mut self, width: u32, height: u32) -> Rect {
        let ((x, width), (y, height)) = (self.part(width), self.part(height));
        Rect { x, y, width, height }
    }
}

const SAMPLINGS: [(Subsampling, u32, u32); 6] = [
    (Subsampling::S444, 8, 8),
    (Subsampling::S422, 16, 8),
    (Subsampling::S420, 16, 16),
    (Subsampling::S440, 8, 16),
    (Subsampling::S411, 32, 8),
    (Subsampling::Gray, 8, 8),
];

#[derive(Debug, Clone, Copy)]
struct Case {
    width: u32,
    height: u32,
    sampling: usize,
    quality: u8,
    seed: u64,
}

impl Case {
    /// Returns the picture as a JPEG, with a restart interval that divides it into a grid.
    fn jpeg(&self, random: &mut Random) -> Vec<u8> {
        let (subsampling, mcu_width, mcu_height) = SAMPLINGS[self.sampling];
        let per_row = self.width.div_ceil(mcu_width);
        let rows = self.height.div_ceil(mcu_height);
        let divisors: Vec<u32> = (1..=per_row).filter(|k| per_row.is_multiple_of(*k)).collect();
        let interval = match random.below(4) {
            0 => per_row * (1 + random.below(rows)),
            _ => divisors[random.below(divisors.len() as u32) as usize],
        };
        // Add noise to the gradients, so that every MCU differs from its neighbours, also in chroma.
        let noise = 1 + random.below(160);
        let slopes: [u32; 6] = std::array::from_fn(|_| random.below(9));
        let mut pixels = Vec::with_capacity((self.width * self.height * 3) as usize);
        for y in 0..self.height {
            for x in 0..self.width {
                let bits = random.next();
                for c in 0..3 {
                    let wave = x * slopes[c] + y * slopes[c + 3] + ((bits >> (16 * c)) as u32 & 0xFFFF) % noise;
                    pixels.push(wave as u8);
                }
            }
        }
        let how = Encoding { quality: self.quality, subsampling, restart_interval: u16::try_from(interval).unwrap() };
        let mut out = Vec::new();
        Compressor::new().encode(&pixels, self.width, self.height, PixelFormat::Rgb, how, &mut out).unwrap();
        out
    }
}

fn cases(side: u32) -> impl Strategy<Value = Case> {
    let narrow_end = (0..side / 16, 1..=5_u32).prop_map(|(mcus, rest)| 16 * mcus + rest);
    let side = prop_oneof![1 => 1..=17_u32, 1 => Just(1), 1 => narrow_end, 6 => 1..=side];
    (side.clone(), side, 0..SAMPLINGS.len(), 1..=100_u8, any::<u64>())
        .prop_map(|(width, height, sampling, quality, seed)| Case { width, height, sampling, quality, seed })
}

fn decompressor() -> Decompressor {
    Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse)
}

struct Pixels {
    width: u32,
    bytes: Vec<u8>,
}

fn decode(jpeg: &[u8]) -> Result<Pixels> {
    let decoder = decompressor();
    let picture = decoder.open(jpeg)?;
    let frame = picture.frame();
    let (width, height) = (frame.width, frame.height);
    let mut bytes = vec![0; (width * height * 3) as usize];
    picture.decode(Scale::Full, PixelFormat::Rgb, &mut bytes, (width * 3) as usize)?;
    Ok(Pixels { width, bytes })
}

impl Pixels {
    fn rows(&self, rect: Rect) -> impl Iterator<Item = &[u8]> {
        (rect.y..rect.bottom()).map(move |y| {
            let at = ((y * self.width + rect.x) * 3) as usize;
            &self.bytes[at..at + (rect.width * 3) as usize]
        })
    }
}

fn check_equal(jpeg: &[u8], whole: &Pixels, rect: Rect) -> (Cut, usize) {
    let header = JpegHeader::parse(jpeg).unwrap();
    let plan = CutPlan::new(jpeg, &header, rect).unwrap();
    let cut = plan.cut();
    assert!(cut.shown.contains(&rect), "{rect} in {cut:?}");
    let mut out = vec![1, 2, 3];
    plan.write(&mut out).unwrap();
    assert!(out.len() <= jpeg.len(), "never larger: {} of {}", out.len(), jpeg.len());
    let shown = JpegHeader::parse(&out).unwrap();
    assert_eq!((u32::from(shown.width), u32::from(shown.height)), (cut.shown.width, cut.shown.height));
    let pixels = decode(&out).unwrap();
    let inside = Rect { x: rect.x - cut.shown.x, y: rect.y - cut.shown.y, ..rect };
    for (row, (found, expected)) in pixels.rows(inside).zip(whole.rows(rect)).enumerate() {
        assert!(found == expected, "row {row} of {rect}, cut {cut:?}");
    }
    (cut, out.len())
}
