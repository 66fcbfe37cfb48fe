//! Encodes the samples of a listing as records, for the writer, a report or a forecast.

use super::cubes::Cubes;
use super::fields::FolderFields;
use super::options::PackOptions;
use super::pictures::Pictures;
use super::tables::{self, TablePlaces};
use super::workspace::{SampleFigures, Workspace};
use crate::encode::{FidelityTotals, OddPicture, RecordDraft, RecordNumber, SampleError};
use crate::lock::lock;
use shardpack_array::ArraySettings;
use shardpack_format::{Explain as _, FOOTER_BYTES, HEADER_BYTES, Hint, IndexBuilder, Metadata, Note, Schema, bug};
use shardpack_sources::cubes::CubeRun;
use shardpack_sources::words::plural;
use shardpack_sources::{Listing, SourceKind, SourceSample};
use shardpack_writer::{Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource};
use std::borrow::Cow;
use std::sync::Mutex;

pub(crate) struct FolderSource<'a> {
    listing: &'a Listing,
    options: &'a PackOptions,
    fields: FolderFields,
    schema: Schema,
    table: TablePlaces,
    samples: FolderSamples<'a>,
    run: CubeRun,
    idle: Mutex<Vec<Workspace>>,
    odd: Mutex<Vec<OddPicture>>,
    unfit: Mutex<UnfitSamples>,
}

