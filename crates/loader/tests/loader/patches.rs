//! Tests patches and bands of cubes. For every patch position and all storage settings, batches must equal a crop of
//! the whole array.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::cubes::{ALIKE, Cubes, Shape, crop, list, varied};
use crate::loader_support::{RowOf, base, epoch};
use shardpack_format::*;
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, CubeMode, Loader, LoaderOptions, OnCorrupt, PatchPlace};
use shardpack_reader::Bands;

fn options(cube: CubeMode) -> LoaderOptions {
    base().batch_size(4).threads(2).seed(9).end(End::Uneven).cube(cube)
}

fn patch(height: u32, width: u32, place: PatchPlace) -> CubeMode {
    CubeMode::Patch { height, width, place }
}

#[test]
fn a_patch_is_the_crop_of_the_whole_and_so_is_its_mask() {
    for (made, sizes) in [
        (Cubes::packed(&[8, 0, 5], |_| ALIKE), "alike"),
        (Cubes::packed(&[8, 5], varied), "varied"),
        (Cubes::new(&[13], &[], varied), "varied, and not in the index"),
    ] {
        for place in [PatchPlace::Random, PatchPlace::Center, PatchPlace::Cycle] {
            for bands in [Bands::All, Bands::Range(3..8), Bands::List(vec![11, 0, 5, 0])] {
                for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
                    let first = layout == PixelLayout::ChannelsHeightWidth;
                    let wanted = list(&bands);
                    let count = wanted.len() as u64;
                    let options = options(patch(9, 14, place)).bands(bands.clone()).layout(layout).epoch(5);
                    let mut seen = Vec::new();
                    for (indices, _, fields) in made.load(options) {
                        for (row, &sample) in indices.iter().enumerate() {
                            let (cube, mask) = (made.array(sample, "cube"), made.array(sample, "mask"));
                            let key = DrawKey { seed: 9, epoch: 5, sample };
                            let at = place.origin(&key, [cube.shape()[0], cube.shape()[1]], [9, 14]).unwrap();
                            let shape = if first { [count, 9, 14] } else { [9, 14, count] };
                            assert_eq!(fields[0].1[row], shape, "{sizes}");
                            let expected = crop(&cube, at, [9, 14], &wanted, first);
                            assert!(fields[0].2[row] == expected, "{sizes} {place:?} {bands:?} {layout:?} {sample}");
                            assert_eq!(fields[1].1[row], [9, 14]);
                            assert!(fields[1].2[row] == crop(&mask, at, [9, 14], &[0], false), "mask of {sample}");
                            assert_eq!(fields[2].2[row], (0..12).collect::<Vec<u8>>(), "a spectrum has no pixels");
                        }
                        seen.extend(indices);
                    }
                    seen.sort_unstable();
                    assert_eq!(seen, (0..13).collect::<Vec<_>>());
                }
            }
        }
    }
}

#[test]
fn patches_are_dense_for_all_cubes() {
    for made in [Cubes::packed(&[6], varied), Cubes::new(&[6], &[], varied)] {
        let mut loader = Loader::open(&made.open(), options(patch(16, 8, PatchPlace::Random))).unwrap();
        let batch = loader.next_batch().unwrap().unwrap();
        assert_eq!(batch.field("cube").unwrap().shape().unwrap(), [4, 16, 8, 12]);
        assert_eq!(batch.field("mask").unwrap().shape().unwrap(), [4, 16, 8]);
    }
}

#[test]
fn patches_of_cubes_with_different_numbers_of_bands_are_ragged_until_bands_are_chosen() {
    let made = Cubes::packed(&[6], |id| Shape { bands: 5 + id, ..ALIKE });
    for (_, _, fields) in made.load(options(patch(4, 4, PatchPlace::Center)).fields(["cube"])) {
        assert!(fields[0].1.iter().zip(&fields[0].2).all(|(shape, bytes)| bytes.len() as u64 == 4 * 4 * 4 * shape[2]));
    }
    let bands = Bands::Range(0..5);
    let options = options(patch(4, 4, PatchPlace::Center)).fields(["cube"]).bands(bands);
    let mut loader = Loader::open(&made.open(), options).unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap().field("cube").unwrap().shape().unwrap(), [4, 4, 4, 5]);
}

