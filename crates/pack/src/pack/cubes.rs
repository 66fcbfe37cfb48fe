//! Cubes: loaded, transformed and encoded, one sample per thread.

use super::fidelity::{self, Totals};
use super::stored_value::{self, Standing, StoredValue};
use super::tries::mask_file_options;
use super::{FieldTotals, PackOptions, SampleError, Tally, schema, tables, tries};
use serde_json::Value;
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySource, EncodedArray, Trial};
use shardpack_format::visible_path;
use shardpack_format::{ArrayDescriptor, Dtype, Explain, Field, FieldKind, Hint, Note, Recipe, RecordBuilder, Schema};
use shardpack_recipe::{FolderRecipe, Variables};
use shardpack_sources::cubes::{CubeInfo, CubeOptions, CubeRun, CubeValues, LoadedMask, OpenCube, load_mask, open};
use shardpack_sources::unpacked::read_meta;
use shardpack_sources::words::plural;
use shardpack_sources::{Listing, SampleContent, SourceSample};
use shardpack_writer::{Encoded, EncodedSample, SampleSource};
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What a record takes besides the payloads: frame, head, metadata and padding.
const OVERHEAD_BYTES: u64 = 2048;

/// What a thread needs for a sample besides that: a unit of stored elements, a block of the file,
/// tables of the coder.
const SCRATCH_BYTES: u64 = 6 << 20;

/// Room in a record for small values, padding, and a last unit that does not compress.
const RESERVE_BYTES: usize = 64 << 10;

/// The cubes of a listing, with the chosen settings.
pub(crate) struct Cubes<'a> {
    listing: &'a Listing,
    options: CubeOptions,
    schema: Schema,
    skip: bool,
    /// `cube`, and then `mask` if there are masks.
    trials: Vec<(String, Trial)>,
    /// Benches that no thread is using.
    idle: Mutex<Vec<Bench>>,
    unfit: Mutex<Unfit>,
}

/// Samples that were left out because their values cannot be stored as the options say.
#[derive(Default)]
struct Unfit {
    count: u64,
    /// Their values.
    what: Option<&'static str>,
    /// How to store them.
    hint: Option<Hint>,
}

/// What a thread works with: an encoder for cubes, one for masks, and the memory of an earlier cube
/// that was read as a whole. Reusing its pages costs less than fresh ones.
struct Bench {
    cube: ArrayEncoder,
    mask: Option<ArrayEncoder>,
    array: Vec<u8>,
    /// Length of the previous cube's descriptor.
    descriptor_bytes: Option<usize>,
}

impl<'a> Cubes<'a> {
    /// Tries the codecs on a few samples and settles everything.
    pub(super) fn new(listing: &'a Listing, options: &PackOptions) -> crate::Result<Self> {
        Self::with_trials(listing, options, tries::choose(listing, options)?)
    }

    /// The same, with what a trial has found before.
    pub(crate) fn with_trials(
        listing: &'a Listing,
        options: &PackOptions,
        trials: Vec<(String, Trial)>,
    ) -> crate::Result<Self> {
        let cubes = &options.source.cubes;
        let metadata = schema::metadata(listing, fields(listing, trials.len() > 1), Recipe::new())?;
        let (skip, idle, unfit) = (options.skips(), Mutex::new(Vec::new()), Mutex::default());
        let run = CubeRun::within(options.source.files.clone(), options.source.cancel.clone());
        Ok(Self {
            listing,
            options: CubeOptions { run, ..cubes.clone() },
            schema: metadata.schema,
            skip,
            trials,
            idle,
            unfit,
        })
    }

    pub(crate) fn fields(&self) -> Vec<Field> {
        fields(self.listing, self.trials.len() > 1)
    }

    pub(crate) fn trials(&self) -> &[(String, Trial)] {
        &self.trials
    }

    pub(super) fn recipe(&self, options: &PackOptions) -> FolderRecipe {
        let entry = |name: &str| {
            let (_, trial) = self.trials.iter().find(|(field, _)| field == name)?;
            Some(tries::recipe_of_arrays(name, trial, &options.arrays).into())
        };
        FolderRecipe {
            variable: Variables::of(&self.options.variable).map(Into::into),
            spatial: self.options.spatial.map(Into::into),
            cube: entry("cube"),
            mask: entry("mask"),
            ..schema::recipe(self.listing, options)
        }
    }

