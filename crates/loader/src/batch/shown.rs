//! Reports the part of the picture that each row shows, and how that part was resized and mirrored.

use super::{Batch, Lent};
use crate::decode::stored_boxes;
use crate::fields::{Col, FieldPlan, FieldType, PictureField};
use crate::plan::PlannedRow;
use shardpack_array::ArrayDecoder;
use shardpack_format::{Codec, bug, to_usize};
use shardpack_jpeg::{Crop, DrawKey, View};
use shardpack_reader::{Dataset, Error, Result, Shard};

/// The part of a picture that a row shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    /// Height and width of the whole upright picture, in pixels.
    pub source: [u32; 2],
    /// The visible part, in pixels of the whole picture, and how it was changed. To map predictions back from a
    /// padded view, use [`Crop::covered`], the area that the row covers including its borders.
    pub crop: Crop,
}

impl Batch {
    /// Returns the part of the picture that each row shows, or `None` for padding and for rows without a picture.
    /// Sizes come from the index. Records are read only if the index does not contain the orientations, or if the
    /// view depends on boxes.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions};
    /// let options = LoaderOptions::default().image("rrc224".parse::<ImageMode>()?);
    /// let mut loader = Loader::open(&Dataset::open("train")?, options)?;
    /// let batch = loader.next_batch().unwrap()?;
    /// for shown in batch.shown("image")?.into_iter().flatten() {
    ///     assert_eq!((shown.crop.height, shown.crop.width), (224, 224));
    ///     assert!(shown.crop.area.x + shown.crop.area.width <= f64::from(shown.source[1]));
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if the field is not a decoded picture, or the index has no `height` and `width`; `Io` or
    /// `Format` if the index cannot be read.
    pub fn shown(&self, field: &str) -> Result<Vec<Option<Shown>>> {
        shown(&self.0, field)
    }
}

/// Returns the part of the picture that each row shows, before the batch is mixed. Returns the same errors as
/// [`Batch::shown`].
pub(crate) fn shown(lent: &Lent, field: &str) -> Result<Vec<Option<Shown>>> {
    let plan = &lent.plan;
    let number = lent.fields.plans.iter().position(|plan| plan.name == field);
    let described = number.and_then(|number| Some((number, lent.fields.plans.get(number)?)));
    let Some((number, of @ FieldPlan { kind: FieldType::Picture(picture), .. })) = described else {
        return Err(Error::usage(format!(
            "field `{}` has no views: only fields with decoded pictures have views",
            field.escape_debug()
        )));
    };
    let PictureField { orientation, .. } = picture;
    let schema = lent.dataset.schema();
    let (Some(height), Some(width)) = (Col::find(schema, "height"), Col::find(schema, "width")) else {
        return Err(Error::usage(format!(
            "cannot compute the views of field `{}`: the dataset has no scalar fields `height` and `width`",
            field.escape_debug()
        )));
    };
    let mut decoder = ArrayDecoder::new();
    let row = |(row, (&index, of_plan)): (usize, (&u64, &PlannedRow))| {
        let is_missing = |&(at, field): &(u32, u32)| to_usize(at) == row && to_usize(field) == number;
        if plan.mask.get(row) != Some(&true) || plan.missing.iter().any(is_missing) {
            return Ok(None);
        }
        let (number, record) = lent.dataset.locate(index)?;
        let shard = lent.dataset.shard(number)?;
        let side = |column: &Col, name: &str| {
            let side = column.length(&shard, record).and_then(|side| u32::try_from(side).ok());
            side.ok_or_else(|| {
                Error::usage(format!("the index has no valid `{name}` for the picture of sample {index}"))
            })
        };
        let stored = [side(&height, "height")?, side(&width, "width")?];
        let turned = match orientation.filter(|column| column.is_in(&shard)) {
            Some(column) => column.length(&shard, record).unwrap_or(1),
            None => orientation_inside(&lent.dataset, index, of.source())?,
        };
        let source = if (5..=8).contains(&turned) { [stored[1], stored[0]] } else { stored };
        let key = picture.key(lent.draw_key(index, of_plan));
        let view = of_boxes(lent, index, picture, source, &key, &mut decoder)?;
        let crop = view.resolve(source[1], source[0], &key).map_err(|error| named(&shard, record, error))?;
        Ok(Some(Shown { source, crop }))
    };
    plan.indices.iter().zip(&plan.rows).enumerate().map(row).collect()
}

/// Returns the view of an upright picture of size `source`, with its part drawn if the view depends on boxes.
fn of_boxes(
    lent: &Lent,
    index: u64,
    picture: &PictureField,
    source: [u32; 2],
    key: &DrawKey,
    decoder: &mut ArrayDecoder,
) -> Result<View> {
    let Some(of) = picture.boxes else { return Ok(picture.view) };
    let Some(plan) = lent.fields.objects.iter().find(|plan| plan.position == of.position) else {
        bug("the boxes of a view are not loaded")
    };
    let sample = lent.dataset.get(index)?;
    let value = sample.field(&plan.name)?;
    let boxes = stored_boxes(value.as_ref(), of, source, decoder, lent.dataset.limits())?;
    Ok(picture.view.of_boxes(source[1], source[0], key, &boxes)?)
}

fn orientation_inside(dataset: &Dataset, index: u64, field: &str) -> Result<u64> {
    let sample = dataset.get(index)?;
    let value = sample.field(field)?;
    Ok(value.map_or(1, |value| {
        u64::from(shardpack_reader::raw::orientation(None, value.codec == Codec::Jpeg, value.bytes))
    }))
}

fn named(shard: &Shard, record: u64, error: shardpack_format::Error) -> Error {
    shard.in_record(record, error).into()
}
