//! Plans fields that belong to a picture: masks, boxes and keypoints, which follow its view and augmentations.

use super::array_augmentation::array_augmentation;
use super::arrays;
use super::examples::Examples;
use super::moves;
use super::parts::{Description, axes, no_sides, several_shapes, sides};
use crate::fields::{ArrayField, Axis, Col, FieldType, Followed, MaskField, ViewBoxes};
use crate::options::{Align, BatchMix, CubeMode, ImageMode, LoaderOptions, NoData};
use shardpack_array::{As, Bands, element_bytes};
use shardpack_augment::{Augmentation, Outside};
use shardpack_format::{ElementType, FieldKind, Hint, Schema, Setting, Voice, bug, to_usize};
use shardpack_jpeg::{Framing, View};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Dataset, Error, Result};

/// Returns the picture that field `field` follows: the `named` one, or else the only one that is loaded.
pub(crate) fn followed(schema: &Schema, options: &LoaderOptions, field: &str, named: Option<&str>) -> Result<Followed> {
    let refuse =
        |reason: String| Err(Error::usage(format!("field `{}` is aligned with {reason}", field.escape_debug())));
    let ImageMode::View(view) = options.view.image else {
        let hint = Hint::new("decode the pictures, for example with ").and([Setting::word("image", "full")]);
        return refuse("a picture, but pictures are loaded as stored bytes (`raw`)".into())
            .map_err(|error| error.with_hint(hint));
    };
    let is_loaded = |name: &String| options.output.fields.as_ref().is_none_or(|fields| fields.contains(name));
    let is_followed = |name: &String| match named {
        Some(named) => name == named,
        None => is_loaded(name) && !is_mask(name),
    };
    let pictures = schema.fields().iter().filter(|field| field.kind == FieldKind::Image && is_followed(&field.name));
    let names: Vec<&str> = pictures.map(|field| field.name.as_str()).collect();
    match (&*names, named) {
        (&[name], _) => {
            let position = schema.stored_position(name).unwrap_or_else(|| bug("a picture is not a stored field"));
            let boxes = boxes_of(options, schema, name, view)?;
            Ok(Followed { position, view, orientation: Col::find(schema, "orientation"), boxes })
        }
        ([], Some(named)) => {
            refuse(format!("`{}`, but the dataset has no picture field with this name", named.escape_debug()))
        }
        ([], None) => refuse("a picture, but no picture field is loaded".into()),
        (several, _) => refuse(format!(
            "a picture, but several picture fields are loaded: choose one of {} with `picture=`",
            several.join(", ")
        )),
    }
}

/// Returns the boxes that choose the crop of picture `name`, or `None` if its view does not depend on boxes. They are
/// the boxes that are aligned with the picture.
pub(crate) fn boxes_of(options: &LoaderOptions, schema: &Schema, name: &str, view: View) -> Result<Option<ViewBoxes>> {
    let Framing::IouCrop { .. } = view.framing else { return Ok(None) };
    let boxes = options.view.align.iter().filter_map(|(field, align)| match align {
        Align::Boxes { picture, format, relative, .. } if picture.as_ref().is_none_or(|picture| picture == name) => {
            let position = schema.stored_position(field)?;
            Some((field.as_str(), ViewBoxes { position, format: *format, relative: *relative }))
        }
        _ => None,
    });
    let boxes: Vec<(&str, ViewBoxes)> = boxes.collect();
    let (reason, hint) = match &*boxes {
        [(_, boxes)] => return Ok(Some(*boxes)),
        [] => {
            let hint = Hint::new("align the boxes of the pictures")
                .only(Voice::Python, ": align={\"boxes\": sp.align.boxes()}")
                .only(Voice::Rust, ": `align([(\"boxes\", \"boxes\".parse()?)])`");
            ("no field with boxes is aligned with it".to_owned(), hint)
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(field, _)| *field).collect();
            let hint = Hint::new("align only one of them as boxes");
            (format!("several fields with boxes are aligned with it: {}", names.join(", ")), hint)
        }
    };
    let text = format!("picture `{}` is cropped around its boxes, but {reason}", name.escape_debug());
    Err(Error::usage(text).with_hint(hint))
}

