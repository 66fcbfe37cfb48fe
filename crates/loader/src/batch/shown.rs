//! Returns which part of a picture each row shows, and how it was changed. Callers use this to map predictions back to
//! the picture.

use super::Batch;
use crate::fields::{Col, FieldType, PictureField};
use shardpack_format::Codec;
use shardpack_jpeg::{Crop, DrawKey};
use shardpack_reader::{Error, Result, Shard};

/// The part of a picture that a row shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    /// Height and width of the whole upright picture, in pixels.
    pub source: [u32; 2],
    /// The visible part, in pixels of the whole picture, and how it was changed. If the view is padded, use
    /// [`Crop::covered`] to map predictions back: it is the area that the row covers including its borders.
    pub crop: Crop,
}

impl Batch {
    /// Returns the part of the picture that each row shows; `None` for padding and for rows without a
    /// picture. Sizes come from the index. Records are read only if the orientations are stored nowhere but
    /// in the pictures.
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
        let plan = self.fields_of_loader().plans.iter().find(|plan| plan.name == field);
        let Some((plan, FieldType::Picture(picture @ PictureField { view, orientation, .. }))) =
            plan.map(|plan| (plan, &plan.kind))
        else {
            return Err(Error::usage(format!(
                "field `{}` has no views: only decoded pictures have views",
                field.escape_debug()
            )));
        };
        let schema = self.dataset().schema();
        let (Some(height), Some(width)) = (Col::find(schema, "height"), Col::find(schema, "width")) else {
            return Err(Error::usage(
                "views of a batch need the scalar fields `height` and `width`, which the dataset lacks",
            ));
        };
        let present: Vec<bool> = self.field(field).map(|tensor| tensor.mask().collect()).unwrap_or_default();
        let row = |(&index, (key, present)): (&u64, (DrawKey, bool))| {
            if !present {
                return Ok(None);
            }
            let (number, record) = self.dataset().locate(index)?;
            let shard = self.dataset().shard(number)?;
            let side = |column: &Col| {
                let side = column.length(&shard, record).and_then(|side| u32::try_from(side).ok());
                side.ok_or_else(|| Error::usage("the index has no valid height or width for a picture"))
            };
            let stored = [side(&height)?, side(&width)?];
            let turned = match orientation.filter(|column| column.is_in(&shard)) {
                Some(column) => column.length(&shard, record).unwrap_or(1),
                None => self.orientation_inside(index, plan.source())?,
            };
            let source = if (5..=8).contains(&turned) { [stored[1], stored[0]] } else { stored };
            let crop =
                view.resolve(source[1], source[0], &picture.key(key)).map_err(|error| named(&shard, record, error))?;
            Ok(Some(Shown { source, crop }))
        };
        self.indices().iter().zip(self.draw_keys().zip(present)).map(row).collect()
    }

    fn orientation_inside(&self, index: u64, field: &str) -> Result<u64> {
        let sample = self.dataset().get(index)?;
        let value = sample.field(field)?;
        Ok(value.map_or(1, |value| {
            u64::from(shardpack_reader::raw::orientation(None, value.codec == Codec::Jpeg, value.bytes))
        }))
    }
}

fn named(shard: &Shard, record: u64, error: shardpack_format::Error) -> Error {
    shard.in_record(record, error).into()
}
