//! Shows three bands of a cube as a picture.

use serde_json::{Map, Value};
use shardpack_array::Array;
use shardpack_array::floats_of;

/// Wavelengths shown as red, green and blue, in nm.
const SHOWN_NM: [f64; 3] = [650.0, 550.0, 450.0];

/// Returns the wavelength of each band and their unit, if the file has them.
pub(super) fn wavelengths(meta: &Map<String, Value>, bands: usize) -> Option<(Vec<f64>, String)> {
    let numbers: Vec<f64> = meta.get("wavelengths")?.as_array()?.iter().filter_map(Value::as_f64).collect();
    let unit = meta.get("wavelength_units").and_then(Value::as_str).unwrap_or_default();
    let unit = match unit.to_ascii_lowercase().as_str() {
        "nanometers" | "nanometer" | "nanometres" | "nm" => "nm",
        "micrometers" | "micrometer" | "micrometres" | "microns" | "um" | "µm" => "µm",
        _ => unit,
    };
    (numbers.len() == bands).then(|| (numbers, unit.to_owned()))
}

/// Returns the bands nearest to red, green and blue. If the wavelengths are unknown or two colours
/// share a band, returns three bands that are far apart.
pub(super) fn shown_bands(meta: &Map<String, Value>, bands: usize) -> [usize; 3] {
    let spread = [bands * 3 / 4, bands / 2, bands / 4].map(|band| band.min(bands.saturating_sub(1)));
    let Some((numbers, unit)) = wavelengths(meta, bands) else { return spread };
    let factor = if unit == "µm" { 1000.0 } else { 1.0 };
    let nearest = |wanted: f64| {
        let distance = |band: &usize| numbers.get(*band).map_or(f64::INFINITY, |value| (value * factor - wanted).abs());
        (0..bands).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let found = SHOWN_NM.map(nearest);
    match found {
        // For a camera that does not record visible light, the same band may be nearest to several colours.
        [Some(r), Some(g), Some(b)] if r != g && g != b => [r, g, b],
        _ => spread,
    }
}

pub(super) fn planes(cube: &Array, bands: [usize; 3]) -> Vec<[f64; 3]> {
    let count = cube.shape().last().and_then(|&bands| usize::try_from(bands).ok()).unwrap_or(0);
    let (dtype, size) = (cube.dtype(), cube.dtype().size());
    let pixels = cube.bytes().chunks_exact((count * size).max(1));
    let value = |pixel: &[u8], band: usize| {
        let bytes = pixel.chunks_exact(size).nth(band).unwrap_or_default();
        floats_of(dtype, bytes).first().copied().unwrap_or(f64::NAN)
    };
    pixels.map(|pixel| bands.map(|band| value(pixel, band))).collect()
}

/// Returns the range of values to map to 0..=1 in each shown band, from the 2nd to the 98th percentile of the source.
pub(super) fn stretch(source: &[[f64; 3]], no_data: Option<f64>) -> [(f64, f64); 3] {
    let of = |band: usize| {
        let mut values: Vec<f64> = source
            .iter()
            .filter_map(|pixel| pixel.get(band).copied())
            .filter(|value| value.is_finite() && no_data != Some(*value))
            .collect();
        values.sort_by(f64::total_cmp);
        let rank = |percent: usize| values.get(values.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0);
        let (low, high) = (rank(2), rank(98));
        if high > low { (low, high) } else { (low, low + 1.0) }
    };
    [of(0), of(1), of(2)]
}

/// Returns the stretched pixels as RGB bytes. NaN becomes black.
pub(super) fn shown(pixels: &[[f64; 3]], stretch: &[(f64, f64); 3]) -> Vec<u8> {
    let levels = pixels.iter().flat_map(|pixel| {
        pixel.iter().zip(stretch).map(|(value, (low, high))| level((value - low) / (high - low) * 255.0))
    });
    levels.collect()
}

/// Returns the differences as RGB bytes around mid grey, and the factor by which they were multiplied. The
/// factor makes the largest difference white or black.
pub(super) fn differences(source: &[[f64; 3]], stored: &[[f64; 3]], stretch: &[(f64, f64); 3]) -> (Vec<u8>, f64) {
    let steps: Vec<f64> = source
        .iter()
        .zip(stored)
        .flat_map(|(u, v)| u.iter().zip(v).zip(stretch).map(|((u, v), (low, high))| (v - u) / (high - low) * 255.0))
        .collect();
    let largest = steps.iter().filter(|step| step.is_finite()).fold(0.0_f64, |most, step| most.max(step.abs()));
    let factor = if largest > 0.0 { (127.0 / largest).max(1.0) } else { 1.0 };
    (steps.iter().map(|step| level(128.0 + step * factor)).collect(), factor)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255; no number becomes 0")]
fn level(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bands_next_to_red_green_and_blue_are_shown() {
        let meta = |units: &str, values: Value| match json!({ "wavelengths": values, "wavelength_units": units }) {
            Value::Object(meta) => meta,
            _ => Map::new(),
        };
        assert_eq!(shown_bands(&meta("Nanometers", json!([400, 460, 540, 660, 900])), 5), [3, 2, 1]);
        assert_eq!(shown_bands(&meta("Micrometers", json!([0.40, 0.46, 0.54, 0.66, 0.9])), 5), [3, 2, 1]);
        assert_eq!(shown_bands(&meta("nm", json!([1000, 1100, 1200, 1300])), 4), [3, 2, 1]);
        assert_eq!(shown_bands(&Map::new(), 1), [0, 0, 0]);
        assert_eq!(wavelengths(&meta("nm", json!([1, 2])), 3), None);
    }

    #[test]
    fn the_largest_difference_is_black_or_white() {
        let (u, v) = ([[0.0, 0.5, 1.0]], [[0.005, 0.5, 0.98]]);
        let (bytes, factor) = differences(&u, &v, &[(0.0, 1.0); 3]);
        assert_eq!((bytes, factor.round()), (vec![160, 128, 1], 25.0));
        assert_eq!(shown(&[[f64::NAN, 2.0, 0.5]], &[(0.0, 1.0); 3]), [0, 255, 128]);
        assert_eq!(stretch(&[[3.0, f64::NAN, 3.0]], None), [(3.0, 4.0), (0.0, 1.0), (3.0, 4.0)]);
    }
}
