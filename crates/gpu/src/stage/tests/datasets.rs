//! Writes datasets of pictures, cubes and masks, and opens loaders on them. The tests on real devices use this module
//! too.

use super::generate::{Fill, array};
use super::hurt::hurt;
use super::jpegs::{Random, Source, damage};
use super::loader_support::{record, write};
use super::support::scratch;
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Bands, Coder, Filter, ValueRule};
use shardpack_augment::{Augmentation, Mix};
use shardpack_format::{self as format, Codec, Dtype, FieldKind, Schema};
use shardpack_jpeg::{PixelLayout, Scaling, View};
use shardpack_loader::order::End;
use shardpack_loader::{
    ArrayDtype, Augment, Batch, BatchMix, CubeMode, ElementType, Factors, ImageMode, Loader, LoaderOptions, NoData,
    OnCorrupt, PatchClasses, PatchPlace, Patches,
};
use shardpack_reader::Dataset;

pub(crate) struct Disk {
    pub(crate) dir: tempfile::TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Harm {
    None,
    /// Every fifth sample has damaged entropy-coded bytes, and every seventh sample has a damaged cube. The
    /// checksums are valid.
    Damaged,
    /// Three in four samples are attacks. The number is the seed of the first attack, and later attacks count up from
    /// it. The checksums are valid.
    Hostile(u64),
    /// A few random bytes are changed in two out of three `image` pictures. The checksums are valid.
    Scattered,
}

fn settings(n: u64) -> ArraySettings {
    let of = |coder, filter, layout, band_difference| ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: matches!(coder, Coder::Blosc2Zstd | Coder::Zstd).then_some(1),
        filter,
        band_difference,
        layout,
    };
    match n % 5 {
        0 => of(Coder::Blosc2Lz4, Filter::Bitshuffle, ArrayLayout::BandMajor, true),
        1 => of(Coder::Blosc2Lz4, Filter::Shuffle, ArrayLayout::AsShape, false),
        2 => of(Coder::Blosc2Zstd, Filter::Shuffle, ArrayLayout::AsShape, true),
        3 => of(Coder::Zstd, Filter::None, ArrayLayout::BandMajor, false),
        _ => of(Coder::Raw, Filter::None, ArrayLayout::AsShape, false),
    }
}

/// Returns settings with which the host decodes no arrays, except two kinds. These kinds are not among the loader's
/// examples, because the loader inspects only one example of each kind.
fn as_stored(n: u64) -> ArraySettings {
    let by_shape = |coder, filter| ArraySettings {
        coder,
        filter,
        level: matches!(coder, Coder::Blosc2Zstd | Coder::Zstd).then_some(1),
        ..settings(4)
    };
    match n {
        7 => by_shape(Coder::Blosc2Zstd, Filter::Shuffle),
        13 => by_shape(Coder::Zstd, Filter::None),
        _ => settings([0, 1, 4][n as usize % 3]),
    }
}

fn jpeg(height: u32, width: u32, seed: u64) -> Vec<u8> {
    let factors = [(2, 2), (2, 1), (0, 0), (1, 1), (1, 2)][seed as usize % 5];
    let interval = 1 + (seed % 7) as u16;
    Source { size: (width as u16, height as u16), factors, interval, detail: 12, seed }.encoded()
}

impl Disk {
    /// Writes `count` samples to two shards. The fields are the pictures `image` and `thumb`, and `cube`,
    /// `mask` and `label`. The sizes of samples may vary.
    pub(crate) fn new(count: u64, size: impl Fn(u64) -> [u32; 2], harm: Harm) -> Self {
        Self::coded(count, size, harm, settings)
    }

    /// Writes cubes, all but a few of which are uploaded in their stored form.
    pub(crate) fn as_stored(count: u64, harm: Harm) -> Self {
        Self::coded(count, |_| [48, 64], harm, as_stored)
    }

