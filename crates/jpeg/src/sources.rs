//! Creates pictures for the tests of tiling and re-encoding.

use super::turbo::{Compressor, Encoding, PixelFormat, Process, Subsampling};

/// Returns a picture with edges and noise, so that all coefficients occur.
pub(super) fn pixels(width: u32, height: u32, channels: u32) -> Vec<u8> {
    let mut noise = 1u32;
    let value = |x: u32, y: u32, c: u32| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wave = (f64::from(x) / 7.0 + f64::from(c)).sin() * 60.0 + (f64::from(y) / 5.0).cos() * 50.0;
        (128.0 + wave + f64::from(noise >> 28)) as u8
    };
    let places = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..channels).map(move |c| (x, y, c))));
    let mut value = value;
    places.map(|(x, y, c)| value(x, y, c)).collect()
}

pub(super) fn encode(size: (u32, u32), format: PixelFormat, how: Encoding, process: Option<Process>) -> Vec<u8> {
    let mut encoder = Compressor::new();
    if let Some(process) = process {
        encoder.write(process);
    }
    let mut out = Vec::new();
    encoder.encode(&pixels(size.0, size.1, format.bytes() as u32), size.0, size.1, format, how, &mut out).unwrap();
    out
}

pub(super) fn plain(subsampling: Subsampling) -> Encoding {
    Encoding { quality: 90, subsampling, restart_interval: 0 }
}

pub(super) fn with_segments(jpeg: &[u8], segments: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = jpeg[..2].to_vec();
    for (marker, body) in segments {
        out.extend([0xFF, *marker]);
        out.extend((body.len() as u16 + 2).to_be_bytes());
        out.extend(body);
    }
    out.extend(&jpeg[2..]);
    out
}
