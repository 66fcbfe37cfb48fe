//! Packs the pictures and clips of a listing, with their masks.

use super::fields::FolderFields;
use super::masks::FolderMasks;
use super::options::PackOptions;
use super::picture_sizes::{PictureSizes, refuse_huge};
use super::workspace::{SampleFigures, Workspace};
use crate::encode::{
    FidelityTotals, FrameFile, PackedPicture, PictureChecks, PictureColumns, PictureRecorder, RecordDraft, SampleError,
};
use shardpack_array::Array;
use shardpack_format::{Result, Schema, bug, to_usize};
use shardpack_sources::cubes::CubeRun;
use shardpack_sources::pictures::probe_picture;
use shardpack_sources::{Listing, SourceSample};

pub(super) struct Pictures<'a> {
    listing: &'a Listing,
    field: PictureRecorder,
    masks: Option<FolderMasks<'a>>,
    sizes: PictureSizes<'a>,
}

impl<'a> Pictures<'a> {
    pub(super) fn new(
        listing: &'a Listing,
        options: &'a PackOptions,
        fields: &FolderFields,
        schema: &Schema,
        run: &CubeRun,
    ) -> crate::Result<Self> {
        if !options.pictures.keeps_files() && !options.skips() {
            refuse_huge(listing)?;
        }
        let columns = PictureColumns {
            is_described: true,
            takes_profile: fields.has_profiles,
            has_frames: listing.is_of_clips(),
            has_segments: fields.has_segments,
        };
        Ok(Self {
            listing,
            field: PictureRecorder::new(schema, "image", columns, &options.pictures)?,
            masks: FolderMasks::new(listing, options, fields, schema, run)?,
            sizes: PictureSizes::new(listing, &options.pictures)?,
        })
    }

    pub(super) fn estimate(&self, entry: &SourceSample) -> u64 {
        // Assume one byte per pixel of a mask.
        let mask = self.masks.as_ref().map_or(0, |masks| masks.stored_bytes(pixels(entry)));
        self.sizes.estimate(entry).saturating_add(mask)
    }

    /// Returns the memory for a sample. Assumes two bytes per pixel of a mask, and counts the mask twice, as
    /// loaded and as stored.
    pub(super) fn memory_bytes(&self, sample: u64, entry: &SourceSample) -> u64 {
        let mask = |bytes: u64| bytes.max(pixels(entry).saturating_mul(2)).saturating_mul(2);
        let mask = entry.mask.as_ref().map_or(0, |file| mask(file.bytes));
        self.sizes.memory_bytes(entry, self.checks(sample)).saturating_add(mask)
    }

    fn checks(&self, sample: u64) -> PictureChecks {
        let (count, options) = (self.listing.samples.len() as u64, self.field.options());
        PictureChecks { pixels: options.checked().takes(sample, count), score: options.scored().takes(sample, count) }
    }

    pub(super) fn put<'b>(
        &self,
        workspace: &'b mut Workspace,
        sample: u64,
        entry: &SourceSample,
        draft: &mut RecordDraft<'b>,
    ) -> Result<SampleFigures, SampleError> {
        let Some(info) = entry.content.picture() else {
            bug("a cube in a listing of pictures");
        };
        let Workspace { picture: encoder, file, mask, .. } = workspace;
        let checks = self.checks(sample);
        let clip = self.field.put_clip(encoder, self.frames(entry), checks, draft)?;
        let PackedPicture { size, figures, note, oddity, .. } = match clip {
            Some(clip) => clip,
            None => {
                file.resize(to_usize(entry.bytes), 0);
                self.listing.read_into(entry, file)?;
                self.field.put_file(encoder, file, info, checks, draft)?
            }
        };
        if let Some(masks) = &self.masks {
            let (upright, _) = entry.content.mask_size();
            masks.put(mask, entry, upright, |mask| Ok(resized(mask, size)?), draft)?;
        }
        let options = self.field.options();
        let totals = match options.keeps_files() {
            true => FidelityTotals::default(),
            false => FidelityTotals::of_picture("image", note.totals(&entry.key, &figures, options)),
        };
        Ok(SampleFigures { totals, oddity })
    }

    fn frames(&self, entry: &SourceSample) -> impl Iterator<Item = Result<FrameFile<'static>, SampleError>> {
        entry.frames.iter().enumerate().map(|(number, frame)| {
            let mut bytes = vec![0; to_usize(frame.bytes)];
            self.listing.read_frame(frame, &mut bytes)?;
            let info = probe_picture(&bytes).ok().flatten().filter(|picture| picture.jpeg.is_some());
            let other = || SampleError::Frame { number, text: "the file is not a JPEG".to_owned() };
            Ok(FrameFile { info: info.ok_or_else(other)?, bytes: bytes.into() })
        })
    }
}

fn pixels(entry: &SourceSample) -> u64 {
    let ([height, width], _) = entry.content.mask_size();
    height.saturating_mul(width)
}

/// Shrinks the mask of a shrunk picture. Each pixel gets the label at its centre, as in the loader's views.
fn resized(mask: Array, size: [u32; 2]) -> Result<Array> {
    let size = size.map(u64::from);
    let &[height, width] = mask.shape() else { bug("a mask without two axes") };
    if size == [height, width] {
        return Ok(mask);
    }
    let (dtype, [rows, columns]) = (mask.dtype(), size);
    let element = dtype.size();
    // The centre of pixel i is at (i + 1/2) · from / to, computed exactly in integers.
    let centre = |i: u64, from: u64, to: u64| (2 * i + 1) * from / (2 * to.max(1));
    let mut out = Vec::with_capacity(usize::try_from(dtype.array_bytes(&size)?).unwrap_or(0));
    for row in 0..rows {
        let start = centre(row, height, rows) * width;
        for column in 0..columns {
            let at = to_usize(start + centre(column, width, columns));
            let at = at.saturating_mul(element);
            let Some(label) = mask.bytes().get(at..at.saturating_add(element)) else {
                bug("a pixel outside of its mask")
            };
            out.extend(label);
        }
    }
    Array::new(dtype, size.to_vec(), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

    #[test]
    fn a_smaller_mask_has_the_labels_at_the_centres_of_its_pixels() {
        let mask = Array::new(Dtype::U8, vec![4, 6], (0..24).collect()).unwrap();
        assert_eq!(resized(mask.clone(), [4, 6]).unwrap(), mask);
        let half = resized(mask.clone(), [2, 3]).unwrap();
        assert_eq!((half.shape(), half.bytes()), (&[2, 3][..], &[7, 9, 11, 19, 21, 23][..]));
        assert_eq!(resized(mask, [1, 2]).unwrap().bytes(), [13, 16]);
        let wide = Array::new(Dtype::U16, vec![1, 2], vec![1, 0, 2, 0]).unwrap();
        assert_eq!(resized(wide, [2, 4]).unwrap().bytes(), [1, 0, 1, 0, 2, 0, 2, 0].repeat(2));
    }
}
