//! Tests several crops of each picture, which share the samples of the picture on the device.

use super::datasets::{Disk, Harm, assert_same, epoch};
use super::played::{PlayedStage, play};
use super::{of, resident, spot};
use crate::driver::Heap;
use crate::pictures::tests::jpegs;
use crate::stage::staging::Staging;
use shardpack_array::ZstdDecoder;
use shardpack_format::{Dtype, Limits};
use shardpack_gpu_play::MANNERS;
use shardpack_jpeg::{Crops, DrawKey, Framing, Rendering, StoredPicture, View};
use shardpack_loader::stage::{CropsOfRow, Prepared, RecordValue};
use shardpack_loader::{Interpolation, Loader, LoaderOptions, OnCorrupt, PictureCrop, Scaling};
use std::sync::Arc;

/// Returns crops: two large parts, three small parts, and the whole picture with padding.
fn crops() -> Vec<PictureCrop> {
    let crop = |size: (u32, u32), scale: (f64, f64)| {
        let framing = Framing::RandomResizedCrop { size: size.into(), scale, ratio: Framing::RATIO };
        PictureCrop::from(View { framing, ..View::whole() }.with_flip(0.5))
    };
    let (large, small) = (crop((24, 20), (0.4, 1.0)), crop((9, 9), (0.05, 0.4)));
    let bicubic = PictureCrop { view: large.view.with_interpolation(Interpolation::Bicubic), ..large.clone() };
    let blurred = bicubic.augmented(["gaussian_blur(kernel_size=3)".parse().unwrap()]);
    vec![large, blurred, small.clone(), small.clone(), small, View::pad((17, 12)).into()]
}

fn options() -> LoaderOptions {
    LoaderOptions::default().batch_size(5).threads(2).seed(3).crops(crops()).fields(["label", "image"])
}

#[test]
fn crops_are_the_hosts() {
    let floats = options().dtype("image=float16".parse().unwrap()).scaling(Scaling::UNIT);
    let common = vec!["color_jitter(hue=0.3)".parse().unwrap()];
    for (number, options) in [options(), floats.augment_pictures(common)].into_iter().enumerate() {
        let disk = Disk::varied(20, Harm::None);
        let stage = Arc::new(PlayedStage::new(number, 1));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.stage(Arc::clone(&stage) as _));
        for epoch_number in [0, 2] {
            host.set_epoch(epoch_number).unwrap();
            staged.set_epoch(epoch_number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), "crops");
        }
        assert!(of(&stage.counts.taken) >= 2 * 6 * 16 && of(&stage.counts.faults) == 0);
        assert_eq!(of(&stage.counts.grown), 0, "the memory was predicted");
    }
}

/// The predicted memory is large enough for the samples of pictures that compress well, for the tables of bicubic crops
/// that are scaled down a lot, and for the tables of many small crops.
#[test]
fn memory_of_reduced_crops_is_predicted() {
    let large = View::random_resized_crop(96).with_interpolation(Interpolation::Bicubic);
    let scale = (0.05, 0.25);
    let framing = Framing::RandomResizedCrop { size: 48.into(), scale, ratio: Framing::RATIO };
    let small = View { framing, ..View::whole() };
    let mut crops = vec![PictureCrop::from(large); 2];
    crops.extend(vec![PictureCrop::from(small); 6]);
    crops.push(View::pad((64, 64)).into());
    let disk = Disk::smooth(16, |n| [380 + n as u32 % 5 * 24, 260 + n as u32 % 7 * 16]);
    for float in [None, Some("image=float16")] {
        let stage = Arc::new(PlayedStage::new(0, 1));
        let mut options = LoaderOptions::default().batch_size(16).seed(3).crops(crops.clone()).fields(["image"]);
        if let Some(dtype) = float {
            options = options.dtype(dtype.parse().unwrap()).scaling(Scaling::UNIT);
        }
        let mut loader = disk.loader(options.stage(Arc::clone(&stage) as _));
        assert_eq!(epoch(&mut loader).len(), 1);
        assert_eq!(of(&stage.counts.grown), 0, "the memory was predicted");
    }
}

/// All crops of a picture use one value on the device.
#[test]
fn crops_of_resident_pictures_are_the_hosts() {
    let disk = Disk::alike(10, Harm::None);
    let dataset = shardpack_reader::Dataset::open(disk.dir.path()).unwrap();
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut host = Loader::open(&dataset, options()).unwrap();
    let mut staged = Loader::open(&dataset, resident::resident(&stage, &options())).unwrap();
    assert_eq!(staged.stats().resident_values, 10);
    assert_same(&epoch(&mut staged), &epoch(&mut host), "resident");
    assert!(staged.refusals().is_empty());
}

