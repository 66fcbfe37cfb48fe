//! Tests the division of a dataset into parts. Each sample must be in exactly one part, and parts must have the
//! requested shares.

use crate::support::OnDisk;
use proptest::prelude::*;
use shardpack_loader::order::{Attribute, Split};
use shardpack_reader::Dataset;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

struct Made {
    _disk: OnDisk,
    dataset: Dataset,
}

fn made(counts: &[u64]) -> Made {
    let disk = OnDisk::new(counts);
    let dataset = Dataset::open(disk.path()).unwrap();
    Made { _disk: disk, dataset }
}

static DATASET: LazyLock<Made> = LazyLock::new(|| made(&[140, 1, 119, 40]));

fn shares() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1_u32..40, 2..5).prop_map(|parts| {
        let sum: u32 = parts.iter().sum();
        parts.into_iter().map(|part| f64::from(part) / f64::from(sum)).collect()
    })
}

fn texts(numbers: &[u64]) -> Attribute {
    Attribute::Values(numbers.iter().map(|number| format!("value {number}")).collect())
}

fn part_of(parts: &[Vec<u64>], members: &[u64]) -> BTreeMap<u64, usize> {
    let mut part_of = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        assert!(!part.is_empty() && part.is_sorted());
        part.iter().for_each(|sample| assert_eq!(part_of.insert(*sample, number), None, "in two parts: {sample}"));
    }
    assert!(part_of.keys().eq(members), "all of them, and no other");
    part_of
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_have_their_shares_and_nothing_in_common(
        shares in shares(),
        seed in 0_u64..1000,
        members in prop::collection::btree_set(0_u64..300, 60..300),
        classes in 1_u64..6,
    ) {
        let members: Vec<u64> = members.into_iter().collect();
        let class = |sample: u64| (sample * 7919 % 31).min(classes - 1);
        let by_class: Vec<u64> = members.iter().map(|sample| class(*sample)).collect();
        let plain = Split::new(&shares, seed).unwrap();
        for split in [plain.clone(), plain.clone().stratify(texts(&by_class))] {
            // Splitting fails if a part is too small for one sample of each class.
            let Ok(parts) = split.parts(&DATASET.dataset, Some(&members)) else { continue };
            let part_of = part_of(&parts, &members);
            prop_assert_eq!(&parts, &split.parts(&DATASET.dataset, Some(&members)).unwrap());
            for (number, (part, share)) in parts.iter().zip(&shares).enumerate() {
                let wanted = share * members.len() as f64;
                prop_assert!((part.len() as f64 - wanted).abs() < 1.0 || part.len() == 1, "{} for {wanted}", part.len());
                for of in 0..classes {
                    let all = by_class.iter().filter(|class| **class == of).count() as f64;
                    let there = members.iter().filter(|sample| class(**sample) == of && part_of[*sample] == number);
                    let off = (there.count() as f64 - share * all).abs();
                    let most = if shares.len() == 2 { 1.0 + 1e-9 } else { 2.0 };
                    prop_assert!(off <= most || matches!(split, ref s if format!("{s:?}") == format!("{plain:?}")), "{off}");
                }
            }
        }
    }

    #[test]
    fn groups_stay_together(
        shares in shares(),
        seed in 0_u64..1000,
        groups in 20_u64..80,
        is_stratified in any::<bool>(),
        is_growing in any::<bool>(),
    ) {
        let members: Vec<u64> = (0..300).collect();
        let group = |sample: u64| sample * sample % groups;
        let mut split = Split::new(&shares, seed).unwrap().groups(texts(&members.iter().map(|s| group(*s)).collect::<Vec<_>>()));
        if is_growing {
            split = split.growing();
        } else if is_stratified {
            split = split.stratify(Attribute::Column("label".into()));
        }
        let Ok(parts) = split.parts(&DATASET.dataset, None) else { return Ok(()) };
        let part_of = part_of(&parts, &members);
        let of_groups: BTreeSet<(u64, usize)> = part_of.iter().map(|(sample, part)| (group(*sample), *part)).collect();
        prop_assert_eq!(of_groups.len(), members.iter().map(|s| group(*s)).collect::<BTreeSet<_>>().len());
        let largest = (0..groups).map(|of| members.iter().filter(|s| group(**s) == of).count()).max().unwrap_or(0);
        if !is_growing && !is_stratified {
            for (part, share) in parts.iter().zip(&shares) {
                let off = (part.len() as f64 - share * 300.0).abs();
                // With two parts, the only cut is between two groups, and it is off by at most half a group.
                let most = if shares.len() == 2 { largest as f64 / 2.0 + 1.0 } else { 2.0 * largest as f64 };
                prop_assert!(off <= most || parts.iter().any(|part| part.len() <= largest), "{off}, {largest}");
            }
        }
    }
}

#[test]
fn parts_depend_on_keys_and_seed_alone() {
    let (one, many) = (made(&[300]), &*DATASET);
    let split = |seed| Split::new(&[0.8, 0.2], seed).unwrap().stratify(Attribute::Column("label".into()));
    assert_eq!(split(3).parts(&one.dataset, None).unwrap(), split(3).parts(&many.dataset, None).unwrap());
    assert_ne!(split(3).parts(&one.dataset, None).unwrap(), split(4).parts(&one.dataset, None).unwrap());
    let reversed: Vec<u64> = (0..300).rev().collect();
    assert_eq!(split(3).parts(&one.dataset, Some(&reversed)).unwrap(), split(3).parts(&one.dataset, None).unwrap());
}