enum FolderSamples<'a> {
    Pictures(Pictures<'a>),
    Cubes(Cubes<'a>),
}

#[derive(Default)]
struct UnfitSamples {
    count: u64,
    what: Option<&'static str>,
    hint: Option<Hint>,
}

impl<'a> FolderSource<'a> {
    /// Opens a listing and determines its fields as in packing, on the caller's rayon pool.
    pub(crate) fn open(listing: &'a Listing, options: &'a PackOptions) -> crate::Result<Self> {
        options.arrays.check()?;
        Self::new(listing, options, FolderFields::of(listing, options)?)
    }

    /// Like `open`, but uses the caller's fields. Re-encodes a few pictures to estimate stored
    /// sizes.
    pub(crate) fn new(listing: &'a Listing, options: &'a PackOptions, fields: FolderFields) -> crate::Result<Self> {
        let schema = fields.metadata_with(listing, options, shardpack_format::Recipe::new())?.schema;
        let run = CubeRun::within(options.source.files.clone(), options.source.cancel.clone());
        let samples = match listing.kind {
            SourceKind::Images => FolderSamples::Pictures(Pictures::new(listing, options, &fields, &schema, &run)?),
            SourceKind::Cubes => FolderSamples::Cubes(Cubes::new(listing, options, &fields, &schema, &run)?),
        };
        Ok(Self {
            table: TablePlaces::of(listing, &schema),
            listing,
            options,
            fields,
            schema,
            samples,
            run,
            idle: Mutex::default(),
            odd: Mutex::default(),
            unfit: Mutex::default(),
        })
    }

    pub(crate) const fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) const fn listing(&self) -> &'a Listing {
        self.listing
    }

    pub(super) const fn fields(&self) -> &FolderFields {
        &self.fields
    }

    pub(super) fn metadata(&self) -> crate::Result<Metadata> {
        self.fields.metadata(self.listing, self.options)
    }

    pub(crate) fn settings(&self) -> Option<ArraySettings> {
        self.fields.trial("cube").map(|trial| trial.settings)
    }

    /// Returns the plan of the dataset. It must be identical on every machine.
    pub(super) fn plan(&self, metadata: Metadata) -> crate::Result<Plan> {
        let samples = self.listing.samples.iter().enumerate().map(|(number, entry)| PlanSample {
            key: &entry.key,
            source_bytes: entry.source_bytes(),
            stored_bytes: match &self.samples {
                FolderSamples::Pictures(pictures) => pictures.estimate(entry),
                FolderSamples::Cubes(cubes) => cubes.estimate(entry),
            },
            mtime_ns: entry.fingerprint_mtime_ns(),
            extra_digest: tables::digest(self.listing, number, entry),
        });
        let options = PlanOptions { shard_bytes: self.options.shard_bytes, shuffle: self.options.shuffle };
        Ok(Plan::new(samples, metadata, options)?)
    }

    pub(super) fn memory_limit(&self) -> u64 {
        let largest = (0..self.listing.samples.len() as u64).map(|sample| self.memory_bytes(sample)).max();
        let enough = || default_memory(self.options.threads, largest.unwrap_or(0));
        self.options.memory_bytes.unwrap_or_else(enough)
    }

    /// Returns the total size of header, index and footer if there is only one shard, in bytes. Each further
    /// shard adds a few hundred bytes and a copy of the recipe.
    pub(crate) fn beside_bytes(&self) -> u64 {
        let keys: u64 = self.listing.samples.iter().map(|entry| entry.key.len() as u64).sum();
        let rows = IndexBuilder::bytes_for(&self.schema, self.listing.samples.len() as u64, keys);
        let metadata = self.metadata().and_then(|metadata| Ok(metadata.encode()?));
        rows.saturating_add(metadata.map_or(0, |bytes| bytes.len() as u64) + HEADER_BYTES + FOOTER_BYTES)
    }

    pub(super) fn odd_pictures(&self) -> Vec<OddPicture> {
        let mut odd = lock(&self.odd).clone();
        odd.sort_by(|a, b| a.key.cmp(&b.key));
        odd
    }

    /// Returns a note about skipped samples that could be stored with other options.
    pub(super) fn unfit_note(&self) -> Option<Note> {
        let unfit = lock(&self.unfit);
        let note = format!("left out {} with {}", plural(unfit.count, "cube"), unfit.what?);
        Some(Note::new(note).with_hint(unfit.hint.clone()?))
    }

    fn entry(&self, sample: u64) -> Option<(usize, &'a SourceSample)> {
        let number = usize::try_from(sample).ok()?;
        Some((number, self.listing.samples.get(number)?))
    }

    fn record(
        &self,
        workspace: &mut Workspace,
        number: RecordNumber,
        entry: &SourceSample,
        buffer: Vec<u8>,
    ) -> Result<EncodedSample<FidelityTotals>, SampleError> {
        let mut draft = RecordDraft::new(&self.schema, buffer);
        self.table.put(self.listing, shardpack_format::to_usize(number.sample), entry, &mut draft)?;
        let SampleFigures { totals, oddity } = match &self.samples {
            FolderSamples::Pictures(pictures) => pictures.put(workspace, number.sample, entry, &mut draft)?,
            FolderSamples::Cubes(cubes) => cubes.put(workspace, entry, &mut draft)?,
        };
        let record = draft.finish(number, &entry.key)?;
        lock(&self.odd).extend(oddity.map(|what| OddPicture { key: entry.key.clone(), what }));
        Ok(record.into_sample(entry.source_bytes(), totals))
    }

    /// Skips a sample if its file caused the error and the options allow it.
    fn skipped(&self, error: SampleError) -> Result<Encoded<FidelityTotals>, SampleError> {
        let is_picture = error.is_of_picture();
        if !is_picture {
            // If the store failed, the sample itself may be fine, so return the store's error.
            self.listing.files.failure()?;
        }
        if !self.options.skips() || !(is_picture || (error.is_of_source() && !self.run.is_cancelled())) {
            return Err(error);
        }
        if let Some(what) = error.unfit_values() {
            let mut unfit = lock(&self.unfit);
            unfit.count += 1;
            let is_other = unfit.what.is_some_and(|known| known != what);
            unfit.what = Some(if is_other { "values that cannot be stored with these options" } else { what });
            unfit.hint = unfit.hint.take().or_else(|| error.hints().into_iter().next());
        }
        let text = error.to_string();
        let reason = if is_picture { text.lines().next().unwrap_or_default() } else { &text };
        Ok(Encoded::Skipped { reason: reason.to_owned() })
    }
}

