//! Tests that a loader returns the same batches from a device as from the host. Without a device, these tests do
//! nothing. The crate's unit tests run the same stage with kernels emulated on the CPU.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use crate::datasets::{Disk, Harm, assert_same, epoch, scene_ways, seen, ways};
use shardpack_gpu::CudaStage;
use shardpack_gpu::GpuError;
use shardpack_loader::LoaderOptions;
use shardpack_loader::stage::{Stage, StreamHandle};
use std::sync::{Arc, Mutex, PoisonError};

/// Every test holds this lock, so that they run one at a time. Otherwise, they would change the free memory of the
/// device that a test compares.
static ALONE: Mutex<()> = Mutex::new(());

fn stage() -> Option<Arc<CudaStage>> {
    match CudaStage::open(0) {
        Ok(stage) => Some(Arc::new(stage)),
        Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
            println!("skipped: {}", error.to_string().lines().next().unwrap_or_default());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn staged(stage: &Arc<CudaStage>, options: &LoaderOptions) -> LoaderOptions {
    options.clone().stage(Arc::clone(stage) as _)
}

#[test]
fn epochs_are_the_hosts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stage) = stage() else { return };
    let whole = LoaderOptions::default().resources.part_bytes;
    for (disk, what, part_bytes) in [
        (Disk::alike(200, Harm::None), "alike", whole),
        (Disk::varied(200, Harm::None), "varied", whole),
        (Disk::alike(200, Harm::Damaged), "damaged", whole),
        (Disk::scattered(200), "damaged pictures", whole),
        (Disk::as_stored(200, Harm::None), "read where it is staged", 1500),
        (Disk::as_stored(200, Harm::Damaged), "read where it is staged, damaged", 1500),
    ] {
        // In the varied dataset, some scenes are smaller than a patch.
        let scenes = if what == "varied" { Vec::new() } else { scene_ways() };
        for (name, options) in ways().into_iter().chain(scenes) {
            for (batch_size, threads, resident) in [(7, 3, false), (64, 8, false), (7, 3, true), (64, 8, true)] {
                let options = options.clone().batch_size(batch_size).threads(threads).part_bytes(part_bytes);
                let mut host = disk.loader(options.clone());
                let mut device = disk.loader(staged(&stage, &options).resident(resident));
                assert!(!resident || device.stats().resident_values > 0, "{what}, {name}");
                for number in 0..3 {
                    host.set_epoch(number).unwrap();
                    device.set_epoch(number).unwrap();
                    assert_same(&epoch(&mut device), &epoch(&mut host), &format!("{what}, {name}"));
                }
                println!("{what}, {name}: refused: {:?}", device.refusals());
            }
        }
    }
    println!("slots that had to grow: {}", Stage::growths(&*stage));
}

#[test]
fn a_batch_stays_as_it_is_while_it_is_held() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stage) = stage() else { return };
    let disk = Disk::alike(100, Harm::None);
    let (_, options) = ways().remove(0);
    let mut host = disk.loader(options.clone());
    let expected = epoch(&mut host);
    let mut device = disk.loader(staged(&stage, &options));
    // Hold two batches while others are loaded. The consumer uses the default stream.
    let mut held = Vec::new();
    for _ in 0..expected.len() {
        let batch = device.next_batch().unwrap().unwrap();
        batch.used_on(StreamHandle::LEGACY);
        held.push(batch);
        if held.len() == 2 {
            let batch = held.remove(0);
            let at = expected.iter().position(|expected| seen(&batch) == *expected);
            assert!(at.is_some(), "a batch that is none of the epoch's");
        }
    }
    // Drop the loader in the middle of its next epoch, and the stage before the batch.
    device.set_epoch(1).unwrap();
    drop(device.next_batch());
    drop(device);
    drop(stage);
    assert!(seen(&held[0]) == expected[expected.len() - 1]);
}

#[test]
fn memory_is_flat() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stage) = stage() else { return };
    let disk = Disk::varied(200, Harm::None);
    let (_, options) = ways().remove(0);
    let options = options.batch_size(16);
    let mut device = disk.loader(staged(&stage, &options));
    let (mut batches, mut free) = (0, Vec::new());
    for number in 0.. {
        device.set_epoch(number).unwrap();
        while let Some(batch) = device.next_batch() {
            drop(batch.unwrap());
            batches += 1;
        }
        free.push(stage.device().free_bytes().unwrap().0);
        if batches >= 200 {
            break;
        }
    }
    // Slots may grow in the first epochs, and other processes may use the device, so compare the last epoch with the
    // middle one, and allow a difference of 8 MiB.
    let (early, late) = (free[free.len() / 2], free[free.len() - 1]);
    assert!(late + (8 << 20) >= early, "free: {early} bytes, then {late}");
    println!("{batches} batches, {} bytes predicted, grown {} times", device.predicted_device_bytes(), stage.growths());
}
