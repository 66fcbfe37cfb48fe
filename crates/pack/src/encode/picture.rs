//! Adds pictures and clips to a record.

use super::clip::{ClipDraft, FrameFile};
use super::fidelity::no_columns;
use super::picture_encoder::{PictureChecks, PictureEncoder, PictureFields, PictureNote, RawPicture, StoredPicture};
use super::picture_figures::{self, PictureFigures, ReencodedFigures};
use super::record::{Columns, RecordDraft, StoredValue};
use super::sample_error::SampleError;
use serde::Serialize;
use shardpack_format::{Dtype, Error, Field, Result, Schema};
use shardpack_recipe::PictureOptions;
use shardpack_sources::pictures::PictureInfo;

/// A picture with an oddity that decoders ignore and that does not affect its pixels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OddPicture {
    /// Key of the picture's sample.
    pub key: String,
    /// Description of the oddity.
    pub what: String,
}

/// Storage options of a picture or clip field, and the positions of its columns in a record.
#[derive(Debug)]
pub(crate) struct PictureRecorder {
    options: PictureOptions,
    value: usize,
    size: Option<Columns>,
    /// True if the colour profile is stored in a separate field.
    takes_profile: bool,
    profile: Option<usize>,
    segments: Option<usize>,
    frames: Option<Columns>,
    figures: Option<Columns>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PictureColumns {
    /// True if the size columns describe this field.
    pub(crate) is_described: bool,
    pub(crate) takes_profile: bool,
    pub(crate) has_frames: bool,
    pub(crate) has_segments: bool,
}

pub(crate) struct PackedPicture {
    /// Height and width of the stored picture when upright.
    pub(crate) size: [u32; 2],
    pub(crate) has_profile: bool,
    pub(crate) figures: PictureFigures,
    pub(crate) note: PictureNote,
    pub(crate) oddity: Option<String>,
}

impl PictureRecorder {
    pub(crate) const PROFILE: &str = "icc";

    /// Columns that describe the only picture of a sample.
    pub(crate) const SIZE: [(&str, Dtype); 4] =
        [("height", Dtype::U32), ("width", Dtype::U32), ("orientation", Dtype::U8), ("gpu_jpeg", Dtype::Bool)];

    pub(crate) fn size_columns() -> Vec<Field> {
        Self::SIZE.map(|(name, dtype)| Field::scalar(name, dtype)).to_vec()
    }

    pub(crate) fn frames_column(name: &str) -> Field {
        Field::scalar(format!("{name}.frames"), Dtype::U32)
    }

    /// Returns the figure columns of the field `name`. There are none if all pictures keep their original bytes.
    pub(crate) fn figure_columns(name: &str, options: &PictureOptions) -> Vec<Field> {
        if options.keeps_files() { Vec::new() } else { picture_figures::fields(name, options.reencodes()) }
    }

    pub(crate) fn new(schema: &Schema, name: &str, columns: PictureColumns, options: &PictureOptions) -> Result<Self> {
        let PictureColumns { is_described, takes_profile, has_frames, has_segments } = columns;
        let lacks = || no_columns(schema, name);
        let of = |fields: &[Field]| Columns::of(schema, fields).ok_or_else(lacks);
        let figures = Self::figure_columns(name, options);
        let value = schema.stored_position(name).ok_or_else(lacks)?;
        Ok(Self {
            value,
            size: is_described.then(|| of(&Self::size_columns())).transpose()?,
            takes_profile,
            profile: takes_profile.then(|| schema.stored_position(Self::PROFILE)).flatten(),
            segments: has_segments.then(|| schema.segments_position(value).ok_or_else(lacks)).transpose()?,
            frames: has_frames.then(|| of(&[Self::frames_column(name)])).transpose()?,
            figures: (!figures.is_empty()).then(|| of(&figures)).transpose()?,
            options: options.clone(),
        })
    }

    pub(crate) const fn options(&self) -> &PictureOptions {
        &self.options
    }

    pub(crate) const fn has_profile(&self) -> bool {
        self.profile.is_some()
    }

    const fn fields(&self) -> PictureFields {
        PictureFields { icc: self.takes_profile, segments: self.segments.is_some() }
    }

