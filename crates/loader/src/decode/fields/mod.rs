//! Field decoders. Each type of field has its own file. A decoder decodes values on the host, requests them from a
//! stage, decodes several patches of one value together, and cuts large values into parts.
//!
//! A new type needs a variant of [`FieldType`], a file here, and a line in [`decoder`].

mod array;
mod column;
mod mask;
mod one_hot;
mod picture;
mod raw;
mod volume;

pub(crate) use array::{image_axes, is_made_of_others, layout, whole_scratch_bytes};
pub(crate) use mask::instances;
pub(crate) use picture::set_row_size;

use super::cuts::{Cuts, LargeValue};
use super::record::RowField;
use super::tools::Tools;
use crate::fields::FieldType;
use crate::sample::SampleAt;
use crate::stage::{ArrayValue, PictureElements, Prepared, RecordValue, Spot, StageSlot};
use crate::supply::{MadeField, ResidentValue, Scene, SceneField};
use shardpack_array::{Finish, ZstdDecoder};
use shardpack_format::{FieldValue, Result};

pub(crate) trait FieldDecoder: Send {
    /// Decodes a value on the host and fills all of `out`. For a ragged row, `dims` contains the axis lengths from
    /// the index. The method corrects them if the value has other lengths. Returns false and writes nothing if the
    /// sample has no value.
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool>;

    /// Returns how levels are converted to the elements of a row, or `None` if rows are not computed from levels.
    fn elements(&self, of: &RowField<'_>) -> Option<PictureElements> {
        let _ = of;
        None
    }

    /// Same as [`decode`](Self::decode), but writes the levels from which the row is computed.
    fn decode_levels(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<bool> {
        self.decode(tools, of, out, dims)
    }

    /// Passes a value to a stage. Returns `None` if the sample has no value.
    fn prepare(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        dims: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let _ = (tools, of, dims, to);
        Ok(Some(Prepared::Refused("the value is neither a picture nor an array".into())))
    }

    /// Lets the stage inspect a value before several patches of it are requested.
    fn announce(&mut self, tools: &mut Tools, of: &RowField<'_>) {
        let _ = (tools, of);
    }

    /// Returns true if the caller must fill the row with zeros when the sample has no value. Returns false if `decode`
    /// has already written a placeholder.
    fn is_zero_if_missing(&self) -> bool {
        true
    }

    /// Decodes one patch of a value for each of `draws` into `scene`, and sets the positions of the patches. If the
    /// scene is kept whole, returns the whole value instead.
    fn decode_scene(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        draws: &[SampleAt],
        scene: &mut Scene,
    ) -> Result<SceneField> {
        let _ = (tools, of, draws, scene);
        Ok(SceneField::FromIndex)
    }

    /// Returns the size in bytes of a whole decoded value from which patches are cut, or `None` if the value cannot
    /// be kept whole.
    fn whole_bytes(&mut self, tools: &mut Tools, of: &RowField<'_>) -> Result<Option<u64>> {
        let _ = (tools, of);
        Ok(Some(0))
    }

    /// Cuts a large value into parts and adds them to `cuts`. Returns `None` if the record must be read whole.
    fn cut(&mut self, tools: &mut Tools, value: &LargeValue<'_>, cuts: &mut Cuts) -> Option<MadeField> {
        let _ = (tools, value, cuts);
        Some(MadeField::Kept)
    }
}

pub(crate) struct StageTarget<'a> {
    pub(crate) slot: &'a dyn StageSlot,
    pub(crate) spot: &'a Spot,
    pub(crate) zstd: &'a mut ZstdDecoder,
    /// The value on the device, if the device already has it.
    pub(crate) resident: Option<ResidentValue>,
}

impl StageTarget<'_> {
    /// Returns the form of an array that the device already has. It has no bytes.
    fn resident_form<'a>(&self, of: &RowField<'a>) -> Option<FieldValue<'a>> {
        let all = of.recipe().resident.as_ref()?;
        Some(all.form(self.resident?.detail).value())
    }

    fn prepare_array(&mut self, of: &RowField<'_>, array: ArrayValue<'_>, finish: &Finish) -> Result<Prepared> {
        let noise = of.recipe().noise(of.field, of.at())?;
        let memo = if self.resident.is_some() { None } else { of.memo() };
        Ok(self.prepare(of, &RecordValue::Array { array, finish, noise, memo }))
    }

    fn prepare(&mut self, of: &RowField<'_>, value: &RecordValue<'_>) -> Prepared {
        match (self.resident, of.staged()) {
            (Some(resident), _) => self.slot.prepare_kept(self.spot, resident.number, value, self.zstd),
            (None, Some(staged)) => staged.room.prepare(value, self.zstd),
            (None, None) => self.slot.prepare(self.spot, value, self.zstd),
        }
    }
}

pub(crate) fn decoder(field: &FieldType) -> Box<dyn FieldDecoder> {
    match field {
        FieldType::Scalar(column) => Box::new(column::ColumnDecoder(*column)),
        FieldType::OneHot(field) => Box::new(one_hot::OneHotDecoder(*field)),
        FieldType::Picture(field) => Box::new(picture::PictureFieldDecoder(field.clone())),
        FieldType::Array(field) => Box::new(array::ArrayFieldDecoder::new(field)),
        FieldType::Volume(field) => Box::new(volume::VolumeDecoder((**field).clone())),
        FieldType::Mask(field) => Box::new(mask::MaskDecoder::new(field)),
        FieldType::Raw(field) => Box::new(raw::RawDecoder(*field)),
    }
}
