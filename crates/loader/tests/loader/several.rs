//! Tests several datasets together: concatenated, mixed by weight, and resumed with other settings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, RowOf, base, said, write};
use shardpack_format::{Dtype, Field, FieldKind, Schema};
use shardpack_loader::order::{Mixture, Order, OrderState, Runs, Sampling, Weighted};
use shardpack_loader::{CubeMode, Loader, LoaderOptions, PatchPlace};
use shardpack_reader::Dataset;
use std::collections::HashMap;
use std::sync::Arc;

fn disk(counts: &[u64], first: u64) -> Disk {
    Disk::new(counts, |id| Made { id: id + first, height: 16, width: 24, said_height: 16, half: false })
}

#[test]
fn two_datasets_are_one() {
    let (a, b) = (disk(&[7, 0, 5], 0), disk(&[9], 100));
    let both = Dataset::concat(&[a.open(), b.open()]).unwrap();
    assert_eq!((both.len(), both.shards().len(), both.parts()), (21, 4, &[0..12, 12..21][..]));
    let names: Vec<String> = both.shards().map(|info| info.name).collect();
    assert!(names[3].ends_with("shard-00000.shard") && names[3].contains(b.path().to_str().unwrap()), "{names:?}");
    let labels: Vec<i64> = (0..12).chain(100..109).map(|id| id % 10).collect();
    assert_eq!(both.labels().unwrap(), labels);
    for (index, id) in [(0, 0), (11, 11), (12, 100), (20, 108)] {
        let key = format!("sample-{id:05}");
        assert_eq!(both.get(index).unwrap().key(), key);
        assert_eq!(both.by_key(&key).unwrap(), Some(index));
    }
    let many = both.get_many(&[20, 3, 12]).unwrap();
    assert_eq!(many.iter().map(|sample| sample.index()).collect::<Vec<_>>(), [20, 3, 12]);
    assert_eq!(
        both.iter().unwrap().map(|sample| sample.unwrap().index()).collect::<Vec<_>>(),
        (0..21).collect::<Vec<_>>()
    );
    assert_ne!(both.dataset_id(), Dataset::concat(&[a.open()]).unwrap().dataset_id());

    let c = disk(&[4], 200);
    let nested = Dataset::concat(&[both.clone(), c.open()]).unwrap();
    let mut loader = Loader::open(&nested, base().batch_size(5)).unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        for (key, &index) in batch.keys().zip(batch.indices()) {
            assert_eq!(key, nested.key(index).unwrap());
        }
        seen.extend(batch.indices().to_vec());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
}

#[test]
fn datasets_that_do_not_fit_together_are_refused() {
    let a = disk(&[3], 0);
    assert!(Dataset::concat(&[]).is_err());
    let other = crate::support::scratch();
    let schema = Schema::new(vec![
        Field::stored("image", FieldKind::Image),
        Field::stored("cube", FieldKind::Array),
        Field::scalar("label", Dtype::I32),
    ])
    .unwrap();
    write(other.path(), &schema, &[], |_, _, _| unreachable!());
    let text = Dataset::concat(&[a.open(), Dataset::open(other.path()).unwrap()]).unwrap_err().to_string();
    assert!(text.starts_with("field `label` is a scalar of type int64 in `"), "{text}");
    assert!(text.contains("`, but a scalar of type int32 in `"), "{text}");
    // Concatenating a dataset with itself is allowed. Only looking up a key fails, because every
    // key occurs twice.
    let twice = Dataset::concat(&[a.open(), a.open()]).unwrap();
    assert_eq!(twice.get(5).unwrap().key(), "sample-00002");
    let text = twice.by_key("sample-00002").unwrap_err().to_string();
    assert!(text.contains("occurs in datasets 0 and 1"), "{text}");
}

fn mixture(a: &Dataset, b: &Dataset) -> Arc<dyn Sampling> {
    let order = |dataset: &Dataset| -> Arc<dyn Sampling> {
        Arc::new(Order::new(Runs::new(dataset.len(), 4), 5).dataset(dataset.dataset_id()).lanes(6))
    };
    Arc::new(Mixture::new(vec![(order(a), 0.7), (order(b), 0.3)], 9).unwrap().draws(400))
}

/// Loads up to `batches` batches on each rank, starting at `state`. Returns their samples and the final state.
fn given(both: &Dataset, options: &LoaderOptions, state: Option<OrderState>, batches: usize) -> (Vec<u64>, OrderState) {
    let (mut all, mut after) = (Vec::new(), None);
    for rank in 0..options.order.world_size {
        let mut loader = Loader::open(both, options.clone().rank(rank)).unwrap();
        state.iter().for_each(|state| loader.restore(state).unwrap());
        for _ in 0..batches {
            let Some(batch) = loader.next_batch() else { break };
            let batch = batch.unwrap();
            for (key, &index) in batch.keys().zip(batch.indices()) {
                assert_eq!(key, both.key(index).unwrap());
            }
            all.extend(batch.indices().to_vec());
        }
        assert!(after.replace(loader.state()).is_none_or(|other| other == loader.state()), "the same on every rank");
    }
    (all, after.unwrap())
}