#[test]
fn bands_of_whole_cubes() {
    for (made, dense) in [(Cubes::packed(&[7], |_| ALIKE), true), (Cubes::packed(&[7], varied), false)] {
        for bands in [Bands::Range(10..12), Bands::List(vec![4, 3])] {
            for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
                let options = options(CubeMode::Whole).bands(bands.clone()).layout(layout);
                let mut loader = Loader::open(&made.open(), options).unwrap();
                while let Some(batch) = loader.next_batch() {
                    let batch = batch.unwrap();
                    let (cubes, masks) = (batch.field("cube").unwrap(), batch.field("mask").unwrap());
                    assert_eq!(cubes.shape().is_some(), dense);
                    for (row, &sample) in batch.indices().iter().enumerate() {
                        let (cube, mask) = (made.array(sample, "cube"), made.array(sample, "mask"));
                        let size = [cube.shape()[0], cube.shape()[1]];
                        let first = layout == PixelLayout::ChannelsHeightWidth;
                        let shape = if first { [2, size[0], size[1]] } else { [size[0], size[1], 2] };
                        assert_eq!(cubes.row_shape(row).unwrap(), shape);
                        assert!(cubes.row_of(row) == crop(&cube, [0, 0], size, &list(&bands), first));
                        assert_eq!(masks.row_of(row), mask.bytes());
                    }
                }
            }
        }
    }
}

#[test]
fn patches_do_not_depend_on_threads_slots_batches_or_ranks() {
    let made = Cubes::packed(&[11, 12], varied);
    let by_sample = |options: LoaderOptions| {
        let mut rows: Vec<_> = made
            .load(options)
            .into_iter()
            .flat_map(|(indices, _, fields)| {
                let row = move |i: usize| fields.iter().map(|field| field.2[i].clone()).collect::<Vec<_>>();
                indices.into_iter().enumerate().map(move |(i, sample)| (sample, row(i)))
            })
            .collect();
        rows.sort();
        rows
    };
    let random = || options(patch(10, 10, PatchPlace::Random));
    let expected = by_sample(random().threads(1).slots(1));
    for (threads, slots, batch_size, mode) in
        [(2, 3, 4, Mode::Windowed), (7, 2, 1, Mode::Full), (3, 4, 23, Mode::Stored)]
    {
        assert!(by_sample(random().threads(threads).slots(slots).batch_size(batch_size).mode(mode)) == expected);
    }
    let mut ranks: Vec<_> = (0..3).flat_map(|rank| by_sample(random().rank(rank).world_size(3))).collect();
    ranks.sort();
    assert!(ranks == expected);
    assert!(by_sample(random().epoch(1)) != expected, "the next epoch has others");
    assert!(by_sample(random().seed(10)) != expected, "another seed has others");
}

#[test]
fn a_grid_covers_every_pixel_once() {
    let made = Cubes::packed(&[3], |_| ALIKE);
    let tiles = PatchPlace::tiles([40, 30], [8, 10]);
    assert_eq!(tiles, 15);
    let mut loader = Loader::open(&made.open(), options(patch(8, 10, PatchPlace::Cycle))).unwrap();
    // Put the patches of a mask together. The result must equal the mask.
    let mut shown = vec![Vec::new(); 3];
    for number in 0..tiles as u32 {
        loader.set_epoch(number).unwrap();
        for (indices, _, fields) in epoch(&mut loader) {
            for (row, sample) in indices.iter().enumerate() {
                let origin = PatchPlace::Cycle.origin(
                    &DrawKey { seed: 9, epoch: number.into(), sample: *sample },
                    [40, 30],
                    [8, 10],
                );
                shown[*sample as usize].push((origin.unwrap(), fields[1].2[row].clone()));
            }
        }
    }
    for (sample, tiles) in (0..).zip(shown) {
        let mut whole = vec![None; 40 * 30];
        for ([top, left], tile) in tiles {
            for (i, value) in tile.iter().enumerate() {
                let at = (top as usize + i / 10) * 30 + left as usize + i % 10;
                assert!(whole[at].replace(*value).is_none(), "pixel {at} comes twice");
            }
        }
        let whole: Vec<u8> = whole.into_iter().map(Option::unwrap).collect();
        assert_eq!(whole, made.array(sample, "mask").bytes());
    }
}