/// Plans an array that follows a picture as its mask. Its rows have the size of the view, or of the whole
/// picture if the view has none.
pub(crate) fn plan_mask(
    dataset: &Dataset,
    name: &str,
    position: usize,
    options: &LoaderOptions,
) -> Result<Description> {
    let named = options.aligned(name).and_then(Align::picture);
    let picture = followed(dataset.schema(), options, name, named)?;
    let both = sides(dataset.schema(), picture.view);
    if both.is_none() && picture.view.framing != Framing::Whole {
        return Err(no_sides());
    }
    let (false, Some([height, width])) = (dataset.is_empty(), both) else {
        // The index does not contain the sizes of unresized pictures, so all masks must have the same size.
        let whole = arrays::plan(dataset, name, position, options)?.ok_or_else(|| several_shapes(name))?;
        let FieldType::Array(ArrayField { stored, .. }) = whole.kind else { bug("a mask is not planned as an array") };
        // Masks that are loaded whole are never padded.
        let moved = moved(name, whole.dtype, options)?;
        let kind = FieldType::Mask(MaskField { position, picture, stored, fill: Vec::new(), moved });
        return Ok(Description { kind, ..whole });
    };
    let examples = Examples::find(dataset, name, position, dataset.limits(), None)?;
    let (_, _, descriptor) = examples.first(dataset, options.order.epoch)?;
    let (dtype, to) = examples.element(dataset, name, options)?;
    let refuse = |reason: String| Err(Error::usage(format!("mask `{}`: {reason}", name.escape_debug())));
    if to != As::Decoded {
        return refuse(format!("{dtype} cannot hold all values of the mask"));
    }
    let axes = match &*descriptor.shape {
        [_, _] => vec![height, width],
        &[_, _, channels] => axes(options.output.layout, height, width, Axis::Fixed(channels)).to_vec(),
        other => return refuse(format!("a mask must have two or three axes, but this one has the shape {other:?}")),
    };
    let stored = examples.stored(dtype, to);
    let has_border = picture.view.framing.has_border() || has_mosaics(options);
    let fill = match options.aligned(name) {
        Some(Align::Mask { fill, .. }) if has_border => fill_of(name, dtype, *fill)?,
        _ => Vec::new(),
    };
    let moved = moved(name, dtype, options)?;
    let kind = FieldType::Mask(MaskField { position, picture, stored, fill, moved });
    let fixed = |axis: &Axis| if let Axis::Fixed(length) = axis { Some(*length) } else { None };
    let Some(shape) = axes.iter().map(fixed).collect::<Option<Vec<u64>>>() else {
        return Ok(Description::ragged(kind, dtype, axes));
    };
    let bytes = to_usize(dtype.array_bytes(&shape)?);
    Ok(Description::dense(kind, dtype, shape, bytes))
}

/// Returns true if batches become mosaics, which have pixels that no picture covers.
fn has_mosaics(options: &LoaderOptions) -> bool {
    options.output.mix.as_ref().is_some_and(BatchMix::has_mosaics)
}

fn fill_of(name: &str, dtype: ElementType, value: f64) -> Result<Vec<u8>> {
    element_bytes(dtype, value).ok_or_else(|| {
        let hint = Hint::new("set another fill value, such as ")
            .only(Voice::Python, "sp.align.mask(fill=0)")
            .only(Voice::Rust, "`mask,fill=0`");
        let text = format!("mask `{}`: {dtype} cannot represent the fill value {value}", name.escape_debug());
        Error::usage(text).with_hint(hint)
    })
}

/// For each augmentation, returns the fill value of pixels from outside the picture: the augmentation's `mask_fill`
/// or, without one, the padding value.
fn moved(name: &str, dtype: ElementType, options: &LoaderOptions) -> Result<Vec<Vec<u8>>> {
    let augmentations = &options.view.augment_pictures;
    if !augmentations.iter().any(Augmentation::moves) {
        return Ok(Vec::new());
    }
    let of = |augmentation: &Augmentation| match (augmentation.outside(), options.aligned(name)) {
        (Some(Outside { mask_fill, .. }), _) => moves::mask_fill(name, dtype, mask_fill),
        (None, Some(Align::Mask { fill, .. })) if augmentation.moves() => fill_of(name, dtype, *fill),
        _ => Ok(Vec::new()),
    };
    augmentations.iter().map(of).collect()
}