    /// A note on samples whose values could be stored under other options.
    pub(crate) fn unfit_note(&self) -> Option<Note> {
        let unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
        let note = format!("left out {} with {}", plural(unfit.count, "cube"), unfit.what?);
        Some(Note::new(note).with_hint(unfit.hint.clone()?))
    }

    /// Estimated size of a sample's record, from the ratios of the trial.
    pub(crate) fn estimate(&self, entry: &SourceSample) -> u64 {
        let ratio = |field: usize| tries::ratio(self.trials.get(field).map(|(_, trial)| trial));
        // Integers only: the plan must be the same on every machine.
        let scale = |bytes: u64, (stored, source): (u64, u64)| {
            u64::try_from(u128::from(bytes) * u128::from(stored) / u128::from(source)).unwrap_or(u64::MAX)
        };
        let mask = entry.mask.as_ref().map_or(0, |mask| scale(mask.bytes, ratio(1)));
        scale(info(entry).map_or(entry.bytes, |i| i.array_bytes), ratio(0)).saturating_add(mask) + OVERHEAD_BYTES
    }

    fn entry(&self, sample: u64) -> Option<(usize, &'a SourceSample)> {
        let position = usize::try_from(sample).ok()?;
        Some((position, self.listing.samples.get(position)?))
    }

    /// Runs `work` with a bench that no other thread is using.
    fn with_bench<T>(&self, work: impl FnOnce(&mut Bench) -> Result<T, SampleError>) -> Result<T, SampleError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut bench = match taken {
            Some(bench) => bench,
            None => {
                let mut made = self.trials.iter().map(|(_, trial)| ArrayEncoder::new(trial.settings));
                let missing = || shardpack_format::Error::usage("trial", "settings for cubes", "none");
                let cube = made.next().ok_or_else(missing)??;
                Bench { cube, mask: made.next().transpose()?, array: Vec::new(), descriptor_bytes: None }
            }
        };
        let result = work(&mut bench);
        idle().push(bench);
        result
    }

    fn load(&self, entry: &SourceSample, spare: Vec<u8>) -> Result<(OpenCube, Option<LoadedMask>), SampleError> {
        self.listing.check_unchanged(entry)?;
        let mut cube = open(&self.listing.path(entry), &self.options, spare)?;
        if let Some(file) = &entry.meta {
            let beside = read_meta(&file.path, &self.listing.files).map_err(|flaw| SampleError::Meta(flaw.detail))?;
            beside.into_iter().for_each(|(name, value)| _ = cube.meta.entry(name).or_insert(value));
        }
        let mask =
            entry.mask.as_ref().map(|mask| load_mask(&mask.path, &mask_file_options(&self.options))).transpose()?;
        self.listing.check_unchanged(entry)?;
        if let (Some(mask), Some(file)) = (&mask, &entry.mask) {
            check_mask(&mask.array, &cube.values, &file.path)?;
        }
        Ok((cube, mask))
    }

    /// Whether the stored elements are rearranged as a whole, in memory.
    fn is_rearranged(&self) -> bool {
        self.trials.first().is_none_or(|(_, trial)| trial.settings.layout == ArrayLayout::BandMajor)
    }
}

fn info(entry: &SourceSample) -> Option<&CubeInfo> {
    match &entry.content {
        SampleContent::Cube(info) => Some(info),
        SampleContent::Picture(_) => None,
    }
}

fn check_mask(mask: &Array, cube: &dyn ArraySource, path: &Path) -> Result<(), SampleError> {
    let (height, width) = match cube.shape() {
        [height, width, _] => (*height, *width),
        _ => (0, 0),
    };
    if mask.shape() == [height, width] {
        return Ok(());
    }
    let found = mask.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(" × ");
    Err(SampleError::Mask { mask: visible_path(path), height, width, found })
}

pub(crate) fn fields(listing: &Listing, masks: bool) -> Vec<Field> {
    let mut fields = vec![Field::stored("cube", FieldKind::Array)];
    if masks {
        fields.push(Field::stored("mask", FieldKind::Array));
    }
    fields.push(Field::stored("meta", FieldKind::Json));
    fields.extend(tables::label_field(listing));
    fields.extend(["height", "width", "channels"].map(|name| Field::scalar(name, Dtype::U32)));
    fields.extend(fidelity::fields("cube"));
    fields
}

