//! Builds the gallery of the worst samples and some random samples. It shows them before and after packing,
//! cropped to the region with the largest difference.

use super::cubes::CubeScorer;
use super::draw::random;
use super::false_colour::{differences, planes, shown, shown_bands, stretch};
use super::measure::{Measurement, Scorer};
use super::pictures::{PictureScorer, resize_of};
use super::sampled::Sampled;
use crate::encode::{PNG, RawPicture, write_png};
use shardpack_report::conclude::main_measure;
use shardpack_report::data::{
    Better, Candidate, Distribution, EmbeddedPicture, GalleryItem, Measure, Rect, Report, StoredSample, Why,
};

const PICTURE_SIDE: u32 = 192;
const CUBE_SIDE: u32 = 256;
/// Factor by which the differences between pictures are amplified.
const FACTOR: i32 = 8;
/// Spacing of the grid of possible regions, in pixels.
const STEP: usize = 16;

/// Adds a gallery for the recommended candidate. If it is lossless, shows the best lossy candidate instead.
pub(super) fn add(report: &mut Report, measurement: &Measurement<'_>, whole: &[Sampled]) {
    let Some(shown) = shown_candidate(report) else { return };
    let Some(candidate) = report.candidates.get(shown) else { return };
    let measure = main_measure(report.content);
    let picks = picks(candidate, measure, measurement.options.gallery, measurement.options.seed);
    let mut scorer = measurement.scorer();
    for (row, why) in picks {
        let Some(position) = whole.get(row.sample).map(|sampled| sampled.position) else { continue };
        let made = match &mut scorer {
            Scorer::Pictures(scorer) => of_picture(scorer, measurement, shown, position),
            Scorer::Cubes(scorer) => of_cube(scorer, measurement, shown, position),
        };
        match made {
            Some(made) => {
                report.gallery.push(GalleryItem {
                    candidate: shown,
                    sample: row.sample,
                    why,
                    scores: row.scores,
                    ..made
                });
            }
            None => report.notes.push("a sample of the gallery could not be encoded a second time".to_owned()),
        }
    }
}

pub(super) fn shown_candidate(report: &Report) -> Option<usize> {
    let measure = main_measure(report.content);
    let is_lossy = |candidate: &&Candidate| !candidate.lossless && candidate.scores.contains_key(&measure);
    let chosen = report.verdict.chosen;
    if let Some(chosen) = chosen
        && report.candidates.get(chosen).as_ref().is_some_and(is_lossy)
    {
        return Some(chosen);
    }
    let worst =
        |candidate: &Candidate| candidate.scores.get(&measure).map_or(0.0, |spread: &Distribution| spread.worst);
    let good = |candidate: &Candidate| match measure.better() {
        Better::Higher => worst(candidate),
        Better::Lower => -worst(candidate),
    };
    let lossy = report.candidates.iter().enumerate().filter(|(_, candidate)| is_lossy(candidate));
    lossy.max_by(|(_, a), (_, b)| good(a).total_cmp(&good(b))).map(|(position, _)| position)
}

fn picks(candidate: &Candidate, measure: Measure, count: usize, seed: u64) -> Vec<(StoredSample, Why)> {
    let score = |row: &StoredSample| row.scores.get(&measure).copied();
    let mut rows: Vec<&StoredSample> = candidate.rows.iter().filter(|row| score(row).is_some()).collect();
    rows.sort_by(|a, b| {
        let order = score(a).unwrap_or(0.0).total_cmp(&score(b).unwrap_or(0.0));
        if measure.better() == Better::Higher { order } else { order.reverse() }
    });
    let (worst, others) = rows.split_at(count.min(rows.len()));
    let mut others = others.to_vec();
    others.sort_by_key(|row| random(seed, u64::MAX, row.sample as u64));
    let worst = worst.iter().map(|row| ((*row).clone(), Why::Worst));
    worst.chain(others.into_iter().take(count).map(|row| (row.clone(), Why::Random))).collect()
}

fn of_picture(
    scorer: &mut PictureScorer<'_>,
    measurement: &Measurement<'_>,
    candidate: usize,
    position: usize,
) -> Option<GalleryItem> {
    let encoder = measurement.prepared.get(candidate)?.as_ref().ok()?;
    let resize = resize_of(&measurement.recipes.get(candidate)?.options);
    scorer.begin(position);
    let mut stored = Vec::new();
    let size = scorer.decode(encoder, &measurement.again(candidate, position)?, &mut stored).ok()?;
    let original = scorer.reference(position, resize, size).ok()?.pixels();
    let energy: Vec<f32> = original
        .as_chunks::<3>()
        .0
        .iter()
        .zip(stored.as_chunks::<3>().0)
        .map(|(u, v)| u.iter().zip(v).map(|(u, v)| f32::from(u.abs_diff(*v)).powi(2)).sum())
        .collect();
    let region = most_different(&energy, size, PICTURE_SIDE);
    let cut = |pixels: &[u8]| cut(pixels, size.0, region);
    let (original, stored) = (cut(original), cut(&stored));
    let differences = original.iter().zip(&stored).map(|(u, v)| 128 + (i32::from(*v) - i32::from(*u)) * FACTOR);
    let differences: Vec<u8> = differences.map(|grey| u8::try_from(grey.clamp(0, 255)).unwrap_or(128)).collect();
    item(region, f64::from(FACTOR), Vec::new(), [&original, &stored, &differences])
}

