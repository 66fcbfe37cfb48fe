//! Shared by the examples that time cubes: a synthetic cube, a clock and the median.

#[path = "clock.rs"]
mod clock;

pub(crate) use clock::now;
use shardpack_array::Array;
use shardpack_format::Dtype;
use std::error::Error;

pub(crate) const SHAPE: [u64; 3] = [480, 640, 100];

/// Returns the median, or the slower of the middle two for an even number of times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns a cube whose pixels are mixtures of smooth spectra, with proportions that vary over the picture, plus 1 %
/// noise. The cube resembles the cubes of `benches/cubes.py`.
pub(crate) fn synthetic() -> Result<Array, Box<dyn Error>> {
    let [height, width, bands] = SHAPE;
    let mut state = 1_u32;
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
                // The sum of four uniform numbers approximates a normal distribution with standard deviation 0.01.
                let bell: f32 = (0..4).map(|_| noise()).sum();
                bytes.extend((value * (1.0 + 0.017 * bell)).to_le_bytes());
            }
        }
    }
    Ok(Array::new(Dtype::F32, SHAPE.to_vec(), bytes)?)
}