impl SampleSource for Cubes<'_> {
    type Tally = Tally;
    type Error = SampleError;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.entry(sample).map_or("", |(_, entry)| &entry.key))
    }

    /// The memory that a sample takes: the record, at most as large as the cube; the cube and the
    /// bytes it comes from, unless it is read as needed; and its stored elements, if they are
    /// rearranged.
    fn memory_bytes(&self, sample: u64) -> u64 {
        let Some((_, entry)) = self.entry(sample) else { return 0 };
        let cube = info(entry).map_or(entry.bytes, |info| info.array_bytes);
        let in_file = info(entry).is_some_and(|info| info.in_file);
        let loaded = if in_file { 0 } else { cube.saturating_add(entry.bytes) };
        let rearranged = if self.is_rearranged() { cube } else { 0 };
        // A mask, as loaded and as stored.
        let mask = entry.mask.as_ref().map_or(0, |mask| mask.bytes.saturating_mul(2));
        [loaded, rearranged, mask, SCRATCH_BYTES].into_iter().fold(cube, u64::saturating_add)
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> Result<Encoded<Tally>, SampleError> {
        let Some((position, entry)) = self.entry(sample) else {
            return Err(shardpack_format::Error::usage("sample", "one of the listing", sample).into());
        };
        let encoded = self.with_bench(|bench| self.encode_with(bench, position, entry, shard_number, buffer));
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

impl Cubes<'_> {
    fn encode_with(
        &self,
        bench: &mut Bench,
        position: usize,
        entry: &SourceSample,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let loaded = self.load(entry, std::mem::take(&mut bench.array));
        if loaded.is_err() {
            // A store that fails is no damage of a sample.
            self.listing.files.failure()?;
        }
        match loaded {
            Ok(loaded) => self.encode_loaded(bench, loaded, position, entry, shard_number, buffer),
            Err(error) => self.skipped(error),
        }
    }

    /// A sample that is left out, if the options allow that and the sample itself is at fault.
    fn skipped<T>(&self, error: SampleError) -> Result<Encoded<T>, SampleError> {
        match self.skip && error.is_of_source() && !self.options.run.is_cancelled() {
            true => {
                if let Some(what) = error.unfit_values() {
                    let mut unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
                    unfit.count += 1;
                    let is_other = unfit.what.is_some_and(|known| known != what);
                    unfit.what = Some(if is_other { "values that these options cannot store" } else { what });
                    unfit.hint = unfit.hint.take().or_else(|| error.hints().into_iter().next());
                }
                Ok(Encoded::Skipped { reason: error.to_string() })
            }
            false => Err(error),
        }
    }

    fn encode_loaded(
        &self,
        bench: &mut Bench,
        (OpenCube { values: cube, no_data, meta }, mask): (OpenCube, Option<LoadedMask>),
        position: usize,
        entry: &SourceSample,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> Result<Encoded<Tally>, SampleError> {
        let mask = match (&mut bench.mask, &mask) {
            (Some(encoder), Some(mask)) => Some(encoder.encode(&mask.array, mask.no_data)?),
            _ => None,
        };
        let (mut buffer, at) = self.room(buffer, bench.descriptor_bytes, &entry.key, &cube, mask.as_ref());
        let stored = match bench.cube.encode_into(&cube, no_data, &mut buffer).map_err(SampleError::from) {
            // A file that was replaced, or became shorter, while it was read has changed. That is
            // no reason to skip it.
            Err(error) => {
                self.listing.check_unchanged(entry)?;
                return self.skipped(error);
            }
            Ok(stored) => stored,
        };
        if let CubeValues::InFile(_) = &cube {
            self.listing.check_unchanged(entry)?;
        }
        let (shape, figures) = (stored.descriptor.shape.clone(), stored.fidelity);
        let standing = Standing::array(buffer, at, &stored)?;
        bench.descriptor_bytes = Some(standing.descriptor.len());
        if let CubeValues::InMemory(array) = cube {
            bench.array = array.into_bytes();
        }
        let mut values = Vec::new();
        if self.trials.len() > 1 {
            values.push(mask.map(StoredValue::array).transpose()?);
        }
        values.push(
            (!meta.is_empty()).then(|| StoredValue::bytes(Value::Object(meta).to_string().as_bytes())).transpose()?,
        );
        for column in tables::texts(self.listing, position) {
            values.push(Some(StoredValue::bytes(column.as_bytes())?));
        }

        let mut scalars = Vec::with_capacity(160);
        tables::append_label(&mut scalars, entry);
        for axis in shape {
            let axis = u32::try_from(axis).map_err(|_| shardpack_format::Error::usage("axis", "below 2^32", axis))?;
            scalars.extend(axis.to_le_bytes());
        }
        fidelity::append(&mut scalars, &figures);
        tables::append_columns(&mut scalars, self.listing, position);

        let (id, key) = (position as u64, &entry.key);
        let (record, frame) =
            stored_value::record_around(standing, &self.schema, shard_number, id, key, &scalars, &values)?;
        let tally = Tally::of("cube", FieldTotals::Array(Box::new(Totals::of(&entry.key, figures))));
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes: entry.source_bytes(), tally }))
    }

    /// A used buffer with room for the whole record. It is as long as the head before the cube will
    /// be if the cube's descriptor is as long as the previous one.
    fn room(
        &self,
        mut buffer: Vec<u8>,
        descriptor_bytes: Option<usize>,
        key: &str,
        cube: &CubeValues,
        mask: Option<&EncodedArray>,
    ) -> (Vec<u8>, usize) {
        let encoded = |descriptor: &ArrayDescriptor| descriptor.encode().map_or(0, |bytes| bytes.len());
        let cube_descriptor =
            descriptor_bytes.unwrap_or_else(|| encoded(&ArrayDescriptor::plain(cube.dtype(), cube.shape().to_vec())));
        let descriptors = cube_descriptor + mask.map_or(0, |mask| encoded(&mask.descriptor));
        let scalars = usize::try_from(self.schema.scalar_bytes()).unwrap_or(0);
        let at = RecordBuilder::first_value_at(self.schema.stored_count(), scalars, descriptors, key.len());
        buffer.clear();
        // Reserve the largest possible size once, because growing a large buffer means copying it.
        // Untouched pages take no memory.
        let cube_bytes = cube.dtype().array_bytes(cube.shape()).ok().and_then(|bytes| usize::try_from(bytes).ok());
        let beside = at + mask.map_or(0, |mask| mask.payload.len()) + RESERVE_BYTES;
        // If the system refuses, the encoder asks for less.
        let _ = buffer.try_reserve(cube_bytes.unwrap_or(0).saturating_add(beside));
        buffer.resize(at, 0);
        (buffer, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_sources::{OnBadInput, enumerate};
    use std::fs::File;

    /// A cube of 1 MiB of float32: large enough that a second block is read after the first.
    fn write_npy(path: &Path) {
        let mut npy = b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64, 64), }".to_vec();
        npy.resize(127, b' ');
        npy.push(b'\n');
        npy.extend((0..64 * 64 * 64).flat_map(|i| (i as f32).sqrt().to_le_bytes()));
        std::fs::write(path, npy).unwrap();
    }

    /// Encodes the one cube of a folder. `change` gets its file after it was opened and
    /// before its values are read.
    fn encode(on_bad_input: OnBadInput, change: impl Fn(&File)) -> Result<Encoded<Tally>, SampleError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cube.npy");
        write_npy(&path);
        let mut options = PackOptions::default();
        options.source.on_bad_input = on_bad_input;
        let listing = enumerate(dir.path(), &options.source).unwrap();
        let cubes = Cubes::new(&listing, &options).unwrap();
        let entry = &listing.samples[0];
        let loaded = cubes.load(entry, Vec::new()).unwrap();
        assert!(matches!(loaded.0.values, CubeValues::InFile(_)), "read as it is needed");
        change(&File::options().write(true).open(&path).unwrap());
        cubes.with_bench(|bench| cubes.encode_loaded(bench, loaded, 0, entry, 0, Vec::new()))
    }

    #[test]
    fn a_file_that_changes_while_it_is_encoded_stops_the_run() {
        for policy in [OnBadInput::Stop, OnBadInput::Skip] {
            assert!(matches!(encode(policy, |_| ()).unwrap(), Encoded::Record(_)));
            // Cut short; and with only its time changed, after all of it was read.
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
