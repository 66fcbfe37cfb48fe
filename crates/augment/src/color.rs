//! Colour operations that treat every pixel in the same way. Most of them look up each level in a
//! table of 256 entries.

use super::picture::{Picture, level, single};
use shardpack_base::vectorised;

type LevelMap = [u8; 256];

fn table(of: impl Fn(u8) -> u8) -> LevelMap {
    let mut table = [0; 256];
    table.iter_mut().zip(0..=u8::MAX).for_each(|(to, from)| *to = of(from));
    table
}

fn entry(table: &LevelMap, at: u8) -> u8 {
    table.get(usize::from(at)).copied().unwrap_or_default()
}

fn look_up(picture: &mut Picture<'_>, table: &LevelMap) {
    picture.levels().iter_mut().for_each(|level| *level = entry(table, *level));
}

fn look_up_channels(picture: &mut Picture<'_>, [red, green, blue]: &[LevelMap; 3]) {
    for [r, g, b] in picture.pixels() {
        (*r, *g, *b) = (entry(red, *r), entry(green, *g), entry(blue, *b));
    }
}

/// Returns the gray level, computed with torchvision's weights and rounded down.
#[inline(always)]
fn gray([r, g, b]: [u8; 3]) -> f32 {
    (f32::from(r) * 0.2989 + f32::from(g) * 0.587 + f32::from(b) * 0.114).floor()
}

pub(crate) fn brightness(picture: &mut Picture<'_>, factor: f64) {
    let factor = single(factor);
    look_up(picture, &table(|x| level(f32::from(x) * factor)));
}

pub(crate) fn contrast(picture: &mut Picture<'_>, factor: f64) {
    let count = picture.pixels().len();
    if count == 0 {
        return;
    }
    // The summands are whole numbers, which float64 adds exactly.
    let sum = picture.pixels().iter().fold(0.0, |sum, &pixel| sum + f64::from(gray(pixel)));
    let rest = single(sum / count as f64) * single(1.0 - factor);
    let factor = single(factor);
    look_up(picture, &table(|x| level(f32::from(x) * factor + rest)));
}

pub(crate) fn saturation(picture: &mut Picture<'_>, factor: f64) {
    let (own, other) = (single(factor), single(1.0 - factor));
    vectorised(
        #[inline(always)]
        || {
            for pixel in picture.pixels() {
                let rest = gray(*pixel) * other;
                *pixel = pixel.map(
                    #[inline(always)]
                    |x| level(f32::from(x) * own + rest),
                );
            }
        },
    );
}

pub(crate) fn grayscale(picture: &mut Picture<'_>) {
    for pixel in picture.pixels() {
        *pixel = [level(gray(*pixel)); 3];
    }
}

pub(crate) fn posterize(picture: &mut Picture<'_>, bits: u8) {
    let mask = !0xFF_u8.checked_shr(bits.into()).unwrap_or(0);
    picture.levels().iter_mut().for_each(|level| *level &= mask);
}

pub(crate) fn solarize(picture: &mut Picture<'_>, threshold: f64) {
    let threshold = single(threshold);
    look_up(picture, &table(|x| if f32::from(x) >= threshold { !x } else { x }));
}

pub(crate) fn invert(picture: &mut Picture<'_>) {
    picture.levels().iter_mut().for_each(|level| *level = !*level);
}

/// Stretches each channel to the full range of levels.
pub(crate) fn autocontrast(picture: &mut Picture<'_>) {
    let (mut low, mut high) = ([u8::MAX; 3], [0; 3]);
    for pixel in picture.pixels() {
        low.iter_mut().zip(&*pixel).for_each(|(low, &x)| *low = x.min(*low));
        high.iter_mut().zip(&*pixel).for_each(|(high, &x)| *high = x.max(*high));
    }
    let stretched = |low: u8, high: u8| {
        let scale = (f32::from(high) - f32::from(low)) * (1.0 / 255.0);
        table(|x| if low >= high { x } else { level((f32::from(x) - f32::from(low)) / scale) })
    };
    let ([r0, g0, b0], [r1, g1, b1]) = (low, high);
    look_up_channels(picture, &[stretched(r0, r1), stretched(g0, g1), stretched(b0, b1)]);
}

/// Spreads the levels of each channel evenly, with Pillow's scheme, which torchvision follows.
pub(crate) fn equalize(picture: &mut Picture<'_>) {
    let mut counts = [[0_u64; 256]; 3];
    for pixel in picture.pixels() {
        for (counts, &x) in counts.iter_mut().zip(&*pixel) {
            counts.get_mut(usize::from(x)).into_iter().for_each(|count| *count += 1);
        }
    }
    let tables = counts.map(|counts| {
        let all: u64 = counts.iter().sum();
        let brightest = counts.iter().rev().find(|&&count| count > 0).copied().unwrap_or(0);
        let step = (all - brightest) / 255;
        let mut below = 0;
        let mut levels = [0; 256];
        for ((to, from), count) in levels.iter_mut().zip(0..=u8::MAX).zip(counts) {
            let spread = (below + step / 2).checked_div(step).map(|x| u8::try_from(x).unwrap_or(u8::MAX));
            *to = spread.unwrap_or(from);
            below += count;
        }
        levels
    });
    look_up_channels(picture, &tables);
}
