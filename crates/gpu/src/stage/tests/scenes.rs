//! Tests that the patches of each scene are the same as on the host, both for scenes that are read and for scenes
//! that stay on the device.

use super::datasets::{Disk, Harm, assert_same, epoch, scene_ways};
use super::of;
use super::played::PlayedStage;
use shardpack_loader::{Loader, PatchAt};
use std::sync::Arc;

/// Returns the positions of all patches, with `None` for skipped samples.
fn places(loader: &mut Loader) -> Vec<Vec<Option<PatchAt>>> {
    std::iter::from_fn(|| loader.next_batch()).map(|batch| batch.unwrap().patches().unwrap()).collect()
}

/// Compares the host's patches with the patches of a device that either reads the scenes or keeps them.
fn compare(disk: &Disk, tight: u64, check: impl Fn(&str, bool, &PlayedStage)) {
    for (n, (name, options)) in scene_ways().into_iter().enumerate() {
        for resident in [false, true] {
            let stage = Arc::new(PlayedStage::new(n % 2, tight));
            let mut host = disk.loader(options.clone());
            let mut staged = disk.loader(options.clone().stage(Arc::clone(&stage) as _).resident(resident));
            assert_eq!(places(&mut staged), places(&mut host), "{name}, resident {resident}");
            // Skip an epoch, because the next one may be prefetched already.
            host.set_epoch(2).unwrap();
            staged.set_epoch(2).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), &format!("{name}, resident {resident}"));
            assert_eq!(staged.stats().skipped, host.stats().skipped, "{name}, resident {resident}");
            check(name, resident, &stage);
        }
    }
}

#[test]
fn patches_of_scenes_are_the_hosts() {
    compare(&Disk::alike(6, Harm::None), 1, |name, resident, stage| {
        let (taken, kept, refused) = (of(&stage.counts.taken), of(&stage.counts.kept), of(&stage.counts.refused));
        // Cubes in plain zstd do not stay on the device.
        assert!(taken >= 2 * 2 * 6 * 3 && refused == 0, "{name}: {taken} taken, {refused} refused");
        assert_eq!((kept > 0, of(&stage.scenes.put) > 0), (resident, !resident), "{name}");
        assert_eq!(of(&stage.counts.faults) + of(&stage.counts.shared), 0, "{name}");
    });
}

#[test]
fn damage_of_scenes_is_said_at_their_rows() {
    compare(&Disk::as_stored(6, Harm::Damaged), 1, |name, _, stage| {
        assert!(of(&stage.counts.faults) > 0, "{name}: the device finds some of it");
    });
}

#[test]
fn the_host_decodes_patches_without_room() {
    compare(&Disk::alike(5, Harm::None), 20, |name, resident, stage| {
        assert!(of(&stage.counts.put) > 0 || resident, "{name}");
    });
}

#[test]
fn a_loader_reads_each_scene_once_an_epoch() {
    let disk = Disk::alike(6, Harm::None);
    let (_, options) = scene_ways().swap_remove(0);
    let bytes = |resident| {
        let stage = Some(Arc::new(PlayedStage::new(0, 1)) as _);
        let mut loader = disk.loader({
            let mut options = options.clone().resident(resident).begins_ahead(false);
            options.resources.stage = stage;
            options
        });
        let before = loader.stats().read_bytes;
        epoch(&mut loader);
        loader.stats().read_bytes - before
    };
    let dataset = shardpack_reader::Dataset::open(disk.dir.path()).unwrap();
    let records = (0..dataset.len()).map(|sample| {
        let (shard, record) = dataset.locate(sample).unwrap();
        let span = dataset.shard(shard).unwrap().span(&(record..record + 1)).unwrap();
        span.end - span.start
    });
    assert_eq!(bytes(false), records.clone().sum::<u64>());
    // Cubes in plain zstd are the exception: their records are read for every patch.
    let zstd = records.enumerate().filter(|(n, _)| n % 5 == 3).map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(bytes(true), 3 * zstd);
}