    /// Writes highly compressible pictures. The only other fields are their heights and widths.
    pub(crate) fn smooth(count: u64, size: impl Fn(u64) -> [u32; 2]) -> Self {
        let mut fields = vec![format::Field::stored("image", FieldKind::Image)];
        fields.extend(["height", "width"].map(|name| format::Field::scalar(name, Dtype::U32)));
        let schema = Schema::new(fields).unwrap();
        let dir = scratch();
        write(dir.path(), &schema, &[count], |schema, number, id| {
            let [height, width] = size(id);
            let (size, factors) = ((width as u16, height as u16), [(2, 2), (1, 1)][id as usize % 2]);
            let image = Source { size, factors, interval: 8, detail: 1, seed: id }.encoded();
            let scalars: Vec<u8> = [height, width].into_iter().flat_map(u32::to_le_bytes).collect();
            let values = [(Codec::Jpeg, image, b"image/jpeg".to_vec(), None)];
            let key = format!("sample-{id}");
            let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values.map(Some));
            (bytes, frame, key, scalars)
        });
        Self { dir }
    }

    fn coded(count: u64, size: impl Fn(u64) -> [u32; 2], harm: Harm, settings: fn(u64) -> ArraySettings) -> Self {
        let mut fields = vec![
            format::Field::stored("image", FieldKind::Image),
            format::Field::stored("thumb", FieldKind::Image),
            format::Field::stored("cube", FieldKind::Array),
            format::Field::stored("mask", FieldKind::Array),
            format::Field::scalar("label", Dtype::I64),
        ];
        fields.extend(["height", "width", "channels"].map(|name| format::Field::scalar(name, Dtype::U32)));
        let schema = Schema::new(fields).unwrap();
        let dir = scratch();
        write(dir.path(), &schema, &[count / 2, count - count / 2], |schema, number, id| {
            let [height, width] = size(id);
            let shape = vec![u64::from(height), u64::from(width), 6];
            let cube = array(Dtype::U16, shape, Fill::Counts, id as u32);
            // The no-data value, 4000, is one of many values that occur in the cube.
            let mut cube = ArrayEncoder::new(settings(id)).unwrap().encode(&cube, Some(4000.0)).unwrap();
            let mask = array(Dtype::U8, vec![height.into(), width.into()], Fill::Bits(2), id as u32);
            let mask = ArrayEncoder::new(settings(1)).unwrap().encode(&mask, None).unwrap();
            let mut image = jpeg(height, width, id);
            if harm == Harm::Scattered && id % 3 > 0 {
                damage(&mut Random(id), &mut image);
            }
            if harm == Harm::Damaged {
                let random = &mut Random(id);
                if id % 5 == 2 {
                    // Leave tables and markers intact, so that the picture reaches the kernels.
                    let (from, to) = (image.len() / 2, image.len() - 2);
                    for at in from..to {
                        if image[at] != 0xFF && image[at - 1] != 0xFF {
                            image[at] = random.below(255) as u8;
                        }
                    }
                }
                if id % 7 == 3 {
                    // Corrupt the end of the payload, which belongs to the last stream if the coder is LZ4.
                    let from = cube.payload.len() - 40;
                    cube.payload[from..].fill(0xFF);
                }
            }
            let media = b"image/jpeg".to_vec();
            let mut values = [
                (Codec::Jpeg, image, media.clone(), None),
                (Codec::Jpeg, jpeg(height, width, id + 1000), media, None),
                (cube.codec, cube.payload, cube.descriptor.encode().unwrap(), cube.descriptor.stored_bytes().ok()),
                (mask.codec, mask.payload, mask.descriptor.encode().unwrap(), mask.descriptor.stored_bytes().ok()),
            ];
            if let Harm::Hostile(seed) = harm
                && id % 4 > 0
            {
                hurt(&mut Random(seed.wrapping_mul(0x9E37_79B9).wrapping_add(id)), &mut values);
            }
            let mut scalars = (id as i64 % 10).to_le_bytes().to_vec();
            scalars.extend([height, width, 6].into_iter().flat_map(u32::to_le_bytes));
            let key = format!("sample-{id}");
            let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values.map(Some));
            (bytes, frame, key, scalars)
        });
        Self { dir }
    }

    pub(crate) fn alike(count: u64, harm: Harm) -> Self {
        Self::new(count, |_| [48, 64], harm)
    }

    pub(crate) fn hostile(count: u64, seed: u64) -> Self {
        let size = move |id| {
            if seed.is_multiple_of(2) { [48, 64] } else { [20 + (id * 7 % 23) as u32, 12 + (id * 5 % 41) as u32] }
        };
        Self::new(count, size, Harm::Hostile(seed))
    }

    pub(crate) fn scattered(count: u64) -> Self {
        Self::new(count, |_| [37, 64], Harm::Scattered)
    }

    pub(crate) fn varied(count: u64, harm: Harm) -> Self {
        // One sample in eleven is so narrow that libjpeg does not interpolate its chroma. The kernels do not accept
        // such pictures.
        Self::new(
            count,
            |id| [20 + (id * 7 % 23) as u32, if id % 11 == 5 { 4 } else { 12 + (id * 5 % 41) as u32 }],
            harm,
        )
    }

    pub(crate) fn loader(&self, options: LoaderOptions) -> Loader {
        Loader::open(&Dataset::open(self.dir.path()).unwrap(), options).unwrap()
    }
}

/// Content of a batch from the host or the device.
#[derive(PartialEq)]
pub(crate) struct Seen {
    indices: Vec<u64>,
    pub(crate) mask: Vec<bool>,
    fields: Vec<Field>,
}

/// Name of a field, shape of each row, and bytes of each row.
type Field = (String, Vec<Vec<u64>>, Vec<Vec<u8>>);

