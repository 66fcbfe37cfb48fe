//! Change of hue: converts to HSV and back in float32, with torchvision's formulas.

use super::picture::{Picture, level, single};

/// Turns the hue by `by`, a fraction of the colour circle from −0.5 to 0.5.
pub(crate) fn hue(picture: &mut Picture<'_>, by: f64) {
    let by = single(by);
    for pixel in picture.pixels() {
        *pixel = turned(*pixel, by);
    }
}

fn turned(pixel: [u8; 3], by: f32) -> [u8; 3] {
    let [r, g, b] = pixel.map(|x| f32::from(x) * (1.0 / 255.0));
    let (low, high) = (r.min(g).min(b), r.max(g).max(b));
    let range = high - low;
    let saturation = if range == 0.0 { 0.0 } else { range / high };
    let [rc, gc, bc] = [r, g, b].map(|x| if range == 0.0 { 0.0 } else { (high - x) / range });
    let sixths = if high == r {
        bc - gc
    } else if high == g {
        rc + 2.0 - bc
    } else {
        gc + 4.0 - rc
    };
    let hue = ((sixths * (1.0 / 6.0) + 1.0) % 1.0 + by).rem_euclid(1.0);
    let sixths = hue * 6.0;
    let sector = sixths.floor();
    let within = sixths - sector;
    let bounded = |x: f32| (x * high).clamp(0.0, 1.0);
    let q = bounded(1.0 - saturation * within);
    let t = bounded(saturation * within + (1.0 - saturation));
    let p = bounded(1.0 - saturation);
    let v = high;
    let colours = match level(sector) {
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        5 => [v, p, q],
        // Rounding can yield sector 6, which is the first sector again.
        _ => [v, t, p],
    };
    // This is torchvision's conversion of floats to levels. With a factor of 255, only the value 1 would become level
    // 255.
    colours.map(|x| level(x * (256.0 - 1e-3)))
}
