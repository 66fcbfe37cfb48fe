//! Tests the errors for masks, boxes and keypoints that cannot follow their picture, because something is missing or
//! damaged, or contradicts the declaration.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::loader_support::Stored;
use crate::loader_support::aligned::{Scenes, align, batches, options};
use shardpack_format::*;
use shardpack_loader::order::Mode;
use shardpack_loader::{Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::{DatasetOptions, Limits};

#[test]
fn samples_that_lack_something_and_damage() {
    let lacking = Scenes::with(8, |scene, values| {
        match scene.id {
            1 => values[0] = None,
            2 => values[1] = None,
            3 => values[2] = None,
            4 => values[5] = None,
            _ => {}
        }
        scene.has_picture = scene.id != 1;
    });
    for batch in batches(&lacking, options("rrc16").mode(Mode::Stored).batch_size(8)) {
        let mask: Vec<bool> = batch.field("mask").unwrap().mask().collect();
        assert_eq!(mask, [true, false, false, true, true, true, true, true]);
        let there = |name: &str| batch.objects(name).unwrap().iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(there("caption"), [true, true, true, true, false, true, true, true]);
        // Samples without a picture have no view, and samples without boxes have no values in the fields that follow
        // the boxes.
        assert_eq!(there("boxes"), [true, false, true, false, true, true, true, true]);
        assert_eq!(there("classes"), there("boxes"));
        assert_eq!(there("points"), [true, false, true, true, true, true, true, true]);
        assert!(batch.objects("image").is_none() && batch.objects("nothing").is_none());
    }
    let error = |change: &dyn Fn(&mut Vec<Option<Stored>>)| {
        let scenes = Scenes::with(4, |scene, values| {
            if scene.id == 2 {
                change(values)
            }
        });
        let options = options("rrc16").mode(Mode::Stored).batch_size(4);
        let mut loader = Loader::open(&scenes.open(), options.clone()).unwrap();
        let error = loader.next_batch().unwrap().unwrap_err().to_string();
        assert!(error.contains("scene-2"), "{error}");
        let skip = options.on_corrupt(OnCorrupt::Skip { max: 1 });
        let skipped = Loader::open(&scenes.open(), skip).unwrap().next_batch().unwrap();
        (error, skipped.map(|batch| (batch.mask().to_vec(), batch.objects("boxes").unwrap()[2].cloned())))
    };
    let plain = |dtype, shape: &[u64]| ArrayDescriptor::plain(dtype, shape.to_vec()).encode().unwrap();
    let (text, skipped) = error(&|values| values[5].as_mut().unwrap().1.fill(0xFF));
    assert!(text.contains("scene-2") && text.contains("caption"), "{text}");
    assert_eq!(skipped.unwrap(), (vec![true, true, false, true], None));
    // If a box is invalid in every format, its sample is damaged.
    let boxes = |boxes: [[f32; 4]; 5]| boxes.into_iter().flatten().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    for (bad, said) in [([f32::NAN; 4], "finite"), ([9.0, 9.0, -3.0, 20.0], "negative width or height: [")] {
        let all = boxes([[0.0, 0.0, 4.0, 4.0], [1.0; 4], bad, [1.0; 4], [2.0; 4]]);
        let (text, skipped) = error(&|values| values[2].as_mut().unwrap().1.clone_from(&all));
        assert!(text.contains("field `boxes`: ") && text.contains(said), "{text}");
        assert_eq!(skipped.unwrap(), (vec![true, true, false, true], None));
    }
    // A mismatch with the caller's declaration is a usage error, not damage, so it is not skipped.
    let refused = |said: &str, change: &dyn Fn(&mut Vec<Option<Stored>>)| {
        let (text, skipped) = error(change);
        assert!(text.contains(said) && text.starts_with("sample 2, `scene-2`: "), "{said}: {text}");
        assert!(
            matches!(&skipped, Err(error) if error.kind() == ErrorKind::Usage && error.to_string() == text),
            "{said}"
        );
        skipped.unwrap_err().hint().map_or_else(String::new, |hint| hint.to_string())
    };
    refused(
        "the mask in field `mask` has the shape [3, 4], but the picture (after Exif rotation) is 40 × 56",
        &|values| {
            values[1] = Some((Codec::Raw, vec![0; 12], plain(Dtype::U8, &[3, 4]), None));
        },
    );
    refused("field `boxes` (xyxy boxes in pixels): the shape must be [boxes, 4], but is [4, 5]", &|values| {
        values[2].as_mut().unwrap().2 = plain(Dtype::F32, &[4, 5]);
    });
    refused("field `classes` (rows of `boxes`): expected one row for each of 5 boxes, found 4 rows", &|values| {
        values[3] = Some((Codec::Raw, vec![0; 8], plain(Dtype::U16, &[4]), None));
    });
    // These boxes are in the format left, top, width, height.
    let all = boxes([[20.0, 9.0, 8.0, 12.0], [1.0; 4], [1.0, 2.0, 3.0, 4.0], [1.0; 4], [2.0; 4]]);
    let hint = refused(
        "field `boxes` (xyxy boxes in pixels): box 0 has a negative width or height: [20.0, 9.0, 8.0, 12.0]",
        &|values| {
            values[2].as_mut().unwrap().1.clone_from(&all);
        },
    );
    assert_eq!(hint, "try `format = xywh` or `format = cxcywh`, so that all boxes in this sample are valid");
    let all = boxes([[0.1, 0.2, 0.5, 0.75]; 5]);
    refused(
        "field `boxes` (xyxy boxes in pixels): boxes must be in pixels, but all numbers in the sample are from 0 to 1",
        &|values| {
            values[2].as_mut().unwrap().1.clone_from(&all);
        },
    );
    refused("field `points` (keypoints in pixels): points ", &|values| {
        values[4] = Some((Codec::Raw, vec![0; 12], plain(Dtype::F32, &[1, 3]), None));
    });
}

#[test]
fn invalid_alignments_are_refused_at_open() {
    let scenes = Scenes::new(4);
    let refused = |change: &dyn Fn(&mut LoaderOptions)| {
        let mut options = options("rrc16");
        change(&mut options);
        Loader::open(&scenes.open(), options).map(|_| ()).unwrap_err().to_string()
    };
    for (change, said) in [
        (
            &(|o: &mut LoaderOptions| o.view.align.push(("mask".into(), "boxes".parse().unwrap()))) as &dyn Fn(&mut _),
            "field `mask` is aligned twice",
        ),
        (
            &|o: &mut LoaderOptions| o.view.align = align(&[("caption", "mask")]),
            "only array fields can be aligned, but this one is of kind `text`",
        ),
        (
            &|o: &mut LoaderOptions| o.view.align = align(&[("nothing", "mask")]),
            "`nothing`: the dataset has no field with this name",
        ),
        (&|o: &mut LoaderOptions| o.view.align = align(&[("classes", "rows,of=points")]), "aligned as boxes"),
        (
            &|o: &mut LoaderOptions| o.view.align = align(&[("boxes", "boxes,picture=mask")]),
            "no picture field with this name",
        ),
        (&|o: &mut LoaderOptions| o.view.image = "raw".parse().unwrap(), "stored bytes"),
        (&|o: &mut LoaderOptions| o.view.cube = "patch4x4".parse().unwrap(), "whole arrays"),
        (
            &|o: &mut LoaderOptions| {
                o.output.fields = Some(vec!["mask".into()]);
                o.view.align = align(&[("mask", "mask,picture=image")]);
                o.view.augment_pictures = vec!["random_affine(degrees=5)".parse().unwrap()];
            },
            "pixels of this field's picture, but that picture is not loaded",
        ),
        (
            &|o: &mut LoaderOptions| {
                o.view.augment_pictures = vec!["random_rotation(degrees=5,mask_fill=-1)".parse().unwrap()];
            },
            "field `mask`: uint8 cannot represent `mask_fill` -1",
        ),
        (
            &|o: &mut LoaderOptions| {
                o.view.align = align(&[("mask", "mask,fill=300")]);
                o.view.augment_pictures = vec!["trivial_augment_wide".parse().unwrap()];
            },
            "mask `mask`: uint8 cannot represent the fill value 300",
        ),
        (
            &|o: &mut LoaderOptions| {
                o.view.augment_pictures = vec!["random_affine(degrees=5,fill=3)".parse().unwrap()];
            },
            "`fill` applies only to arrays, but pictures are loaded",
        ),
        (
            &|o: &mut LoaderOptions| o.output.objects.push("image".into()),
            "cannot be loaded as objects: its kind is `image`",
        ),
        (
            &|o: &mut LoaderOptions| o.output.objects.push("mask".into()),
            "`mask` is aligned as a mask, so it cannot be loaded as objects",
        ),
        (&|o: &mut LoaderOptions| o.output.fields = Some(vec!["mask".into()]), "no picture field is loaded"),
    ] {
        let error = refused(change);
        assert!(error.contains(said), "{said}: {error}");
    }
    let mut colours = options("rrc16");
    colours.view.augment_pictures = vec!["color_jitter(brightness=0.5)".parse().unwrap()];
    assert_eq!(batches(&scenes, colours).len(), 1);
}

#[test]
fn masks_of_objects_and_polygons_that_are_none() {
    let plain = |dtype, shape: &[u64]| ArrayDescriptor::plain(dtype, shape.to_vec()).encode().unwrap();
    let error = |text: &str, shape: &dyn Fn([u64; 2]) -> Vec<u64>, limits: Limits| {
        let scenes = Scenes::with(4, |scene, values| {
            let shape = shape(scene.upright().map(u64::from));
            let bytes = vec![1; shape.iter().product::<u64>() as usize];
            values[3] = Some((Codec::Raw, bytes, plain(Dtype::U8, &shape), None));
        });
        let align = align(&[("classes", text), ("boxes", "boxes")]);
        let dataset = DatasetOptions::new().limits(limits).open(scenes.path()).unwrap();
        let mut loader = Loader::open(&dataset, options("resize200x300").align(align).fields(["image"])).unwrap();
        loader.next_batch().unwrap().map(|_| ()).map_err(|error| error.to_string())
    };
    let all = Limits::default;
    for (text, shape, said) in [
        (
            "instances",
            &(|_: [u64; 2]| vec![2_u64, 3, 4]) as &dyn Fn([u64; 2]) -> Vec<u64>,
            "(masks of objects): the shape must be [number of masks,",
        ),
        ("instances", &|[h, w]| vec![h, w], "the shape must be [number of masks,"),
        ("instances,rows=boxes", &|[h, w]| vec![4, h, w], "expected one row for each of 5 boxes, found 4 rows"),
        ("instances", &|_| vec![5, 0, 0], "the shape must be [number of masks,"),
        (
            "polygons,rows=boxes",
            &|_| vec![5, 2],
            "the shape must be [polygons, points, 2] with one polygon for each box, but is ",
        ),
        ("polygons", &|_| vec![4, 3], "(polygons in pixels): the shape must be [points, 2]"),
        ("polygons,rows=boxes", &|_| vec![4, 3, 2], "expected one row for each of 5 boxes, found 4 rows"),
    ] {
        let error = error(text, shape, all()).unwrap_err();
        assert!(error.contains(said) && error.contains("field `classes`"), "{said}: {error}");
    }
    // The masks of a small picture are enlarged to a large view. The limit applies to their size in the view.
    let small = Limits { max_decoded_bytes: 1 << 20, ..all() };
    assert!(error("instances", &|[h, w]| vec![100, h, w], all()).is_ok());
    let error = error("instances", &|[h, w]| vec![100, h, w], small).unwrap_err();
    assert!(error.contains("max_decoded_bytes") && error.contains("6000000"), "{error}");
}