pub(crate) fn seen(batch: &Batch) -> Seen {
    let field = |field: shardpack_loader::Tensor<'_>| {
        let shapes: Vec<_> = (0..batch.len()).map(|row| field.row_shape(row).unwrap().to_vec()).collect();
        let (all, offsets) = (field.to_host().unwrap(), field.offsets());
        let rows = offsets.zip(&shapes).map(|(at, shape)| {
            let bytes = field.dtype().array_bytes(shape).unwrap() as usize;
            all[at..at + bytes].to_vec()
        });
        (field.name().to_owned(), shapes.clone(), rows.collect())
    };
    Seen { indices: batch.indices().to_vec(), mask: batch.mask().to_vec(), fields: batch.fields().map(field).collect() }
}

pub(crate) fn epoch(loader: &mut Loader) -> Vec<Seen> {
    std::iter::from_fn(|| loader.next_batch()).map(|batch| seen(&batch.unwrap())).collect()
}

/// Fails if two epochs differ. The message says where they differ.
pub(crate) fn assert_same(found: &[Seen], expected: &[Seen], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: batches");
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!((&found.indices, &found.mask), (&expected.indices, &expected.mask), "{what}: batch {n}");
        for ((name, shapes, rows), (_, expected_shapes, expected_rows)) in found.fields.iter().zip(&expected.fields) {
            assert_eq!(shapes, expected_shapes, "{what}: batch {n}: `{name}`");
            for (row, (found, expected)) in rows.iter().zip(expected_rows).enumerate() {
                let at = found.iter().zip(expected).position(|(a, b)| a != b);
                assert!(found == expected, "{what}: batch {n}: `{name}`: row {row} differs from byte {at:?} on");
            }
        }
        assert!(found == expected, "{what}: batch {n}");
    }
}

fn changes_of_pictures() -> Vec<Augmentation> {
    let texts = [
        "trivial_augment_wide",
        "color_jitter(contrast=0.5, hue=0.3)",
        "gaussian_blur(kernel_size=5, p=0.5)",
        "random_erasing",
    ];
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn mixes() -> Vec<Mix> {
    ["mixup", "cutmix"].iter().map(|text| text.parse().unwrap()).collect()
}

pub(crate) fn ways() -> Vec<(&'static str, LoaderOptions)> {
    let base = LoaderOptions::default()
        .batch_size(7)
        .threads(3)
        .seed(5)
        .end(End::Uneven)
        .on_corrupt(OnCorrupt::Skip { max: 1000 });
    let first = PixelLayout::ChannelsHeightWidth;
    let scaling = Some(Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).unwrap());
    let types = |types: &[(&str, ElementType)]| {
        ArrayDtype::Fields(types.iter().map(|(name, dtype)| ((*name).to_owned(), *dtype)).collect())
    };
    let (half, brain, single) = (Dtype::F16.into(), ElementType::Bf16, Dtype::F32.into());
    let view = ImageMode::View;
    let (pictures, arrays) = (["label", "thumb", "image"], ["cube", "label", "mask"]);
    let changes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let all = Augment { flip_rows: true, flip_columns: true, rotate: true, ..Augment::default() };
    let patch = CubeMode::Patch { height: 9, width: 4, place: PatchPlace::Random };
    vec![
        ("whole", base.clone().image(view(View::whole()))),
        ("whole, channels first", base.clone().layout(first)),
        ("crops of two types", {
            let mut options = base
                .clone()
                .image(view(View::random_resized_crop((32, 40)).with_flip(0.5)))
                .layout(first)
                .dtype(types(&[("image", half), ("thumb", single)]))
                .fields(pictures);
            options.output.scaling = scaling;
            options
        }),
        ("changed crops of two types", {
            let mut options = base
                .clone()
                .image(view(View::random_resized_crop((32, 40)).with_flip(0.5)))
                .layout(first)
                .dtype(types(&[("image", half)]))
                .augment_pictures(changes_of_pictures())
                .fields(pictures);
            options.output.scaling = scaling;
            options
        }),
        (
            "changed whole ones",
            base.clone().image(view(View::whole())).augment_pictures(changes_of_pictures()).fields(pictures),
        ),
        (
            "changed and mixed",
            base.clone()
                .image(view(View::center_crop(33, (24, 28))))
                .dtype(types(&[("thumb", single)]))
                .augment_pictures(changes_of_pictures())
                .mix(BatchMix { choices: mixes(), classes: 1000 })
                .fields(pictures),
        ),
        ("centres", base.clone().image(view(View::center_crop(33, 24))).fields(pictures)),
        ("small ones", base.clone().image(view(View::random_resized_crop((20, 24)))).layout(first).fields(pictures)),
        ("patches of some bands", base.clone().cube(patch).bands(Bands::List(vec![4, 0, 0, 5])).fields(arrays)),
        (
            "patches of floats",
            base.clone()
                .cube(CubeMode::Patch { height: 9, width: 4, place: PatchPlace::Center })
                .dtype(types(&[("cube", single)]))
                .layout(first)
                .fields(arrays),
        ),
        ("brain floats, flipped", {
            let mut options = base
                .clone()
                .image(view(View::center_crop(33, 24)))
                .dtype(types(&[("image", brain), ("thumb", half), ("cube", brain)]))
                .augment(Augment { rotate: false, ..all });
            options.output.scaling = scaling;
            options
        }),
        (
            "turned patches of normalised bands",
            base.clone()
                .cube(CubeMode::Patch { height: 4, width: 4, place: PatchPlace::Random })
                .bands(Bands::List(vec![4, 0, 0, 5]))
                .dtype(types(&[("cube", half)]))
                .normalise([("cube", Factors::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[0.5]).unwrap())])
                .augment_bands(changes(&[
                    "random_gain(gain=0.5)",
                    "band_dropout(p=0.4,value=3)",
                    "gaussian_noise(sigma=2)",
                ]))
                .augment(all)
                .fields(arrays),
        ),
        (
            "turned, channels first",
            base.clone()
                .dtype(types(&[("cube", brain)]))
                .normalise([("cube", Factors::new(&[-3.0], &[7.5]).unwrap())])
                .augment_bands(changes(&[
                    "band_jitter(gain=0.5,offset=2)",
                    "random_gamma(gamma=2)",
                    "gaussian_noise(sigma=0.5..3)",
                ]))
                .no_data(NoData::Cubes(-7.25))
                .augment(all)
                .layout(first)
                .fields(arrays),
        ),
        (
            "moved, channels first",
            base.clone()
                .augment_pictures(vec![AFFINE.parse().unwrap()])
                .dtype(types(&[("cube", brain)]))
                .normalise([("cube", Factors::new(&[-3.0], &[7.5]).unwrap())])
                .augment_bands(changes(&["band_jitter(gain=0.5,offset=2)", "gaussian_noise(sigma=0.5..3)"]))
                .no_data(NoData::Cubes(-7.25))
                .augment(all)
                .layout(first)
                .fields(arrays),
        ),
        (
            "moved patches of some bands",
            base.clone()
                .augment_pictures(vec!["random_rotation(degrees=180,fill=2)".parse().unwrap()])
                .cube(CubeMode::Patch { height: 9, width: 4, place: PatchPlace::Random })
                .bands(Bands::List(vec![4, 0, 0, 5]))
                .no_data(NoData::Cubes(0.5))
                .fields(arrays),
        ),
        ("stored bytes", base.image(ImageMode::Raw)),
    ]
}

