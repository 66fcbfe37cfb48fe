//! Draws stratified samples, in an order that allows drawing more later.

use shardpack_base::{halves, philox4x32_10};
use shardpack_format::to_usize;
use shardpack_report::data::Strata;
use shardpack_report::stats::Stratum;
use shardpack_sources::{Listing, SampleContent, SourceSample};
use std::collections::BTreeMap;

/// Number of samples in the first draw, unless the user sets it.
pub(super) const PILOT: u64 = 64;
/// Maximum number of samples, unless the user sets it.
pub(super) const MOST: u64 = 512;
/// Stop drawing once the confidence interval of the predicted size is at most ± this share of the size.
pub(super) const GOAL: f64 = 0.02;

/// Minimum number of samples per stratum, and maximum number of strata.
const PER_STRATUM: u64 = 4;
const MOST_STRATA: usize = 16;

pub(super) struct Draw {
    order: Vec<usize>,
    stratum_of: Vec<usize>,
    pub(super) strata: Vec<Stratum>,
    pub(super) over: Strata,
}

impl Draw {
    /// Builds the draw order from strata. The strata are the classes or, if there are none, the first-level
    /// folders. Neighbouring strata are joined if there are too few `samples` for all of them.
    ///
    /// In a stratum of n samples, the k-th sample in random order gets the place (k + u) / n, where u is a
    /// random number per stratum. Any prefix of the samples, ordered by place, is therefore stratified in
    /// proportion.
    pub(super) fn new(listing: &Listing, seed: u64, samples: u64) -> Self {
        let folder = |key: &str| key.split_once('/').map_or("", |(folder, _)| folder).to_owned();
        let names: Vec<String> = match listing.classes.is_empty() {
            false => listing.samples.iter().map(|entry| format!("{:010}", entry.class.unwrap_or(0))).collect(),
            true => listing.samples.iter().map(|entry| folder(&entry.key)).collect(),
        };
        let numbers = joined(&names, samples);
        let stratum_of: Vec<usize> =
            names.iter().map(|name| numbers.get(name.as_str()).copied().unwrap_or(0)).collect();
        let count = numbers.values().max().map_or(0, |last| last + 1);
        let mut strata = vec![Stratum::default(); count];
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (position, (entry, &number)) in listing.samples.iter().zip(&stratum_of).enumerate() {
            if let (Some(stratum), Some(members)) = (strata.get_mut(number), members.get_mut(number)) {
                let [bytes, size] = known(entry);
                stratum.samples += 1;
                stratum.known = [stratum.known[0] + bytes, stratum.known[1] + size];
                members.push(position);
            }
        }
        let mut placed: Vec<(f64, usize)> = Vec::with_capacity(listing.samples.len());
        for (number, mut own) in members.into_iter().enumerate() {
            own.sort_by_key(|&position| (random(seed, number as u64, position as u64), position));
            #[allow(clippy::cast_precision_loss, reason = "a place between 0 and 1")]
            let (count, shift) = (own.len() as f64, random(seed, number as u64, u64::MAX) as f64 / 2_f64.powi(64));
            #[allow(clippy::cast_precision_loss, reason = "a place between 0 and 1")]
            placed.extend(own.into_iter().enumerate().map(|(k, position)| ((k as f64 + shift) / count, position)));
        }
        placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let over = match (strata.len(), listing.classes.is_empty()) {
            (0 | 1, _) => Strata::None,
            (_, false) => Strata::Classes,
            (_, true) => Strata::Folders,
        };
        Self { order: placed.into_iter().map(|(_, position)| position).collect(), stratum_of, strata, over }
    }

    pub(super) fn len(&self) -> u64 {
        self.order.len() as u64
    }

    pub(super) fn first(&self, count: u64) -> &[usize] {
        self.range(0, count)
    }

    pub(super) fn range(&self, from: u64, to: u64) -> &[usize] {
        let clamp = |count: u64| to_usize(count).min(self.order.len());
        self.order.get(clamp(from)..clamp(to)).unwrap_or_default()
    }

