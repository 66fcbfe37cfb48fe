//! Tests a stage whose rows are all decoded by the host.

use super::datasets::{Disk, Harm, assert_same, epoch, scene_ways, ways};
use super::of;
use super::played::PlayedStage;
use shardpack_jpeg::{Interpolation, View};
use shardpack_loader::{LoaderOptions, Note, OnCorrupt, Scaling, Transform, TransformRow};
use std::sync::Arc;

fn stage(manner: usize, tight: u64) -> Arc<PlayedStage> {
    Arc::new(PlayedStage::of_host_rows(manner, tight))
}

fn compare(disk: &Disk, tight: u64, named: Vec<(&str, LoaderOptions)>) {
    for (n, (name, options)) in named.into_iter().enumerate() {
        let stage = stage(n % 2, tight);
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.stage(Arc::clone(&stage) as _));
        for epoch_number in [0, 2] {
            host.set_epoch(epoch_number).unwrap();
            staged.set_epoch(epoch_number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        }
        assert!(staged.refusals().is_empty(), "{name}: the device refused nothing");
        assert_eq!((staged.stats().device_rows, of(&stage.counts.taken)), (0, 0), "{name}");
        assert_eq!(staged.stats().skipped, host.stats().skipped, "{name}");
    }
}

#[test]
fn rows_are_the_hosts() {
    compare(&Disk::alike(20, Harm::None), 1, ways());
    compare(&Disk::varied(18, Harm::None), 1, ways());
}

#[test]
fn patches_of_scenes_are_the_hosts() {
    compare(&Disk::alike(6, Harm::None), 1, scene_ways());
}

#[test]
fn rows_without_room_in_the_staging_memory_are_the_hosts() {
    compare(&Disk::alike(16, Harm::None), 12, ways());
}

#[test]
fn damage_is_the_hosts() {
    compare(&Disk::alike(20, Harm::Damaged), 1, ways());
    let options = LoaderOptions::default().batch_size(9).threads(2).image(View::random_resized_crop((24, 20)));
    let options = options.fields(["image", "label"]).on_corrupt(OnCorrupt::Skip { max: 1000 });
    compare(&Disk::scattered(60), 1, vec![("scattered damage", options)]);
}

#[test]
fn every_view_is_the_hosts() {
    let bicubic = View::random_resized_crop((24, 40)).with_interpolation(Interpolation::Bicubic);
    let views = [View::whole(), View::pad((24, 40)).with_flip(0.5), bicubic];
    let options = views.map(|view| ("view", LoaderOptions::default().batch_size(4).threads(2).image(view)));
    compare(&Disk::alike(10, Harm::None), 1, options.to_vec());
}

#[derive(Debug)]
struct Halve;

impl Transform for Halve {
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note> {
        row.fields.iter_mut().for_each(|field| field.bytes.reverse());
        Ok(())
    }
}

#[test]
fn a_transform_changes_rows_before_the_upload() {
    let options = LoaderOptions::default().batch_size(4).threads(2).image(View::center_crop(30, (21, 28)));
    let options = options.fields(["image", "label"]).transform(Arc::new(Halve));
    let floats = options.clone().dtype("image=float32".parse().unwrap()).scaling(Scaling::UNIT);
    compare(&Disk::alike(10, Harm::None), 1, vec![("levels", options), ("floats", floats)]);
}

/// The stage must upload levels, one byte per element, regardless of the float type of the output.
#[test]
fn levels_are_uploaded_instead_of_floats() {
    let disk = Disk::alike(8, Harm::None);
    for dtype in ["image=float16", "image=bfloat16", "image=float32"] {
        let options = LoaderOptions::default().batch_size(4).threads(1).image(View::center_crop(30, (20, 28)));
        let options = options.fields(["image"]).dtype(dtype.parse().unwrap());
        let stage = stage(0, 1);
        epoch(&mut disk.loader(options.stage(Arc::clone(&stage) as _)));
        assert_eq!(of(&stage.counts.levels), 8 * 20 * 28 * 3, "{dtype}");
    }
}
