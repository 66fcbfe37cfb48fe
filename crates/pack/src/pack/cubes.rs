//! Packs the cubes of a listing, with their masks and metadata.

use super::fields::FolderFields;
use super::masks::FolderMasks;
use super::options::PackOptions;
use super::trials::stored_bytes;
use super::workspace::{SampleFigures, Workspace};
use crate::encode::fidelity::Totals;
use crate::encode::{ArrayRecorder, FidelityTotals, RecordDraft, SampleError, StoredValue};
use serde_json::Value;
use shardpack_array::{ArrayLayout, ArraySource, Trial};
use shardpack_format::{Schema, bug};
use shardpack_sources::cubes::{CubeOptions, CubeRun, CubeValues, OpenCube, open};
use shardpack_sources::unpacked::read_meta;
use shardpack_sources::{Listing, SourceSample};

/// Estimated size of a record without its payloads, in bytes: frame, head, metadata and padding.
const OVERHEAD_BYTES: u64 = 2048;

/// Memory per thread that does not depend on the sample: a unit of stored elements, a block of the file, and
/// coder tables.
const SCRATCH_BYTES: u64 = 6 << 20;

pub(super) struct Cubes<'a> {
    listing: &'a Listing,
    files: CubeOptions,
    field: ArrayRecorder,
    trial: Trial,
    masks: Option<FolderMasks<'a>>,
    meta: usize,
}

impl<'a> Cubes<'a> {
    pub(super) fn new(
        listing: &'a Listing,
        options: &PackOptions,
        fields: &FolderFields,
        schema: &Schema,
        run: &CubeRun,
    ) -> crate::Result<Self> {
        let (Some(trial), Some(meta)) = (fields.trial("cube"), schema.stored_position("meta")) else {
            bug("a dataset of cubes without their fields")
        };
        Ok(Self {
            listing,
            files: CubeOptions { run: run.clone(), ..options.source.cubes.clone() },
            field: ArrayRecorder::new(schema, "cube", Some(3), true)?,
            trial: trial.clone(),
            masks: FolderMasks::new(listing, options, fields, schema, run)?,
            meta,
        })
    }

    /// Estimates the size of a sample's record from the trial's compression ratios.
    pub(super) fn estimate(&self, entry: &SourceSample) -> u64 {
        let mask = |masks: &FolderMasks<'_>| entry.mask.as_ref().map_or(0, |file| masks.stored_bytes(file.bytes));
        stored_bytes(array_bytes(entry), Some(&self.trial)).saturating_add(self.masks.as_ref().map_or(0, mask))
            + OVERHEAD_BYTES
    }

    /// Returns the memory needed for a sample. This is the sum of:
    ///
    /// - the record, which is at most as large as the cube
    /// - the cube and its source bytes, unless they are read in blocks
    /// - the rearranged elements, if any
    /// - the mask, both as loaded and as stored
    pub(super) fn memory_bytes(&self, entry: &SourceSample) -> u64 {
        let cube = array_bytes(entry);
        let in_file = entry.content.cube().is_some_and(|info| info.in_file);
        let loaded = if in_file { 0 } else { cube.saturating_add(entry.bytes) };
        let rearranged = if self.trial.settings.layout == ArrayLayout::BandMajor { cube } else { 0 };
        let mask = entry.mask.as_ref().map_or(0, |mask| mask.bytes.saturating_mul(2));
        [loaded, rearranged, mask, SCRATCH_BYTES].into_iter().fold(cube, u64::saturating_add)
    }

    pub(super) fn put(
        &self,
        workspace: &mut Workspace,
        entry: &SourceSample,
        draft: &mut RecordDraft<'_>,
    ) -> Result<SampleFigures, SampleError> {
        let cube = self.load(entry, std::mem::take(&mut workspace.array))?;
        self.put_loaded(workspace, cube, entry, draft)
    }

    pub(super) fn load(&self, entry: &SourceSample, spare: Vec<u8>) -> Result<OpenCube, SampleError> {
        self.listing.check_unchanged(entry)?;
        let mut cube = open(&self.listing.path(entry), &self.files, spare)?;
        if let Some(file) = &entry.meta {
            let beside = read_meta(&file.path, &self.listing.files).map_err(|flaw| SampleError::Meta(flaw.detail))?;
            beside.into_iter().for_each(|(name, value)| _ = cube.meta.entry(name).or_insert(value));
        }
        self.listing.check_unchanged(entry)?;
        Ok(cube)
    }

    pub(super) fn put_loaded(
        &self,
        workspace: &mut Workspace,
        cube: OpenCube,
        entry: &SourceSample,
        draft: &mut RecordDraft<'_>,
    ) -> Result<SampleFigures, SampleError> {
        let OpenCube { values: cube, no_data, meta } = cube;
        if let Some(masks) = &self.masks {
            let size = if let [height, width, _] = *cube.shape() { [height, width] } else { [0, 0] };
            masks.put(&mut workspace.mask, entry, size, Ok, draft)?;
        }
        if !meta.is_empty() {
            draft.set(self.meta, StoredValue::bytes(Value::Object(meta).to_string().as_bytes())?);
        }
        let settings = self.trial.settings;
        let encoded = self.field.put_first(&mut workspace.cube, settings, &cube, no_data, &entry.key, draft);
        // Treat a file that was replaced or truncated during reading as changed. That is an error
        // even if bad input is skipped.
        if encoded.is_err() || matches!(cube, CubeValues::InFile(_)) {
            self.listing.check_unchanged(entry)?;
        }
        let figures = encoded?;
        if let CubeValues::InMemory(array) = cube {
            workspace.array = array.into_bytes();
        }
        Ok(SampleFigures { totals: FidelityTotals::of_array("cube", Totals::of(&entry.key, figures)), oddity: None })
    }
}

fn array_bytes(entry: &SourceSample) -> u64 {
    entry.content.cube().map_or(entry.bytes, |info| info.array_bytes)
}
