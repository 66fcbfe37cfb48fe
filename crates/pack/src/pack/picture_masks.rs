//! Masks of pictures: read, brought to the size of the stored picture, encoded.

use super::stored_value::StoredValue;
use super::tries::{mask_file_options, ratio};
use super::{PackOptions, SampleError};
use shardpack_array::{Array, ArrayEncoder, Trial};
use shardpack_format::visible_path;
use shardpack_format::{Error, Result, to_usize};
use shardpack_sources::cubes::{CubeOptions, CubeRun, load_mask};
use shardpack_sources::{Listing, SourceSample};

/// How the masks of the pictures of a listing are stored.
pub(super) struct PictureMasks {
    trial: Trial,
    files: CubeOptions,
}

impl PictureMasks {
    pub(super) fn new(trial: Trial, options: &PackOptions) -> Self {
        let run = CubeRun::within(options.source.files.clone(), options.source.cancel.clone());
        Self { trial, files: CubeOptions { run, ..mask_file_options(&options.source.cubes) } }
    }

    pub(super) const fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Whether the user stopped the run, which is no fault of a mask.
    pub(super) fn is_cancelled(&self) -> bool {
        self.files.run.is_cancelled()
    }

    /// Estimated size of a stored mask, which is taken to have a byte for each pixel.
    pub(super) fn estimate(&self, entry: &SourceSample) -> u64 {
        let (stored, source) = ratio(Some(&self.trial));
        // Integers only: the plan must be the same on every machine.
        let bytes = u128::from(pixels(entry)) * u128::from(stored) / u128::from(source);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The mask of a sample, if it has one, for a stored picture of this height and width, upright.
    /// `encoder` is a thread's own.
    pub(super) fn encode(
        &self,
        encoder: &mut Option<ArrayEncoder>,
        listing: &Listing,
        entry: &SourceSample,
        size: [u32; 2],
    ) -> std::result::Result<Option<StoredValue>, SampleError> {
        let Some(file) = &entry.mask else { return Ok(None) };
        let mask = load_mask(&file.path, &self.files)?;
        listing.check_unchanged(entry)?;
        let ([height, width], _) = entry.content.mask_size();
        if mask.array.shape() != [height, width] {
            let found = mask.array.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
            return Err(SampleError::Mask { mask: visible_path(&file.path), height, width, found });
        }
        let array = resized(mask.array, size)?;
        if encoder.is_none() {
            *encoder = Some(ArrayEncoder::new(self.trial.settings)?);
        }
        let Some(encoder) = encoder else { return Ok(None) };
        Ok(Some(StoredValue::array(encoder.encode(&array, mask.no_data)?)?))
    }
}

/// The memory that a mask takes: as loaded and as stored, of two bytes for each pixel.
pub(super) fn memory_bytes(entry: &SourceSample) -> u64 {
    entry.mask.as_ref().map_or(0, |mask| mask.bytes.max(pixels(entry).saturating_mul(2)).saturating_mul(2))
}

fn pixels(entry: &SourceSample) -> u64 {
    let ([height, width], _) = entry.content.mask_size();
    height.saturating_mul(width)
}

/// A mask for a picture that was shrunk: for each pixel the label at its centre, as the loader
/// takes it for a view.
fn resized(mask: Array, size: [u32; 2]) -> Result<Array> {
    let size = size.map(u64::from);
    let &[height, width] = mask.shape() else {
        return Err(Error::internal("axes of a mask", 2, mask.shape().len()));
    };
    if size == [height, width] {
        return Ok(mask);
    }
    let (dtype, [rows, columns]) = (mask.dtype(), size);
    let element = dtype.size();
    // The centre of pixel i lies at (i + 1/2) · from / to: in integers, exactly.
    let centre = |i: u64, from: u64, to: u64| (2 * i + 1) * from / (2 * to.max(1));
    let mut out = Vec::with_capacity(usize::try_from(dtype.array_bytes(&size)?).unwrap_or(0));
    for row in 0..rows {
        let start = centre(row, height, rows) * width;
        for column in 0..columns {
            let at = to_usize(start + centre(column, width, columns));
            let at = at.saturating_mul(element);
            let label = mask.bytes().get(at..at.saturating_add(element));
            out.extend(label.ok_or_else(|| Error::internal("label of a mask", mask.bytes().len(), at))?);
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
