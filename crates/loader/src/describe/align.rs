//! Fields that belong to a picture: masks, boxes and keypoints are transformed with its view.

use super::arrays;
use super::examples::Examples;
use super::parts::{Description, axes, several_shapes};
use crate::fields::{ArrayField, Axis, Col, FieldType, Followed, MaskField};
use crate::options::{Align, CubeMode, ImageMode, LoaderOptions, NoData};
use shardpack_array::{As, Bands, integer_bytes};
use shardpack_format::{Dtype, ElementType, FieldKind, Hint, Schema, Setting, Voice, bug};
use shardpack_jpeg::Framing;
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Dataset, Error, Result};

/// The picture that a field follows: the named one, or the only one that is loaded.
///
/// # Errors
/// `Usage` if there is no such picture, if there are several and none is named, or if pictures are
/// loaded as stored bytes.
pub(crate) fn followed(schema: &Schema, options: &LoaderOptions, field: &str, named: Option<&str>) -> Result<Followed> {
    let refuse = |expected: &str, found: String| {
        Err(Error::usage(format!(
            "picture that `{}` follows: expected {expected}, found {found}",
            field.escape_debug()
        )))
    };
    let ImageMode::View(view) = options.view.image else {
        return refuse("pictures that are decoded", "stored bytes (`raw`)".into());
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
            let position = schema.stored_position(name).unwrap_or_else(|| bug("a picture is no stored field"));
            Ok(Followed { position, view, orientation: Col::find(schema, "orientation") })
        }
        ([], Some(named)) => refuse("a field of pictures", format!("`{}`", named.escape_debug())),
        ([], None) => refuse("a field of pictures among the fields", "none".into()),
        (several, _) => refuse("the name of one of several pictures", format!("none of {}", several.join(", "))),
    }
}

/// Plans an array that follows a picture: its rows have the size of the view, or of the whole picture.
///
/// # Errors
/// As [`followed`] and [`arrays::plan`]; `Usage` if the array has neither two nor three axes, or its
/// output type would round.
pub(crate) fn plan_mask(
    dataset: &Dataset,
    name: &str,
    position: usize,
    options: &LoaderOptions,
) -> Result<Description> {
    let named = options.aligned(name).and_then(Align::picture);
    let picture = followed(dataset.schema(), options, name, named)?;
    let columns = ["height", "width"].map(|side| Col::find(dataset.schema(), side).map(Axis::Column));
    let view = picture.view.size().map(|(height, width)| [height, width].map(|side| Axis::Fixed(side.into())));
    let (false, Some([height, width])) =
        (dataset.is_empty(), view.or(columns[0].zip(columns[1]).map(<[Axis; 2]>::from)))
    else {
        // The index has no sizes of the whole pictures: all masks must have one size.
        let whole = arrays::plan(dataset, name, position, options)?.ok_or_else(|| several_shapes(name))?;
        let FieldType::Array(ArrayField { stored, .. }) = whole.kind else { bug("a mask is planned as no array") };
        // Masks of one size need no padding.
        let kind = FieldType::Mask(MaskField { position, picture, stored, fill: Vec::new() });
        return Ok(Description { kind, ..whole });
    };
    let examples = Examples::find(dataset, name, position, dataset.limits(), None)?;
    let (_, _, descriptor) = examples.first(dataset, options.order.epoch)?;
    let (dtype, to) = examples.element(dataset, name, options)?;
    let refuse = |what: &str, expected: &str, found: String| {
        Err(Error::usage(format!("{what} of field `{}`: expected {expected}, found {found}", name.escape_debug())))
    };
    if to != As::Decoded {
        return refuse("element type", "one that holds all values of a mask", dtype.to_string());
    }
    let axes = match &*descriptor.shape {
        [_, _] => vec![height, width],
        &[_, _, channels] => axes(options.output.layout, height, width, Axis::Fixed(channels)).to_vec(),
        other => return refuse("axes", "two, or three, of a mask", format!("{other:?}")),
    };
    let stored = examples.stored(dtype, to);
    let mut fill = Vec::new();
    if let (Framing::Pad { .. }, Some(Align::Mask { fill: value, .. })) = (picture.view.framing, options.aligned(name))
    {
        let Some(element) = element(dtype, *value) else {
            let hint = Hint::new("say another one, ")
                .only(Voice::Python, "sp.align.mask(fill=0)")
                .only(Voice::Rust, "`mask,fill=0`");
            return refuse("value beside the picture", &format!("one of {dtype}"), value.to_string())
                .map_err(|error| error.with_hint(hint));
        };
        fill = element;
    }
    let kind = FieldType::Mask(MaskField { position, picture, stored, fill });
    let fixed = |axis: &Axis| if let Axis::Fixed(length) = axis { Some(*length) } else { None };
    let Some(shape) = axes.iter().map(fixed).collect::<Option<Vec<u64>>>() else {
        return Ok(Description::ragged(kind, dtype, axes));
    };
    let bytes = usize::try_from(dtype.array_bytes(&shape)?);
    let bytes =
        bytes.map_err(|_| Error::usage(format!("size of a view: expected one that fits memory, found {shape:?}")))?;
    Ok(Description::dense(kind, dtype, shape, bytes))
}