/// The segments of a picture must be uploaded only once, even if many crops show them.
#[test]
fn more_crops_upload_only_more_tables() {
    let disk = Disk::alike(10, Harm::None);
    let uploaded = |count: usize| {
        let stage = Arc::new(PlayedStage::new(0, 1));
        let options = options().batch_size(10).crops(vec![View::resize(16); count]);
        let mut loader = disk.loader(options.stage(Arc::clone(&stage) as _));
        assert_eq!(epoch(&mut loader).len(), 1);
        assert!(loader.refusals().is_empty());
        of(&stage.counts.uploaded)
    };
    let [one, two, nine] = [1, 2, 9].map(uploaded);
    let tables = two - one;
    assert_eq!(nine - one, 8 * tables, "each crop adds the same");
    assert!(tables < 10 * 500 && one > 3 * tables, "{one} bytes for one crop, {tables} for one more");
}

/// A damaged segment must be a fault of all crops of its picture, and of no other picture.
#[test]
fn damage_is_the_hosts() {
    let disk = Disk::scattered(60);
    let options = options().on_corrupt(OnCorrupt::Skip { max: 1000 });
    for manner in [0, 1] {
        let stage = Arc::new(PlayedStage::new(manner, 1));
        let mut host = disk.loader(options.clone());
        let mut staged = disk.loader(options.clone().stage(Arc::clone(&stage) as _));
        assert_same(&epoch(&mut staged), &epoch(&mut host), "damage");
        assert!(of(&stage.counts.faults) > 10 && staged.stats().skipped > 0);
    }
}

#[test]
fn crops_without_room_are_the_hosts() {
    let disk = Disk::alike(16, Harm::None);
    let stage = Arc::new(PlayedStage::new(0, 60));
    let mut host = disk.loader(options());
    let mut staged = disk.loader(options().stage(Arc::clone(&stage) as _));
    assert_same(&epoch(&mut staged), &epoch(&mut host), "little room");
    assert!(of(&stage.counts.refused) > 0);
}

/// If the picture with the samples of a crop is dropped or replaced, the crop counts as a fault of its row. It does
/// not read the samples of another picture.
#[test]
fn a_crop_without_its_samples_is_a_fault() {
    let pictures = [(64, 48), (40, 56)]
        .map(|size| jpegs::Source { size, factors: (2, 2), interval: 2, detail: 9, seed: 1 }.encoded());
    let (views, key) = ([View::resize(16), View::resize(24)], DrawKey::default());
    let (scaling, limits, bytes) = (&Scaling::UNIT, &Limits::default(), [16 * 16 * 3, 24 * 24 * 3]);
    let place = |field: u32| spot(0, field, if field == 0 { 0..bytes[0] } else { bytes[0]..bytes[0] + bytes[1] });
    for given_up in [None, Some("cleared"), Some("replaced")] {
        let fill = Staging::new(Heap::new(1 << 18), 0).unwrap();
        fill.begin(bytes[0] + bytes[1]);
        let prepare = |field: u32, picture: usize| {
            let all = Crops { views: &views, key };
            let how = &all.rendering(field, &Rendering::default()).unwrap();
            let crops = Some(CropsOfRow { all, first_field: 0 });
            let picture = StoredPicture::new("image/jpeg", &pictures[picture]);
            let dtype = Dtype::U8.into();
            let value = RecordValue::Picture { picture, how, crops, changes: &[], dtype, scaling, limits, clip: None };
            let taken = fill.prepare(&place(field), &value, &mut ZstdDecoder::default());
            assert!(matches!(taken, Prepared::Taken(Some(_))), "{taken:?}");
        };
        prepare(0, 0);
        prepare(1, 0);
        match given_up {
            None => {}
            Some("cleared") => fill.clear(&place(0)),
            Some(_) => prepare(0, 1),
        }
        let (batch, mut upload) = fill.assemble(&[]).unwrap();
        let (_, faults) = play(&batch, (&[], upload.memory().unwrap().bytes_mut()), bytes[0] + bytes[1], MANNERS[0]);
        let found: Vec<_> = faults.iter().map(|fault| (fault.row, fault.field)).collect();
        assert_eq!(found, if given_up.is_none() { vec![] } else { vec![(0, 1)] }, "{given_up:?}");
    }
}