/// Returns the default memory limit: enough for one sample per thread plus one waiting to be written, at least 64 MiB.
pub(crate) fn default_memory(threads: usize, largest_sample: u64) -> u64 {
    largest_sample.saturating_mul(threads as u64 + 1).max(64 << 20)
}

impl SampleSource for FolderSource<'_> {
    type Tally = FidelityTotals;
    type Error = SampleError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.entry(sample).map_or("", |(_, entry)| &entry.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.entry(sample).map_or(0, |(_, entry)| match &self.samples {
            FolderSamples::Pictures(pictures) => pictures.memory_bytes(sample, entry),
            FolderSamples::Cubes(cubes) => cubes.memory_bytes(entry),
        })
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<FidelityTotals>, SampleError> {
        let Some((_, entry)) = self.entry(sample) else { bug("a sample that is not in the listing") };
        let taken = lock(&self.idle).pop();
        let mut workspace = taken.unwrap_or_default();
        let record = self.record(&mut workspace, RecordNumber { shard, sample }, entry, buffer);
        lock(&self.idle).push(workspace);
        let encoded = record.map(Encoded::Record).or_else(|error| self.skipped(error));
        self.listing.release(entry);
        encoded
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.listing.files.read_ahead_bytes()
    }

    fn announce(&self, sample: u64) -> u64 {
        let Some((_, entry)) = self.entry(sample) else { return 0 };
        self.listing.announce(entry);
        entry.source_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_sources::cubes::CubeValues;
    use shardpack_sources::{OnBadInput, enumerate};
    use std::fs::File;
    use std::path::Path;

    /// Writes a float32 cube of 1 MiB, large enough to be read in several blocks.
    fn write_npy(path: &Path) {
        let mut npy = b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64, 64), }".to_vec();
        npy.resize(127, b' ');
        npy.push(b'\n');
        npy.extend((0..64 * 64 * 64).flat_map(|i| (i as f32).sqrt().to_le_bytes()));
        std::fs::write(path, npy).unwrap();
    }

    /// Encodes the only cube of a folder. Calls `change` with its file between opening and reading.
    fn encode(
        on_bad_input: OnBadInput,
        change: impl Fn(&File),
    ) -> Result<Option<Encoded<FidelityTotals>>, SampleError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cube.npy");
        write_npy(&path);
        let mut options = PackOptions::default();
        options.source.on_bad_input = on_bad_input;
        let listing = enumerate(dir.path(), &options.source).unwrap();
        let source = FolderSource::open(&listing, &options).unwrap();
        let FolderSamples::Cubes(cubes) = &source.samples else { panic!() };
        let entry = &listing.samples[0];
        let loaded = cubes.load(entry, Vec::new()).unwrap();
        assert!(matches!(loaded.values, CubeValues::InFile(_)), "read as it is needed");
        change(&File::options().write(true).open(&path).unwrap());
        let mut draft = RecordDraft::new(&source.schema, Vec::new());
        match cubes.put_loaded(&mut Workspace::default(), loaded, entry, &mut draft) {
            Ok(_) => Ok(None),
            Err(error) => source.skipped(error).map(Some),
        }
    }

    #[test]
    fn a_file_that_changes_while_it_is_encoded_stops_the_run() {
        for policy in [OnBadInput::Stop, OnBadInput::Skip] {
            assert!(encode(policy, |_| ()).unwrap().is_none());
            // One file is truncated. Another keeps all its bytes but gets a new modification time.
            let cut = encode(policy, |file| file.set_len(600_000).unwrap());
            let touched = encode(policy, |file| file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap());
            for changed in [cut, touched] {
                let Err(error) = changed else { panic!("{policy:?}: packed or skipped") };
                let text = error.to_string();
                assert!(text.contains("cube.npy") && text.contains("changed"), "{policy:?}: {text}");
            }
        }
    }
}