#[test]
fn a_mixture_resumes_with_a_different_world_size() {
    let (a, b) = (disk(&[90, 70], 0), disk(&[50], 1000));
    let (first, second) = (a.open(), b.open());
    let sampling = mixture(&first, &second);
    let both = Dataset::concat(&[first, second]).unwrap();
    let epoch = sampling.epoch(0);
    let mut expected: Vec<u64> = (0..400)
        .map(|position| epoch.sample(position).unwrap())
        .map(|at| at.sample + if at.source == 0 { 0 } else { 160 })
        .collect();
    let of_b = expected.iter().filter(|&&index| index >= 160).count();
    assert!((117..=123).contains(&of_b), "{of_b} of 400 at 0.3");

    let options = base().sampling(sampling).batch_size(5).world_size(3);
    let (mut seen, state) = given(&both, &options, None, 8);
    assert_eq!((seen.len(), state.samples_consumed), (120, 120));
    let (rest, end) = given(&both, &options.world_size(2).batch_size(7), Some(state), 100);
    assert_eq!(end.samples_consumed, 400);
    seen.extend(rest);
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected, "every draw comes once");
}

#[test]
fn a_sampling_that_does_not_fit_is_refused_at_once() {
    let (a, b) = (disk(&[20], 0), disk(&[10], 100));
    let (first, second) = (a.open(), b.open());
    let open = |dataset: &Dataset, sampling: Arc<dyn Sampling>| {
        let options = base().batch_size(4).sampling(sampling);
        Loader::open(dataset, options).map(|_| ()).map_err(|error| said(&error))
    };
    let mixed = mixture(&first, &second);
    let text = open(&first, Arc::clone(&mixed)).unwrap_err();
    assert!(
        text.contains("draws from 2 datasets, but the loader has 1")
            && text.contains("load a `concat` of the datasets"),
        "{text}"
    );
    // With the datasets swapped, the sampling draws up to 20 samples from the dataset that has only
    // 10.
    let text = open(&Dataset::concat(&[second.clone(), first.clone()]).unwrap(), mixed).unwrap_err();
    assert!(text.contains("draws from 20 samples, but dataset 0 has only 10"), "{text}");
    let text = open(&second, Arc::new(Order::of(&first, 1))).unwrap_err();
    assert!(text.contains("draws from 20 samples, but the dataset has only 10"), "{text}");
    assert!(open(&second, Arc::new(Weighted::by_sample(&[1.0; 11], 1).unwrap())).is_err());
    assert!(open(&second, Arc::new(Weighted::by_sample(&[1.0; 10], 1).unwrap())).is_ok());
    let nested: Arc<dyn Sampling> = mixture(&first, &second);
    let error = Mixture::new(vec![(nested, 1.0), (Arc::new(Order::of(&first, 1)), 1.0)], 1).unwrap_err();
    assert!(error.to_string().contains("source 0"), "{error}");
}

/// Compares the draws of samples that repeat within an epoch. Returns the number of pairs of draws
/// that have the same patch, and the number of all pairs.
fn repeated(dataset: &Dataset, sampling: Arc<dyn Sampling>, place: PatchPlace) -> (usize, usize) {
    let cube = CubeMode::Patch { height: 4, width: 4, place };
    let options = base().sampling(sampling).batch_size(10).cube(cube).fields(["cube"]);
    let mut loader = Loader::open(dataset, options.clone()).unwrap();
    let mut patches: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        let cube = batch.field("cube").unwrap();
        for ((row, &index), key) in (0..).zip(batch.indices()).zip(batch.draw_keys()) {
            let patch = cube.row_of(row).to_vec();
            // The first element of a patch reveals its position.
            let [y, x] = place.origin(&key, [16, 24], [4, 4]).unwrap();
            let id: u64 = dataset.key(index).unwrap()["sample-".len()..].parse().unwrap();
            assert_eq!(patch[..2], ((((y * 24 + x) * 3) + id * 31) as u16).to_le_bytes());
            patches.entry(index).or_default().push(patch);
        }
    }
    let pairs = patches.values().map(|patches| patches.len() * (patches.len() - 1) / 2).sum();
    let same = |patches: &Vec<Vec<u8>>| {
        (0..patches.len()).flat_map(|i| (0..i).map(move |j| (i, j))).filter(|&(i, j)| patches[i] == patches[j]).count()
    };
    (patches.values().map(same).sum(), pairs)
}

#[test]
fn a_repeated_sample_is_cut_at_a_different_place() {
    let (a, b) = (disk(&[90], 0), disk(&[10], 1000));
    let (first, second) = (a.open(), b.open());
    let orders: [Arc<dyn Sampling>; 2] = [Arc::new(Order::of(&first, 1)), Arc::new(Order::of(&second, 2))];
    let [large, small] = orders;
    let mixture = Mixture::new(vec![(large, 0.5), (small, 0.5)], 1).unwrap().draws(100);
    let both = Dataset::concat(&[first.clone(), second]).unwrap();
    let weighted = Weighted::by_sample(&[1.0; 90], 1).unwrap().draws(300);
    for place in [PatchPlace::Random, PatchPlace::Cycle] {
        let (same, pairs) = repeated(&both, Arc::new(mixture.clone()), place);
        assert!(pairs >= 100 && same * 10 < pairs, "a mixture, {place:?}: {same} of {pairs}");
        let (same, pairs) = repeated(&first, Arc::new(weighted.clone()), place);
        assert!(pairs > 300 && same * 10 < pairs, "weighted, {place:?}: {same} of {pairs}");
    }
}