/// Converts a number to an element of this type, little-endian; `None` if the type has no such value.
/// Floats are rounded.
fn element(dtype: ElementType, value: f64) -> Option<Vec<u8>> {
    macro_rules! float {
        ($float:expr) => {{
            let float = $float;
            (float.is_finite() == value.is_finite()).then(|| float.to_le_bytes().to_vec())?
        }};
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded, as said")]
    let single = value as f32;
    Some(match dtype {
        ElementType::Bf16 => float!(half::bf16::from_f64(value)),
        ElementType::Dtype(dtype) => match dtype {
            Dtype::F16 => float!(half::f16::from_f64(value)),
            Dtype::F32 => float!(single),
            Dtype::F64 => float!(value),
            Dtype::Bool => [0.0, 1.0].contains(&value).then(|| vec![u8::from(value == 1.0)])?,
            integer => return integer_bytes(integer, value),
        },
    })
}

/// Hint for converting lists of JSON, such as a table of labels, to arrays.
fn as_arrays(name: &str) -> Hint {
    let written = format!(
        ": `sp.Writer` with schema={{\"{}\": \"array:float32\"}} takes such lists, \
         or give it `np.asarray(boxes, np.float32)`",
        name.escape_debug()
    );
    Hint::new("write them as arrays of numbers").only(Voice::Python, written)
}

/// Refuses fields that cannot be aligned, and options that would make alignment useless.
///
/// # Errors
/// `Usage`: a field is unknown, is not an array, is named twice, or its elements are converted; arrays
/// are cut or turned; an augmentation moves pixels of the picture alone.
pub(crate) fn check(schema: &Schema, options: &LoaderOptions) -> Result<()> {
    let quoted = |name: &str| format!("`{}`", name.escape_debug());
    let refuse = |expected: &str, found: String| {
        Err(Error::usage(format!("aligned fields: expected {expected}, found {found}")))
    };
    let Some((first, _)) = options.view.align.first() else { return Ok(()) };
    for (at, (name, align)) in options.view.align.iter().enumerate() {
        align.check()?;
        let kind = schema.fields().iter().find(|field| field.name == *name).map(|field| field.kind);
        let is_json = kind == Some(FieldKind::Json) && matches!(align, Align::Polygons { .. });
        if kind != Some(FieldKind::Array) && !is_json {
            let what = kind.map_or("no field of the dataset".to_owned(), |kind| format!("of kind {kind:?}"));
            let refused = refuse("fields of arrays", format!("{}, {what}", quoted(name)));
            return match kind {
                Some(FieldKind::Json) => refused.map_err(|error| error.with_hint(as_arrays(name))),
                _ => refused,
            };
        }
        if options.view.align.iter().take(at).any(|(other, _)| other == name) {
            return refuse("each field once", quoted(name));
        }
        if options.output.normalise.iter().any(|(other, _)| other == name) {
            return refuse("fields without mean and std", quoted(name));
        }
        if matches!(&options.output.no_data, NoData::Fields(fields) if fields.iter().any(|(other, _)| other == name)) {
            return refuse("fields without a value for no-data", quoted(name));
        }
        if let Some(of) = align.rows() {
            let boxes = options.aligned(of).filter(|of| matches!(of, Align::Boxes { .. }));
            let found = || format!("{}, for {}", quoted(of), quoted(name));
            let Some(boxes) = boxes else { return refuse("rows of a field that is aligned as boxes", found()) };
            if !matches!(align, Align::Rows { .. }) && align.picture() != boxes.picture() {
                return refuse("fields on the picture of their boxes", found());
            }
        }
    }
    if options.view.cube != CubeMode::Whole {
        return refuse("whole arrays", format!("{}, of which a patch is cut", quoted(first)))
            .map_err(|error| error.with_hint("load the patches in a loader of their own"));
    }
    if !options.view.augment.is_none() {
        let found = format!("{}, beside flips or turns of arrays", quoted(first));
        let hint = Hint::new("the view mirrors both: ").and([Setting::number("flip", 0.5)]);
        return refuse("arrays that are not turned", found).map_err(|error| error.with_hint(hint));
    }
    if options.view.bands != Bands::All {
        return refuse("all bands", format!("{}, of which some are chosen", quoted(first)));
    }
    if options.view.augment_pictures.iter().any(shardpack_augment::Augmentation::moves) {
        let found = format!("one that moves the pixels of the picture, and not {}", quoted(first));
        return refuse("an augmentation that leaves pixels at their place", found).map_err(|error| {
            error.with_hint("choose augmentations of colours; the view crops, scales and mirrors both")
        });
    }
    Ok(())
}