const AFFINE: &str = "random_affine(degrees=30,translate=0.2:0.1,scale=0.7..1.4,shear=9,p=0.9,fill=1.5,mask_fill=3)";

pub(crate) fn scene_ways() -> Vec<(&'static str, LoaderOptions)> {
    let names = ["cube", "mask", "label"].map(str::to_owned);
    let base = LoaderOptions::default()
        .batch_size(7)
        .threads(3)
        .seed(5)
        .end(End::Uneven)
        .on_corrupt(OnCorrupt::Skip { max: 10_000 })
        .cube(CubeMode::Patch { height: 15, width: 16, place: PatchPlace::Random })
        .patches(Patches::PerSample(3))
        .fields(names.to_vec());
    let changes = ["band_jitter(gain=0.5,offset=2)", "gaussian_noise(sigma=1)"];
    vec![
        ("at random", base.clone()),
        ("all of a grid", base.clone().patches(Patches::Grid { overlap: [0, 2, 3] })),
        ("of each class", base.clone().patch_classes(PatchClasses::Balanced)),
        (
            "moved and turned",
            base.clone().augment_pictures(vec![AFFINE.parse().unwrap()]).no_data(NoData::Cubes(0.5)).augment(Augment {
                flip_rows: true,
                flip_columns: true,
                rotate: false,
                ..Augment::default()
            }),
        ),
        (
            "of some classes, changed",
            base.cube(CubeMode::Patch { height: 6, width: 6, place: PatchPlace::Random })
                .patch_classes(PatchClasses::Weighted(vec![(1, 1.0), (3, 2.5)]))
                .dtype(ArrayDtype::Fields(vec![("cube".to_owned(), Dtype::F16.into())]))
                .normalise([("cube", Factors::new(&[100.0], &[7.5]).unwrap())])
                .no_data(NoData::Cubes(0.5))
                .augment_bands(changes.iter().map(|text| text.parse().unwrap()).collect())
                .augment(Augment { flip_rows: true, flip_columns: true, rotate: true, ..Augment::default() })
                .layout(PixelLayout::ChannelsHeightWidth),
        ),
    ]
}