/// `docs/compatibility.md` promises that the parts never change. These lists come from a second
/// implementation of `docs/order.md`, in Python.
#[test]
fn every_version_makes_the_same_parts() {
    let members: Vec<u64> = (0..40).collect();
    let values = |of: fn(u64) -> u64| texts(&members.iter().map(|sample| of(*sample)).collect::<Vec<_>>());
    let (classes, groups) = (values(|sample| sample % 5 / 2), values(|sample| sample * sample % 17));
    let split = Split::new(&[0.6, 0.2, 0.2], 1).unwrap();
    // The expected second and third parts. The first part has all other samples.
    let golden: [(&str, Split, [&[u64]; 2]); 6] = [
        ("plain", split.clone(), [&[9, 10, 13, 17, 27, 29, 33, 38], &[0, 7, 12, 15, 20, 22, 24, 39]]),
        (
            "stratified",
            split.clone().stratify(classes.clone()),
            [&[9, 10, 13, 16, 17, 30, 33, 38], &[0, 7, 12, 15, 20, 22, 24, 39]],
        ),
        (
            "grouped",
            split.clone().groups(groups.clone()),
            [&[6, 8, 9, 11, 23, 25, 26, 28], &[5, 7, 10, 12, 22, 24, 27, 29, 39]],
        ),
        (
            "stratified groups",
            split.clone().stratify(classes).groups(groups.clone()),
            [&[3, 5, 12, 14, 20, 22, 29, 31, 37, 39], &[6, 8, 9, 11, 23, 25, 26, 28]],
        ),
        ("growing", split.clone().growing(), [&[8, 9, 10, 13, 17, 27, 29, 33, 38], &[0, 7, 12, 15, 20, 22, 24, 39]]),
        (
            "growing groups",
            split.growing().groups(groups),
            [&[3, 6, 7, 8, 9, 10, 11, 14, 20, 23, 24, 25, 26, 27, 28, 31, 37], &[5, 12, 22, 29, 39]],
        ),
    ];
    for (kind, split, [second, third]) in golden {
        let parts = split.parts(&DATASET.dataset, Some(&members)).unwrap();
        part_of(&parts, &members);
        assert_eq!((&*parts[1], &*parts[2]), (second, third), "{kind}");
    }
}

#[test]
fn a_dataset_that_grows_keeps_its_parts() {
    let (before, after) = (made(&[260]), &*DATASET);
    let moved = |split: &Split| {
        let [old, new] = [&before.dataset, &after.dataset].map(|of| split.parts(of, None).unwrap().swap_remove(1));
        let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.into_iter().collect(), new.into_iter().collect());
        (0..260).filter(|sample| old.contains(sample) != new.contains(sample)).count()
    };
    let split = Split::new(&[0.8, 0.2], 5).unwrap();
    assert_eq!(moved(&split.clone().growing()), 0);
    // This split has exact counts, so a growing dataset shifts the cut: a few samples near it move to the other part,
    // all in the same direction.
    let few = moved(&split);
    assert!((1..20).contains(&few), "{few}");
    let [train, test]: [Vec<u64>; 2] = split.growing().parts(&after.dataset, None).unwrap().try_into().unwrap();
    assert!((40..80).contains(&test.len()) && train.len() + test.len() == 300, "{}", test.len());
}

#[test]
fn patients_and_their_diagnoses() {
    let numbers = |of: fn(u64) -> u64| texts(&(0..300).map(of).collect::<Vec<_>>());
    // 30 patients with 10 pictures each. Every third patient is ill.
    let split = Split::new(&[0.8, 0.2], 1).unwrap().groups(numbers(|s| s / 10)).stratify(numbers(|s| s / 10 % 3 / 2));
    let parts = split.parts(&DATASET.dataset, None).unwrap();
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [240, 60]);
    let ill = |part: &Vec<u64>| part.iter().filter(|sample| *sample / 10 % 3 == 2).count();
    assert_eq!(parts.iter().map(ill).collect::<Vec<_>>(), [80, 20]);
    let split = Split::new(&[0.8, 0.1, 0.1], 1).unwrap().groups(numbers(|s| s / 100));
    let parts = split.parts(&DATASET.dataset, None).unwrap();
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 100]);
}

#[test]
fn invalid_splits_are_refused() {
    for (shares, said) in [
        (&[1.0][..], "at least two shares"),
        (&[0.8, 0.3], "must add up to 1, but [0.8, 0.3] add up to 1.1"),
        (&[80.0, 20.0], "must add up to 1"),
        (&[1.0, 0.0], "must be a number above 0"),
        (&[f64::NAN, 0.5], "must be a number above 0"),
        (&[f64::INFINITY, 0.5], "must be a number above 0"),
    ] {
        let error = Split::new(shares, 0).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let split = Split::new(&[0.99, 0.01], 0).unwrap();
    let refused =
        |split: &Split, members: Option<&[u64]>| split.parts(&DATASET.dataset, members).unwrap_err().to_string();
    let error = refused(&split, Some(&[3]));
    assert!(error.contains("part 1 of the split would be empty: its share is 0.01 of 1 samples"), "{error}");
    let error = refused(&split.clone().growing(), Some(&[3, 4]));
    assert!(error.contains("part 1 of the split would be empty: its share is 0.01 of 2 samples"), "{error}");
    let error = refused(&split.clone().stratify(Attribute::Column("hight".into())), None);
    assert!(error.contains("its scalar fields are [label, height]"), "{error}");
    let error = refused(&split.clone().groups(texts(&[1, 2])), None);
    assert!(error.contains("`groups` has 2 values, but there are 300 samples"), "{error}");
    let both = split.clone().growing().stratify(Attribute::Column("label".into()));
    assert!(refused(&both, None).contains("`growing` and `stratify` cannot be combined"));
    assert!(refused(&split, Some(&[300, 301])).contains("there is no sample 300: the dataset has 300 samples"));
}
