//! Tests that batches are the same if arrays are in columns files, staged for each row or not.

use super::datasets::{Disk, Harm, assert_same, epoch, ways};
use super::loader_support::columns::moved;
use super::played::PlayedStage;
use super::resident::resident;
use shardpack_loader::Loader;
use shardpack_reader::Dataset;
use std::sync::Arc;

#[test]
fn batches_with_fields_in_columns_files_are_the_hosts() {
    let disk = Disk::alike(20, Harm::None);
    let whole = Dataset::open(disk.dir.path()).unwrap();
    for names in [&["cube"][..], &["cube", "mask", "label"]] {
        let dir = moved(&whole, names);
        let parted = Dataset::open(dir.path()).unwrap();
        for (name, mut options) in ways() {
            let all = || ["image", "thumb", "cube", "mask", "label"].map(str::to_owned).to_vec();
            options.output.fields.get_or_insert_with(all);
            let expected = epoch(&mut Loader::open(&whole, options.clone()).unwrap());
            let stage = || Arc::new(PlayedStage::new(0, 1));
            let staged = options.clone().stage(stage() as _);
            assert_same(&epoch(&mut Loader::open(&parted, staged).unwrap()), &expected, name);
            match Loader::open(&parted, resident(&stage(), &options)) {
                Ok(mut loader) => assert_same(&epoch(&mut loader), &expected, name),
                // Nothing is left that could stay on the device.
                Err(error) => assert!(error.to_string().contains("cannot decode any value"), "{name}: {error}"),
            }
        }
    }
}