    pub(crate) fn put_file<'b>(
        &self,
        encoder: &'b mut PictureEncoder,
        source: &'b [u8],
        info: &PictureInfo,
        checks: PictureChecks,
        draft: &mut RecordDraft<'b>,
    ) -> Result<PackedPicture, SampleError> {
        let stored = encoder.encode(source, info, &self.options, self.fields(), checks)?;
        self.put(stored, 0, draft)
    }

    pub(crate) fn put_pixels<'b>(
        &self,
        encoder: &'b mut PictureEncoder,
        pixels: RawPicture<'_>,
        checks: PictureChecks,
        draft: &mut RecordDraft<'b>,
    ) -> Result<PackedPicture, SampleError> {
        let stored = encoder.encode_pixels(pixels, &self.options, checks)?;
        self.put(stored, 0, draft)
    }

    /// Adds a clip of these frames to a record. Without frames, the field stays empty.
    pub(crate) fn put_clip<'f, E: From<SampleError>>(
        &self,
        encoder: &mut PictureEncoder,
        frames: impl Iterator<Item = Result<FrameFile<'f>, E>>,
        checks: PictureChecks,
        draft: &mut RecordDraft<'_>,
    ) -> Result<Option<PackedPicture>, E> {
        let (mut clip, mut count) = (None::<ClipDraft>, 0);
        for frame in frames {
            let FrameFile { bytes, info } = frame?;
            let stored = encoder.encode(&bytes, &info, &self.options, self.fields(), checks)?;
            match &mut clip {
                Some(clip) => clip.add(stored)?,
                none => *none = Some(ClipDraft::new(stored)),
            }
            count += 1;
        }
        let Some(clip) = clip else { return Ok(None) };
        Ok(Some(self.put(clip.finish()?, count, draft)?))
    }

    fn put<'b>(
        &self,
        stored: StoredPicture<'b>,
        frames: usize,
        draft: &mut RecordDraft<'b>,
    ) -> Result<PackedPicture, SampleError> {
        let StoredPicture { bytes, width, height, orientation, gpu_jpeg, icc, segments, figures, .. } = stored;
        self.set_size([height, width], orientation, gpu_jpeg, draft);
        if let Some(column) = &self.frames {
            let too_many = |_| Error::usage(format!("the clip has {frames} frames, but at most 2^32 - 1 are allowed"));
            draft.set_scalars(column, &u32::try_from(frames).map_err(too_many)?.to_le_bytes());
        }
        self.set_figures(&figures, draft);
        if let (Some(position), Some(icc)) = (self.profile, &icc) {
            draft.set(position, StoredValue::bytes(icc)?);
        }
        if let (Some(position), Some(segments)) = (self.segments, segments) {
            draft.set(position, StoredValue::raw(segments));
        }
        draft.set(self.value, StoredValue::picture(bytes, stored.media_type));
        let size = if orientation > 4 { [width, height] } else { [height, width] };
        Ok(PackedPicture { size, has_profile: icc.is_some(), figures, note: stored.note, oddity: stored.oddity })
    }

    pub(crate) fn put_none(&self, draft: &mut RecordDraft<'_>) {
        self.set_size([0, 0], 1, false, draft);
        let reencoded = self.options.reencodes().then_some(ReencodedFigures::NONE);
        let none = PictureFigures { source_bytes: 0, tiles_per_row: 0, pixels_checked: false, reencoded };
        self.set_figures(&none, draft);
    }

    fn set_size(&self, size: [u32; 2], orientation: u8, gpu_jpeg: bool, draft: &mut RecordDraft<'_>) {
        if let Some(columns) = &self.size {
            let mut packed = size.map(u32::to_le_bytes).concat();
            packed.extend([orientation, u8::from(gpu_jpeg)]);
            draft.set_scalars(columns, &packed);
        }
    }

    fn set_figures(&self, figures: &PictureFigures, draft: &mut RecordDraft<'_>) {
        if let Some(columns) = &self.figures {
            let mut packed = Vec::new();
            figures.append(&mut packed);
            draft.set_scalars(columns, &packed);
        }
    }
}