    pub(super) fn stratum(&self, position: usize) -> usize {
        self.stratum_of.get(position).copied().unwrap_or(0)
    }
}

/// Returns the sizes of a sample that are known without encoding it: its source bytes, and its pixels or decoded bytes.
#[allow(clippy::cast_precision_loss, reason = "sizes for an estimate")]
pub(super) fn known(entry: &SourceSample) -> [f64; 2] {
    let size = match &entry.content {
        SampleContent::Picture(picture) => f64::from(picture.width) * f64::from(picture.height),
        SampleContent::Cube(info) => info.array_bytes as f64,
    };
    [entry.source_bytes() as f64, size]
}

/// Assigns a stratum to each name. If there are too many names for [`PER_STRATUM`] samples per stratum,
/// neighbouring names share a stratum, so that strata have about equal sizes.
fn joined(names: &[String], samples: u64) -> BTreeMap<&str, usize> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    names.iter().for_each(|name| *sizes.entry(name.as_str()).or_default() += 1);
    let most = to_usize(samples / PER_STRATUM).clamp(1, MOST_STRATA);
    if sizes.len() <= most {
        return sizes.into_keys().enumerate().map(|(number, name)| (name, number)).collect();
    }
    let mut before = 0;
    let mut numbers = BTreeMap::new();
    let (mut last_share, mut number) = (0, 0);
    for (name, size) in sizes {
        let share = before * most / names.len().max(1);
        // A name with many samples may span several shares, so number the strata without gaps.
        number += usize::from(share != last_share);
        last_share = share;
        numbers.insert(name, number);
        before += size;
    }
    numbers
}

/// Returns the random number of a sample, which depends only on the arguments.
pub(super) fn random(seed: u64, stream: u64, at: u64) -> u64 {
    let ([a0, a1], [s0, s1]) = (halves(at), halves(stream));
    let [low, high, ..] = philox4x32_10([a0, a1, s0, s1], halves(seed));
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_sources::{SourceOptions, enumerate};

    fn listing(files: &[(&str, usize)]) -> Listing {
        let dir = tempfile::tempdir().unwrap();
        for (folder, count) in files {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
            for i in 0..*count {
                let mut bmp = b"BM\x3A\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
                bmp.extend([0; 24]);
                bmp.extend([1, 2, 3, 0]);
                std::fs::write(dir.path().join(folder).join(format!("{i}.bmp")), bmp).unwrap();
            }
        }
        enumerate(dir.path(), &SourceOptions::default()).unwrap()
    }

    #[test]
    fn every_stratum_has_its_share_of_any_first_samples() {
        let draw = Draw::new(&listing(&[("a", 80), ("b", 20)]), 1, 64);
        assert_eq!((draw.len(), draw.over, draw.strata.len()), (100, Strata::Classes, 2));
        for count in [10_u64, 25, 50] {
            let of_b = draw.first(count).iter().filter(|&&position| draw.stratum(position) == 1).count() as u64;
            assert!(of_b.abs_diff(count / 5) <= 1, "{of_b} of {count}");
        }
        let mut all = draw.first(100).to_vec();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn many_small_classes_share_strata() {
        let names: Vec<String> = (0..1000).map(|i| format!("{i:04}")).collect();
        let strata = |samples| joined(&names, samples).values().max().unwrap() + 1;
        assert_eq!((strata(64), strata(4), strata(1), strata(100_000)), (16, 1, 1, 16));
        let mut names = vec!["a".to_owned(); 900];
        names.extend((0..100).map(|i| format!("b{i}")));
        let numbers = joined(&names, 64);
        assert_eq!(numbers["a"], 0);
        assert!((1..=3).contains(&numbers["b99"]), "{}", numbers["b99"]);
    }

    #[test]
    fn the_draw_is_a_function_of_its_seed() {
        let listing = listing(&[("a", 30)]);
        let order = |seed| Draw::new(&listing, seed, 64).first(30).to_vec();
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        assert_eq!(Draw::new(&listing, 3, 64).over, Strata::None);
    }
}
