//! Changes the hue: converts to HSV and back in float32, with torchvision's formulas.

use super::picture::{Picture, single};

/// Turns the hue by `by`, a fraction of the colour circle from −0.5 to 0.5.
pub(crate) fn hue(picture: &mut Picture<'_>, by: f64) {
    let by = single(by);
    picture.change_pixels(
        #[inline(always)]
        |pixel| {
            let [r, g, b] = pixel;
            let [r, g, b] = turned([r * (1.0 / 255.0), g * (1.0 / 255.0), b * (1.0 / 255.0)], by);
            // This is torchvision's conversion of floats to levels. With a factor of 255, only the value 1 would become
            // level 255.
            [r * (256.0 - 1e-3), g * (256.0 - 1e-3), b * (256.0 - 1e-3)]
        },
    );
}

/// Turns the hue of a pixel, without branches.
#[inline(always)]
fn turned([r, g, b]: [f32; 3], by: f32) -> [f32; 3] {
    let (low, high) = (r.min(g).min(b), r.max(g).max(b));
    let range = high - low;
    let is_gray = range == 0.0;
    let saturation = if is_gray { 0.0 } else { range / high };
    let distance = |x: f32| if is_gray { 0.0 } else { (high - x) / range };
    let (rc, gc, bc) = (distance(r), distance(g), distance(b));
    let below_blue = if high == g { rc + 2.0 - bc } else { gc + 4.0 - rc };
    let sixths = if high == r { bc - gc } else { below_blue };
    // The remainder of a division by 1, for numbers from 0 to 2. The difference is exact.
    let remainder = |x: f32| if x >= 1.0 { x - 1.0 } else { x };
    let hue = remainder(sixths * (1.0 / 6.0) + 1.0) + by;
    let hue = if hue < 0.0 { hue + 1.0 } else { remainder(hue) };
    let sixths = hue * 6.0;
    let sector = sixths.floor();
    let within = sixths - sector;
    let bounded = |x: f32| (x * high).clamp(0.0, 1.0);
    let q = bounded(1.0 - saturation * within);
    let t = bounded(saturation * within + (1.0 - saturation));
    let p = bounded(1.0 - saturation);
    let v = high;
    // Rounding can yield sector 6, which is the first sector again.
    let of_sector = |colours: [f32; 6]| {
        let last = if sector == 5.0 { colours[5] } else { colours[0] };
        let last = if sector == 4.0 { colours[4] } else { last };
        let last = if sector == 3.0 { colours[3] } else { last };
        let last = if sector == 2.0 { colours[2] } else { last };
        if sector == 1.0 { colours[1] } else { last }
    };
    [of_sector([v, q, p, p, t, v]), of_sector([t, v, v, q, p, p]), of_sector([p, p, t, v, v, q])]
}