fn of_cube(
    scorer: &mut CubeScorer<'_>,
    measurement: &Measurement<'_>,
    candidate: usize,
    position: usize,
) -> Option<GalleryItem> {
    scorer.begin(position);
    let stored = scorer.decode(&measurement.again(candidate, position)?).ok()?;
    let source = scorer.source(position).ok()?;
    let &[height, width, count] = source.array.shape() else { return None };
    let size = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    let bands = shown_bands(&source.meta, usize::try_from(count).ok()?);
    let (before, after) = (planes(&source.array, bands), planes(&stored, bands));
    let scale = stretch(&before, source.no_data);
    #[allow(clippy::cast_possible_truncation, reason = "an energy to compare")]
    let of = |u: &[f64; 3], v: &[f64; 3]| {
        let squares = u.iter().zip(v).zip(&scale).map(|((u, v), (low, high))| ((v - u) / (high - low)).powi(2));
        squares.filter(|value| value.is_finite()).sum::<f64>() as f32
    };
    let energy: Vec<f32> = before.iter().zip(&after).map(|(u, v)| of(u, v)).collect();
    let region = most_different(&energy, size, CUBE_SIDE);
    let cut_planes = |pixels: &[[f64; 3]]| -> Vec<[f64; 3]> {
        let rows = pixels.chunks_exact(size.0.max(1) as usize).skip(region.y as usize).take(region.height as usize);
        rows.flat_map(|row| row.iter().skip(region.x as usize).take(region.width as usize).copied()).collect()
    };
    let (before, after) = (cut_planes(&before), cut_planes(&after));
    let (differences, factor) = differences(&before, &after, &scale);
    let bands = bands.map(|band| band as u64).to_vec();
    item(region, factor, bands, [&shown(&before, &scale), &shown(&after, &scale), &differences])
}

fn item(region: Rect, factor: f64, bands: Vec<u64>, pictures: [&[u8]; 3]) -> Option<GalleryItem> {
    let [original, stored, difference] = pictures.map(|rgb| png(rgb, region));
    Some(GalleryItem {
        candidate: 0,
        sample: 0,
        why: Why::Worst,
        region,
        scores: std::collections::BTreeMap::new(),
        difference_factor: factor,
        bands,
        original: original?,
        stored: stored?,
        difference: difference?,
    })
}

fn png(rgb: &[u8], region: Rect) -> Option<EmbeddedPicture> {
    let mut bytes = Vec::new();
    let pixels = RawPicture { bytes: rgb, width: region.width, height: region.height, channels: 3 };
    write_png(pixels, &mut bytes).ok()?;
    Some(EmbeddedPicture { media_type: PNG, width: region.width, height: region.height, bytes })
}

/// Returns the region of at most `side` × `side` pixels with the most energy, on a coarse grid.
fn most_different(energy: &[f32], size: (u32, u32), side: u32) -> Rect {
    let (width, height) = size;
    let (w, h) = (width.min(side), height.min(side));
    let columns = width as usize;
    // Sum up the pixels of each grid cell first, so that a region is a sum of only a few hundred values.
    let cells_x = columns.div_ceil(STEP).max(1);
    let mut cells: Vec<f64> = vec![0.0; cells_x * (height as usize).div_ceil(STEP).max(1)];
    for (y, row) in energy.chunks_exact(columns.max(1)).enumerate() {
        for (cell, part) in row.chunks(STEP).enumerate() {
            if let Some(sum) = cells.get_mut(y / STEP * cells_x + cell) {
                *sum += part.iter().map(|&value| f64::from(value)).sum::<f64>();
            }
        }
    }
    let (across, down) = ((w as usize).div_ceil(STEP), (h as usize).div_ceil(STEP));
    let rows: Vec<&[f64]> = cells.chunks_exact(cells_x).collect();
    let mut best = (f64::NEG_INFINITY, Rect { x: 0, y: 0, width: w, height: h });
    for (cy, band) in rows.windows(down.clamp(1, rows.len().max(1))).enumerate() {
        for cx in 0..=cells_x.saturating_sub(across) {
            let sum: f64 = band.iter().map(|row| row.iter().skip(cx).take(across).sum::<f64>()).sum();
            if sum > best.0 {
                let at = |cell: usize, most: u32| u32::try_from(cell * STEP).unwrap_or(0).min(most);
                best = (sum, Rect { x: at(cx, width - w), y: at(cy, height - h), ..best.1 });
            }
        }
    }
    best.1
}

fn cut(pixels: &[u8], width: u32, region: Rect) -> Vec<u8> {
    let (x, w) = (region.x as usize * 3, region.width as usize * 3);
    let rows = pixels.chunks_exact(width.max(1) as usize * 3).skip(region.y as usize).take(region.height as usize);
    rows.flat_map(|row| row.get(x..x + w).unwrap_or_default().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_holds_what_differs() {
        let mut energy = vec![0.0; 500 * 300];
        energy[250 * 500 + 450] = 9.0;
        let region = most_different(&energy, (500, 300), 192);
        assert_eq!((region.width, region.height), (192, 192));
        assert!((region.x..region.x + 192).contains(&450) && (region.y..region.y + 192).contains(&250), "{region:?}");
        assert_eq!(most_different(&[0.0], (1, 1), 192), Rect { x: 0, y: 0, width: 1, height: 1 });
        let wide = most_different(&vec![1.0; 1000], (1000, 1), 192);
        assert_eq!((wide.width, wide.height, wide.y), (192, 1, 0));
    }

    #[test]
    fn a_cut_has_its_own_pixels() {
        let pixels: Vec<u8> = (0..4 * 3).flat_map(|i| [i; 3]).collect();
        let region = Rect { x: 1, y: 1, width: 2, height: 2 };
        assert_eq!(cut(&pixels, 4, region), [5, 5, 5, 6, 6, 6, 9, 9, 9, 10, 10, 10]);
    }
}
