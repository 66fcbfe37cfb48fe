//! Generates synthetic cubes for the timing examples.

use half::f16;
use shardpack_array::Array;
use shardpack_format::Dtype;
use std::error::Error;

const SHAPE: [u64; 3] = [480, 640, 100];

/// Returns a float16 cube of smooth spectra, blended with weights that vary across the picture, plus 1 % noise.
pub(crate) fn synthetic(seed: u32) -> Result<Array, Box<dyn Error>> {
    let [height, width, bands] = SHAPE;
    let mut state = seed;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (y, x) = (y as f32 / 40.0, x as f32 / 40.0);
            let share = 0.5 + 0.5 * (y.sin() * x.cos());
            for band in 0..bands {
                let b = band as f32 / 12.0;
                let value = share * (0.5 + 0.3 * b.sin()) + (1.0 - share) * (0.4 + 0.2 * (1.7 * b).cos());
                // The sum of four uniform numbers is nearly normal. The factor scales its standard deviation to 0.01.
                let bell: f32 = (0..4).map(|_| noise()).sum();
                bytes.extend(f16::from_f32(value * (1.0 + 0.017 * bell)).to_le_bytes());
            }
        }
    }
    Ok(Array::new(Dtype::F16, SHAPE.to_vec(), bytes)?)
}
