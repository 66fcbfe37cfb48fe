//! Tests that boxes of volumes and their masks are the same as on the host, both for volumes that are read and for
//! volumes that stay on the device.

use super::datasets::{assert_same, epoch};
use super::generate::{Fill, array};
use super::loader_support::{record, write};
use super::of;
use super::played::PlayedStage;
use super::support::scratch;
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{Dtype, Field, FieldKind, Schema};
use shardpack_loader::order::End;
use shardpack_loader::{
    ArrayDtype, Augment, CubeMode, ElementType, Factors, Loader, LoaderOptions, NoData, OnCorrupt, PatchClasses,
    PatchPlace, Patches,
};
use shardpack_reader::Dataset;
use std::sync::Arc;

/// Writes volumes of three depths.
fn volumes(channels: Option<u64>, harms: bool) -> tempfile::TempDir {
    volumes_of(|id| 9 + id % 3, channels, harms)
}

/// Writes volumes with or without channels, and their masks. If `harms`, every third volume is damaged.
fn volumes_of(depth: fn(u64) -> u64, channels: Option<u64>, harms: bool) -> tempfile::TempDir {
    let fields = ["volume", "mask"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
    let dir = scratch();
    write(dir.path(), &Schema::new(fields).unwrap(), &[4, 5], |schema, number, id| {
        let sides = [depth(id), 22, 31];
        let settings = |coder, layout, band_difference| ArraySettings {
            values: ValueRule::Keep,
            coder,
            level: (coder == Coder::Blosc2Zstd).then_some(1),
            filter: Filter::Shuffle,
            band_difference,
            layout,
        };
        let layout = if id % 4 == 1 { ArrayLayout::BandMajor } else { ArrayLayout::AsShape };
        let coder = if id % 2 == 0 { Coder::Blosc2Lz4 } else { Coder::Blosc2Zstd };
        let volume = array(Dtype::I16, sides.into_iter().chain(channels).collect(), Fill::Counts, id as u32);
        let mut encoder = ArrayEncoder::new(settings(coder, layout, id % 3 == 0)).unwrap();
        let mut volume = encoder.encode(&volume, Some(-1.0)).unwrap();
        if harms && id % 3 == 1 {
            let from = volume.payload.len() - 40;
            volume.payload[from..].fill(0xFF);
        }
        let mask = array(Dtype::U8, sides.to_vec(), Fill::Bits(2), id as u32);
        let mut encoder = ArrayEncoder::new(settings(Coder::Blosc2Lz4, ArrayLayout::AsShape, false)).unwrap();
        let mask = encoder.encode(&mask, None).unwrap();
        let values = [volume, mask].map(|array| {
            let (descriptor, bytes) = (array.descriptor.encode().unwrap(), array.descriptor.stored_bytes().ok());
            Some((array.codec, array.payload, descriptor, bytes))
        });
        let key = format!("v{id}");
        let (bytes, frame) = record(schema, (number, id), &key, &[], &values);
        (bytes, frame, key, Vec::new())
    });
    dir
}

fn ways() -> Vec<(&'static str, LoaderOptions)> {
    let cube = |size| CubeMode::Volume { size, place: PatchPlace::Random };
    let base = LoaderOptions::default()
        .batch_size(5)
        .threads(3)
        .seed(5)
        .end(End::Uneven)
        .on_corrupt(OnCorrupt::Skip { max: 1000 })
        .cube(cube([4, 9, 14]));
    let all = Augment { flip_planes: true, flip_rows: true, flip_columns: true, rotate: true };
    let single = ArrayDtype::Cubes(Dtype::F32.into());
    let changes = [
        "random_gain(gain=0.2)",
        "band_jitter(offset=3)",
        "random_gamma(gamma=0.5..2,p=0.7)",
        "gaussian_noise(sigma=2)",
    ];
    let several = |options: LoaderOptions| options.patches(Patches::PerSample(3));
    let affine = "random_affine(degrees=30,translate=0.2,scale=0.7..1.4,p=0.8,fill=1.5,mask_fill=3)";
    let across = "random_affine_3d(degrees=30,scale=0.7..1.4,translate=0.2,p=0.8,fill=1.5,mask_fill=3)";
    let low = "random_low_resolution(scale=0.3..1,p=0.8,p_per_channel=0.6)";
    vec![
        ("one box", base.clone()),
        ("centre", base.clone().cube(CubeMode::Volume { size: [8, 9, 31], place: PatchPlace::Center })),
        ("one box, turned", base.clone().cube(cube([5, 8, 8])).augment(all)),
        ("several", several(base.clone())),
        ("of classes", several(base.clone()).patch_classes(PatchClasses::Weighted(vec![(1, 1.0), (3, 2.5)]))),
        (
            "normalised, changed and turned",
            several(base.clone())
                .dtype(single)
                .normalise([("volume", Factors::new(&[30.0], &[7.5]).unwrap())])
                .no_data(NoData::Cubes(0.5))
                .augment_bands(changes.iter().map(|text| text.parse().unwrap()).collect())
                .augment(all),
        ),
        (
            "powers of floats",
            several(base.clone())
                .dtype(ArrayDtype::Cubes(ElementType::Bf16))
                .augment_bands(vec!["random_gamma(gamma=0.3..3)".parse().unwrap()]),
        ),
        (
            "moved across planes, turned and changed",
            several(base.clone())
                .cube(cube([5, 8, 8]))
                .augment_pictures(vec![across.parse().unwrap()])
                .normalise([("volume", Factors::new(&[30.0], &[7.5]).unwrap())])
                .no_data(NoData::Cubes(0.5))
                .augment_bands(
                    [low, "random_gamma(gamma=0.7..1.5,p=0.3)", "gaussian_noise(sigma=2,p=0.5)"]
                        .map(|text| text.parse().unwrap())
                        .to_vec(),
                )
                .augment(all),
        ),
        (
            "at a low resolution and moved within planes",
            base.clone()
                .dtype(ArrayDtype::Cubes(ElementType::Bf16))
                .augment_pictures(vec![affine.parse().unwrap()])
                .no_data(NoData::Cubes(0.5))
                .augment_bands(vec![low.parse().unwrap()]),
        ),
        (
            "moved and turned",
            several(base)
                .cube(cube([3, 8, 8]))
                .augment_pictures(vec![affine.parse().unwrap()])
                .no_data(NoData::Cubes(0.5))
                .augment(all),
        ),
    ]
}

fn compare(dir: &tempfile::TempDir, options: &LoaderOptions, name: &str, tight: u64) -> [Arc<PlayedStage>; 2] {
    let dataset = Dataset::open(dir.path()).unwrap();
    [false, true].map(|resident| {
        let stage = Arc::new(PlayedStage::new(usize::from(resident), tight));
        let mut host = Loader::open(&dataset, options.clone()).unwrap();
        let staged = options.clone().stage(Arc::clone(&stage) as _).resident(resident);
        let mut staged = Loader::open(&dataset, staged).unwrap();
        assert_same(&epoch(&mut staged), &epoch(&mut host), &format!("{name}, resident {resident}"));
        assert_eq!(staged.stats().skipped, host.stats().skipped, "{name}, resident {resident}");
        stage
    })
}

#[test]
fn boxes_of_volumes_are_the_hosts() {
    for channels in [None, Some(2)] {
        let dir = volumes(channels, false);
        for (name, options) in ways() {
            let [read, resident] = compare(&dir, &options, name, 1);
            for stage in [&read, &resident] {
                let (taken, refused) = (of(&stage.counts.taken), of(&stage.counts.refused));
                assert!(taken >= 2 * 9 && refused == 0, "{name}: {taken} taken, {refused} refused");
                assert_eq!(of(&stage.counts.faults) + of(&stage.counts.grown) + of(&stage.counts.put), 0, "{name}");
            }
            assert_eq!([of(&read.counts.kept) > 0, of(&resident.counts.kept) > 0], [false, true], "{name}");
        }
    }
}

#[test]
fn a_grid_of_boxes_is_the_hosts() {
    let dir = volumes_of(|_| 9, None, false);
    let (name, options) = ways().swap_remove(0);
    let stages = compare(&dir, &options.patches(Patches::Grid { overlap: [1, 0, 3] }), name, 1);
    assert!(stages.iter().all(|stage| of(&stage.counts.taken) > 50 && of(&stage.counts.refused) == 0));
}

#[test]
fn damaged_volumes_harm_their_rows_alone() {
    let dir = volumes(None, true);
    for (name, options) in ways().into_iter().skip(2).step_by(3) {
        let [read, resident] = compare(&dir, &options, name, 1);
        assert!(of(&read.counts.faults) > 0 && of(&resident.counts.faults) > 0, "{name}");
    }
}

#[test]
fn the_host_decodes_boxes_without_room() {
    let dir = volumes(Some(2), false);
    let (name, options) = ways().swap_remove(0);
    let [read, _] = compare(&dir, &options, name, 30);
    assert!(of(&read.counts.put) > 0);
}
