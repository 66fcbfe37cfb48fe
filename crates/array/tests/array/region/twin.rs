//! Slow reference implementations, which decode the whole array, cut the region out one element at a time, and count
//! blocks one by one.

use shardpack_array::{Array, ArrayDecoder, Bands, EncodedArray, Region, RegionDecoded, UNIT_BYTES};
use shardpack_format::{ArrayDescriptor, Codec, Layout, Limits};
use std::collections::BTreeSet;

pub(crate) struct Dice(pub(crate) u32);

impl Dice {
    pub(crate) fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        u64::from(self.roll()) % end.max(1)
    }

    fn part(&mut self, length: u64) -> (u64, u64) {
        let count = match self.below(6) {
            0 => length,
            1 => length.min(1),
            _ => self.below(length) + 1,
        }
        .min(length);
        match self.below(4) {
            0 => (0, count),
            1 => (length - count, count),
            _ => (self.below(length - count + 1), count),
        }
    }

    pub(crate) fn region(&mut self, descriptor: &ArrayDescriptor) -> Region {
        let (y, height) = self.part(descriptor.shape[0]);
        let (x, width) = self.part(descriptor.shape[1]);
        let flat = descriptor.shape.len() == 2;
        let channels = if flat { 1 } else { descriptor.shape[2] };
        let bands = match self.below(4) {
            0 | 1 => Bands::All,
            2 => {
                let (first, count) = self.part(channels);
                Bands::Range(first..first + count)
            }
            _ if flat => Bands::List(vec![0]),
            _ => Bands::List((0..=self.below(channels + 2)).map(|_| self.below(channels)).collect()),
        };
        let layout = if self.below(2) == 0 { Layout::AsShape } else { Layout::BandMajor };
        Region { y, x, height, width, bands, layout }
    }
}

fn bands_of(region: &Region, descriptor: &ArrayDescriptor) -> Vec<u64> {
    match &region.bands {
        Bands::All => (0..descriptor.shape.get(2).copied().unwrap_or(1)).collect(),
        Bands::Range(range) => range.clone().collect(),
        Bands::List(list) => list.clone(),
    }
}

/// Cuts a region out of the decoded array, one element at a time.
pub(crate) fn slow(whole: &Array, region: &Region, descriptor: &ArrayDescriptor) -> Vec<u8> {
    let bands = bands_of(region, descriptor);
    let size = whole.dtype().bytes();
    let (width, channels) = (whole.shape()[1], whole.shape().get(2).copied().unwrap_or(1));
    let mut out = Vec::new();
    let mut push = |y: u64, x: u64, band: u64| {
        let at = (((y * width + x) * channels + band) * size) as usize;
        out.extend_from_slice(&whole.bytes()[at..at + size as usize]);
    };
    let (rows, columns) = (region.y..region.y + region.height, region.x..region.x + region.width);
    if region.layout == Layout::AsShape {
        rows.for_each(|y| columns.clone().for_each(|x| bands.iter().for_each(|&band| push(y, x, band))));
    } else {
        bands.iter().for_each(|&band| rows.clone().for_each(|y| columns.clone().for_each(|x| push(y, x, band))));
    }
    out
}

fn slow_blocks(region: &Region, descriptor: &ArrayDescriptor) -> BTreeSet<u64> {
    let mut blocks = BTreeSet::new();
    let flat = descriptor.shape.len() == 2;
    let (height, width, channels) = if flat {
        (descriptor.shape[0], 1, descriptor.shape[1])
    } else {
        (descriptor.shape[0], descriptor.shape[1], descriptor.shape[2])
    };
    let columns = if flat { 0..1 } else { region.x..region.x + region.width };
    let mut bands = if flat { (region.x..region.x + region.width).collect() } else { bands_of(region, descriptor) };
    if descriptor.band_difference {
        bands = (0..bands.iter().max().map_or(0, |last| last + 1)).collect();
    }
    for y in region.y..region.y + region.height {
        for x in columns.clone() {
            for band in &bands {
                let element = match descriptor.layout {
                    Layout::AsShape => (y * width + x) * channels + band,
                    Layout::BandMajor => (band * height + y) * width + x,
                };
                blocks.insert(element >> 16);
            }
        }
    }
    blocks
}

pub(crate) fn cut(decoder: &mut ArrayDecoder, encoded: &EncodedArray, region: &Region) -> (Vec<u8>, RegionDecoded) {
    let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
    let mut out = vec![0xEE; region.shape_of(descriptor).unwrap().bytes as usize];
    let done = decoder.decode_region(codec, descriptor, payload, region, &mut out, &Limits::default()).unwrap();
    assert_eq!(done.shape, region.shape_of(descriptor).unwrap());
    (out, done)
}

pub(crate) fn check(decoder: &mut ArrayDecoder, encoded: &EncodedArray, dice: &mut Dice, count: u32) {
    let descriptor = &encoded.descriptor;
    let whole = ArrayDecoder::new().decode(encoded.codec, descriptor, &encoded.payload, &Limits::default()).unwrap();
    let mut all = Vec::new();
    for _ in 0..count {
        let region = dice.region(descriptor);
        all.push(region.clone());
        let (out, done) = cut(decoder, encoded, &region);
        assert_eq!(done.shape.dtype, whole.dtype());
        assert!(out == slow(&whole, &region, descriptor), "{region:?} of {descriptor:?}");
        if encoded.codec == Codec::Blosc2 {
            // A block has 65,536 elements. Fewer than `expected` blocks may be decoded, because
            // units that are stored unchanged or as one repeated value need no decoding.
            let expected = slow_blocks(&region, descriptor).len() as u64;
            let units = encoded.descriptor.stored_bytes().unwrap().div_ceil(UNIT_BYTES as u64);
            assert!(
                done.blocks_decoded == expected
                    || (done.blocks_decoded < expected && (units > 1 || done.blocks_decoded == 0)),
                "{region:?} of {descriptor:?}: {done:?}, not {expected}"
            );
            assert_eq!(done.blocks, descriptor.elements().unwrap().div_ceil(1 << 16));
        }
    }
    // Decoding all regions at once must return the same bytes and decode each shared block only once.
    let bytes = |region: &Region| vec![0; region.shape_of(descriptor).unwrap().bytes as usize];
    let mut outs: Vec<Vec<u8>> = all.iter().map(bytes).collect();
    let mut parts: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut **out).collect();
    let (codec, payload, limits) = (encoded.codec, &encoded.payload, Limits::default());
    let decoded = decoder.decode_regions(codec, descriptor, payload, &all, &mut parts, &limits).unwrap();
    let mut blocks = BTreeSet::new();
    for (region, out) in all.iter().zip(&outs) {
        assert!(*out == slow(&whole, region, descriptor), "{region:?} of {all:?} of {descriptor:?}");
        blocks.extend(slow_blocks(region, descriptor));
    }
    if codec == Codec::Blosc2 {
        assert!(decoded <= blocks.len() as u64, "{all:?} of {descriptor:?}: {decoded}, not {}", blocks.len());
    }
}
