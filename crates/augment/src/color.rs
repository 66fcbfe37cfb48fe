//! Colour operations that treat every pixel in the same way. Most of them look up each level in a
//! table of 256 entries.

use super::picture::{GROUP, Picture, level, single};
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
fn gray([r, g, b]: [f32; 3]) -> f32 {
    (r * 0.2989 + g * 0.587 + b * 0.114).floor()
}

/// Returns the sum of the gray levels.
#[inline(always)]
fn gray_sum(pixels: &[[u8; 3]]) -> u64 {
    let (groups, rest) = pixels.as_chunks::<GROUP>();
    let mut sum = 0;
    for group in groups {
        let mut grays = [0; GROUP];
        for n in 0..GROUP {
            grays[n] = gray_level(group[n]);
        }
        sum += u64::from(grays.into_iter().map(u32::from).sum::<u32>());
    }
    sum + rest.iter().map(|pixel| u64::from(gray_level(*pixel))).sum::<u64>()
}

#[inline(always)]
fn gray_level([r, g, b]: [u8; 3]) -> u8 {
    level(gray([f32::from(r), f32::from(g), f32::from(b)]))
}

/// Returns the lowest and the highest level of each channel.
#[inline(always)]
fn extremes(pixels: &[[u8; 3]]) -> [[u8; 3]; 2] {
    let (groups, rest) = pixels.as_flattened().as_chunks::<{ 3 * GROUP }>();
    let (mut lowest, mut highest) = ([u8::MAX; 3 * GROUP], [0; 3 * GROUP]);
    for group in groups {
        for n in 0..3 * GROUP {
            lowest[n] = lowest[n].min(group[n]);
            highest[n] = highest[n].max(group[n]);
        }
    }
    let (mut low, mut high) = ([u8::MAX; 3], [0; 3]);
    for (n, (least, most)) in lowest.into_iter().zip(highest).enumerate() {
        (low[n % 3], high[n % 3]) = (low[n % 3].min(least), high[n % 3].max(most));
    }
    for (n, x) in rest.iter().enumerate() {
        (low[n % 3], high[n % 3]) = (low[n % 3].min(*x), high[n % 3].max(*x));
    }
    [low, high]
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
    let sum = vectorised(
        #[inline(always)]
        || gray_sum(picture.pixels()),
    );
    let rest = single(sum as f64 / count as f64) * single(1.0 - factor);
    let factor = single(factor);
    look_up(picture, &table(|x| level(f32::from(x) * factor + rest)));
}

pub(crate) fn saturation(picture: &mut Picture<'_>, factor: f64) {
    let (own, other) = (single(factor), single(1.0 - factor));
    picture.change_pixels(
        #[inline(always)]
        |[r, g, b]| {
            let rest = gray([r, g, b]) * other;
            [r * own + rest, g * own + rest, b * own + rest]
        },
    );
}

pub(crate) fn grayscale(picture: &mut Picture<'_>) {
    picture.change_pixels(
        #[inline(always)]
        |pixel| [gray(pixel); 3],
    );
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
    let [low, high] = vectorised(
        #[inline(always)]
        || extremes(picture.pixels()),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_extremes_of_groups_are_those_of_single_pixels() {
        for count in 0..3 * GROUP {
            let pixels: Vec<[u8; 3]> = (0..count).map(|n| [n * 89, n * 31 + 7, n * n].map(|x| x as u8)).collect();
            let grays = pixels.iter().map(|pixel| gray(pixel.map(f32::from)) as u64);
            assert_eq!(gray_sum(&pixels), grays.sum::<u64>());
            let channel = |n: usize| pixels.iter().map(move |pixel| pixel[n]);
            let low = [0, 1, 2].map(|n| channel(n).min().unwrap_or(u8::MAX));
            let high = [0, 1, 2].map(|n| channel(n).max().unwrap_or(0));
            assert_eq!(extremes(&pixels), [low, high], "{count} pixels");
        }
    }
}
