//! Tests that columns files make no difference to batches: the same fields in the shards give the same bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::columns::moved;
use crate::loader_support::{Disk, Made, base, epoch};
use shardpack_loader::order::Mode;
use shardpack_loader::{CubeMode, Loader, LoaderOptions, OnCorrupt, PatchPlace, Patches};
use shardpack_reader::{Dataset, Shard};

const FIELDS: [&str; 4] = ["cube", "image", "label", "height"];

fn ways() -> Vec<(&'static str, LoaderOptions)> {
    let base = base().batch_size(5).threads(3).seed(3).fields(FIELDS);
    let patch = CubeMode::Patch { height: 6, width: 7, place: PatchPlace::Random };
    let mut raw = base.clone();
    raw.view.cube = CubeMode::Raw;
    let mut sequential = base.clone();
    sequential.order.mode = Mode::Stored;
    vec![
        ("whole", base.clone()),
        ("raw", raw),
        ("in order", sequential),
        ("patches", base.clone().cube(patch)),
        ("several patches", base.clone().cube(patch).fields(["cube", "label"]).patches(Patches::PerSample(3))),
        ("as objects", base.fields(["image"]).objects(["cube"])),
    ]
}

#[test]
fn batches_are_the_same_wherever_the_fields_are() {
    for disk in [Disk::alike(&[6, 5]), Disk::varied(&[4, 0, 7])] {
        let whole = disk.open();
        for names in [&["cube"][..], &["label", "height"], &["cube", "label", "channels"]] {
            let dir = moved(&whole, names);
            let parted = Dataset::open(dir.path()).unwrap();
            for (way, options) in ways() {
                let mut expected = Loader::open(&whole, options.clone()).unwrap();
                let mut found = Loader::open(&parted, options).unwrap();
                for number in [0, 2] {
                    expected.set_epoch(number).unwrap();
                    found.set_epoch(number).unwrap();
                    assert!(epoch(&mut found) == epoch(&mut expected), "{way}: {names:?}");
                }
            }
        }
    }
}

#[test]
fn the_same_fields_are_loaded_by_default() {
    let disk = Disk::alike(&[3]);
    let dir = moved(&disk.open(), &["cube", "label"]);
    let mut loader = Loader::open(&Dataset::open(dir.path()).unwrap(), base().batch_size(3)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let names: Vec<&str> = batch.fields().map(|field| field.name()).collect::<Vec<_>>();
    assert_eq!(names, ["image", "height", "width", "channels", "cube", "label"]);
}

#[test]
fn a_damaged_value_costs_its_sample() {
    let make = |id| Made { id, height: 16, width: 24, said_height: 16, half: false };
    let disk = Disk::new(&[8], make);
    let dir = moved(&disk.open(), &["cube"]);
    let path = dir.path().join("columns-00000-0002.shard");
    let row = Shard::open(&path, Default::default()).unwrap().row(3).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(row.offset + row.length) as usize - 1] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    let options = base().batch_size(4).fields(["cube"]);
    let mut loader = Loader::open(&dataset, options.clone()).unwrap();
    let error = std::iter::from_fn(|| loader.next_batch()).find_map(Result::err).unwrap().to_string();
    assert!(error.contains("columns-00000-0002.shard") && error.contains("sample-00003"), "{error}");
    let mut loader = Loader::open(&dataset, options.on_corrupt(OnCorrupt::Skip { max: 1 })).unwrap();
    let whole = epoch(&mut loader).iter().flat_map(|(_, mask, _)| mask.clone()).filter(|&whole| whole).count();
    assert_eq!((whole, loader.stats().skipped), (7, 1));
    // A loader that does not load the field does not read it.
    let mut loader = Loader::open(&dataset, base().batch_size(4).fields(["image", "label"])).unwrap();
    assert!(std::iter::from_fn(|| loader.next_batch()).all(|batch| batch.is_ok()));
}
