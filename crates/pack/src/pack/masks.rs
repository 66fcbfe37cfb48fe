//! Reads and encodes the masks of a listing along with their pictures or cubes.

use super::fields::FolderFields;
use super::options::PackOptions;
use super::trials::{mask_file_options, stored_bytes};
use crate::encode::{ArrayRecorder, ArrayWorkspace, RecordDraft, SampleError};
use shardpack_array::{Array, Trial};
use shardpack_format::{Result, Schema, visible_path};
use shardpack_sources::cubes::{CubeOptions, CubeRun, load_mask};
use shardpack_sources::{Listing, SourceSample};

pub(super) struct FolderMasks<'a> {
    listing: &'a Listing,
    field: ArrayRecorder,
    trial: Trial,
    files: CubeOptions,
}

impl<'a> FolderMasks<'a> {
    pub(super) fn new(
        listing: &'a Listing,
        options: &PackOptions,
        fields: &FolderFields,
        schema: &Schema,
        run: &CubeRun,
    ) -> Result<Option<Self>> {
        let Some(trial) = fields.trial("mask").cloned() else { return Ok(None) };
        let field = ArrayRecorder::new(schema, "mask", None, false)?;
        let files = CubeOptions { run: run.clone(), ..mask_file_options(&options.source.cubes) };
        Ok(Some(Self { listing, field, trial, files }))
    }

    pub(super) fn stored_bytes(&self, file_bytes: u64) -> u64 {
        stored_bytes(file_bytes, Some(&self.trial))
    }

    /// Adds a sample's mask, if any, to the record. The mask must have the sample's height and
    /// width. `change` scales it to the size of the stored picture.
    pub(super) fn put(
        &self,
        workspace: &mut ArrayWorkspace,
        entry: &SourceSample,
        [height, width]: [u64; 2],
        change: impl FnOnce(Array) -> Result<Array, SampleError>,
        draft: &mut RecordDraft<'_>,
    ) -> Result<(), SampleError> {
        let Some(file) = &entry.mask else { return Ok(()) };
        let mask = load_mask(&file.path, &self.files)?;
        self.listing.check_unchanged(entry)?;
        if mask.array.shape() != [height, width] {
            let found = mask.array.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
            return Err(SampleError::Mask { mask: visible_path(&file.path), height, width, found });
        }
        let array = change(mask.array)?;
        self.field.put(workspace, self.trial.settings, &array, mask.no_data, draft)?;
        Ok(())
    }
}
