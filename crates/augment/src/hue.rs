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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::level;

    /// Torchvision's formulas for one pixel, with branches and remainders.
    fn expected(pixel: [u8; 3], by: f32) -> [u8; 3] {
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
        let within = hue * 6.0 - (hue * 6.0).floor();
        let bounded = |x: f32| (x * high).clamp(0.0, 1.0);
        let (q, v) = (bounded(1.0 - saturation * within), high);
        let (t, p) = (bounded(saturation * within + (1.0 - saturation)), bounded(1.0 - saturation));
        let colours = match level((hue * 6.0).floor()) {
            1 => [q, v, p],
            2 => [p, v, t],
            3 => [p, q, v],
            4 => [t, p, v],
            5 => [v, p, q],
            _ => [v, t, p],
        };
        colours.map(|x| level(x * (256.0 - 1e-3)))
    }

    #[test]
    fn every_colour_is_turned_by_the_formulas() {
        for by in [-0.5, -0.1, -1e-8, 0.0, 0.033, 0.5] {
            let colours = (0..1_u32 << 24).step_by(509).map(|n| [(n >> 16) as u8, (n >> 8) as u8, n as u8]);
            let grays = (0..=u8::MAX).map(|x| [x; 3]);
            let colours: Vec<[u8; 3]> = colours.chain(grays).collect();
            let mut found = colours.clone();
            hue(&mut Picture::new(found.as_flattened_mut(), 1, colours.len()).unwrap(), by);
            for (colour, found) in colours.into_iter().zip(found) {
                assert_eq!(found, expected(colour, by as f32), "{colour:?} by {by}");
            }
        }
    }
}