fn as_arrays(name: &str) -> Hint {
    let written = format!(
        ": pass schema={{\"{}\": \"array:float32\"}} to `sp.Writer`, or convert each value with `np.asarray(value, \
         np.float32)`",
        name.escape_debug()
    );
    Hint::new("write the values as arrays of numbers").only(Voice::Python, written)
}

/// Fails for fields that cannot be aligned and for options that cannot be combined with alignment.
pub(crate) fn check(schema: &Schema, options: &LoaderOptions) -> Result<()> {
    let quoted = |name: &str| format!("`{}`", name.escape_debug());
    let refuse =
        |name: &str, reason: String| Err(Error::usage(format!("aligned field `{}`: {reason}", name.escape_debug())));
    let Some((first, _)) = options.view.align.first() else { return Ok(()) };
    for (at, (name, align)) in options.view.align.iter().enumerate() {
        align.check()?;
        let kind = schema.fields().iter().find(|field| field.name == *name).map(|field| field.kind);
        let is_json = kind == Some(FieldKind::Json) && matches!(align, Align::Polygons { .. });
        if kind != Some(FieldKind::Array) && !is_json {
            let reason = kind.map_or("the dataset has no field with this name".to_owned(), |kind| {
                format!("only array fields can be aligned, but this one is of kind `{kind}`")
            });
            let refused = refuse(name, reason);
            return match kind {
                Some(FieldKind::Json) => refused.map_err(|error| error.with_hint(as_arrays(name))),
                _ => refused,
            };
        }
        if options.view.align.iter().take(at).any(|(other, _)| other == name) {
            return Err(Error::usage(format!("field {} is aligned twice", quoted(name))));
        }
        if options.output.normalise.iter().any(|(other, _)| other == name) {
            return refuse(name, "mean and std cannot be applied to an aligned field".into());
        }
        if matches!(&options.output.no_data, NoData::Fields(fields) if fields.iter().any(|(other, _)| other == name)) {
            return refuse(name, "no-data values of an aligned field cannot be replaced".into());
        }
        if let Some(of) = align.rows() {
            let boxes = options.aligned(of).filter(|of| matches!(of, Align::Boxes { .. }));
            let Some(boxes) = boxes else {
                let reason = format!("its rows follow the boxes in {0}, but {0} is not aligned as boxes", quoted(of));
                return refuse(name, reason);
            };
            if !matches!(align, Align::Rows { .. }) && align.picture() != boxes.picture() {
                return refuse(name, format!("the boxes {} are aligned with a different picture", quoted(of)));
            }
        }
    }
    if options.view.cube != CubeMode::Whole {
        let how = if options.view.cube == CubeMode::Raw { "stored bytes (`raw`)" } else { "patches" };
        return refuse(first, format!("only whole arrays can be aligned, but arrays are loaded as {how}"))
            .map_err(|error| error.with_hint(format!("load arrays as {how} with a separate loader")));
    }
    if !options.view.augment.is_none() {
        let hint = Hint::new("flip the picture with ")
            .and([Setting::number("flip", 0.5)])
            .then(" in its view, or rotate it with `random_rotation`: the aligned field follows");
        return refuse(first, "an aligned field cannot be flipped or rotated without its picture".into())
            .map_err(|error| error.with_hint(hint));
    }
    if options.view.bands != Bands::All {
        return refuse(first, "`bands` cannot be combined with aligned fields".into())
            .map_err(|error| error.with_hint("leave out `bands`, or load the aligned fields with a separate loader"));
    }
    let moves = options.view.augment_pictures.iter().any(Augmentation::moves);
    if moves && array_augmentation(schema, options).is_some() {
        let hint = Hint::new("add the picture field to ").and([Setting::named("fields")]);
        return refuse(
            first,
            "an augmentation moves the pixels of this field's picture, but that picture is not loaded".into(),
        )
        .map_err(|error| error.with_hint(hint));
    }
    Ok(())
}