#[test]
fn float16_stays_float16_in_patches() {
    let made = Cubes::packed(&[9], |_| ALIKE);
    let with = |dtype| {
        let options = options(patch(6, 7, PatchPlace::Random)).dtype(dtype).bands(Bands::List(vec![2, 9]));
        let mut loader = Loader::open(&made.open(), options).unwrap();
        let dtype = loader.next_batch().unwrap().unwrap().field("cube").unwrap().dtype();
        loader.set_epoch(1).unwrap();
        (dtype, epoch(&mut loader))
    };
    let ((half, halves), (full, floats)) = (with(ArrayDtype::Cubes(Dtype::F16.into())), with(ArrayDtype::Source));
    assert_eq!((half, full), (Dtype::F16.into(), Dtype::F32.into()));
    for (halves, floats) in halves.iter().zip(&floats) {
        for (halves, floats) in halves.2[0].2.iter().zip(&floats.2[0].2) {
            assert_eq!(halves.len(), 6 * 7 * 2 * 2);
            for (half, float) in halves.as_chunks().0.iter().zip(floats.as_chunks().0) {
                assert_eq!(half::f16::from_le_bytes(*half).to_f32().to_bits(), f32::from_le_bytes(*float).to_bits());
            }
        }
    }
}

#[test]
fn a_cube_that_is_too_small_is_named() {
    let alike = Cubes::packed(&[3], |_| ALIKE);
    assert_eq!(
        alike.refused(options(patch(41, 30, PatchPlace::Center))),
        "sample 0, `cube-0`: the patch (41 × 30) does not fit in the array (40 × 30)"
    );
    // Only sample 2 is smaller than the patch. This is a usage error and not damage, so the sample is not skipped.
    for columns in [&["height", "width", "channels"][..], &[]] {
        let made = Cubes::new(&[6], columns, |id| Shape { width: if id == 2 { 15 } else { 30 }, ..ALIKE });
        for on_corrupt in [OnCorrupt::Error, OnCorrupt::Skip { max: 6 }] {
            let options =
                options(patch(8, 16, PatchPlace::Random)).on_corrupt(on_corrupt).batch_size(1).mode(Mode::Stored);
            let mut loader = Loader::open(&made.open(), options).unwrap();
            for number in 0..6 {
                match loader.next_batch().unwrap() {
                    Ok(batch) => assert_eq!(batch.indices(), [number]),
                    Err(error) => {
                        assert_eq!(number, 2);
                        let expected = "sample 2, `cube-2`: the patch (8 × 16) does not fit in the array (40 × 15)";
                        assert_eq!(error.to_string(), expected);
                    }
                }
            }
            assert!(loader.next_batch().is_none());
        }
    }
}

#[test]
fn a_mask_of_a_different_size_cannot_be_cut_with_its_cube() {
    let made = Cubes::packed(&[4], |id| Shape { mask_rows: id % 2, ..ALIKE });
    let options = options(patch(4, 4, PatchPlace::Random)).batch_size(1).mode(Mode::Stored);
    let mut loader = Loader::open(&made.open(), options).unwrap();
    assert!(loader.next_batch().unwrap().is_ok());
    assert_eq!(
        loader.next_batch().unwrap().unwrap_err().to_string(),
        "sample 1, `cube-1`: cannot cut the same patch from all arrays: field `mask` is 41 × 30, \
         but another field is 40 × 30"
    );
    assert!(loader.next_batch().unwrap().is_ok(), "the next row begins anew");
}

#[test]
fn invalid_patches_and_bands_are_refused() {
    let made = Cubes::packed(&[3], |_| ALIKE);
    let bands = |bands, cube| made.refused(options(cube).bands(bands));
    let only = |field: &str, cube, bands| made.refused(options(cube).fields([field]).bands(bands));
    for (refused, said) in [
        (made.refused(options(patch(0, 4, PatchPlace::Random))), "a patch must be at least 1 × 1, not 0 × 4"),
        (bands(Bands::List(vec![]), CubeMode::Whole), "`bands` must select at least one band, but the list is empty"),
        (
            bands(Bands::Range(4..4), patch(4, 4, PatchPlace::Cycle)),
            "`bands` must select at least one band, but 4..4 contains none",
        ),
        (
            bands(Bands::Range(0..4), CubeMode::Raw),
            "`bands` needs decoded arrays, but arrays are loaded as stored bytes (`raw`)",
        ),
        (
            bands(Bands::Range(10..13), CubeMode::Whole),
            "sample 0, `cube-0`: the region has 3 bands starting at 10, but the array has only 12 bands",
        ),
        (
            bands(Bands::List(vec![3, 12]), patch(4, 4, PatchPlace::Center)),
            "sample 0, `cube-0`: band 12 was requested, but the array has only 12 bands, numbered from 0",
        ),
        (
            only("mask", CubeMode::Whole, Bands::Range(0..1)),
            "`bands` needs an array with three axes, but none is loaded",
        ),
        (
            only("spectrum", patch(4, 4, PatchPlace::Center), Bands::All),
            "patches need an array with two or three axes, but none is loaded",
        ),
    ] {
        assert_eq!(refused, said);
    }
}
