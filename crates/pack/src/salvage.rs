//! Salvage: copies everything whole in a damaged dataset into a new one.
//!
//! Two passes. The first scans every shard for whole records and notes where they are. The second
//! copies them, record by record, through the writer, so the result is as complete and as checked
//! as any packed dataset. The damaged files are only read.

mod folder;
mod restore;

pub use restore::{Restored, restore_manifest, tally_of};

use crate::pack::{Tally, copy_record};
use anyhow::{Context, bail};
use folder::Folder;
use serde_json::json;
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, Field, FieldKind, Limits, Manifest, Metadata, Note, Record, Schema,
};
use shardpack_reader::{SalvageScan, SalvageSource, Salvaged};
use shardpack_sources::words::plural;
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, Report, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most places that are listed. A shard of small records can lose millions, one by one.
const LISTED: usize = 10_000;

/// How a damaged dataset is salvaged.
///
/// ```
/// assert!(!shardpack_pack::salvage::SalvageOptions::default().all_generations);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SalvageOptions {
    /// What the files may ask for.
    pub limits: Limits,
    /// Take the samples of all shards, those of older generations and removed samples too. Without
    /// it, a folder is salvaged by the manifest of its newest generation, and refused if that is not
    /// whole.
    pub all_generations: bool,
}

/// What a salvage found.
#[derive(Debug, Default)]
pub struct Survey {
    files: Vec<SalvageSource>,
    found: Vec<Found>,
    metadata: Option<Metadata>,
    /// Records that are there once more, as shards that were written anew have them.
    copies: u64,
    /// What cannot be saved: place, sample and reason. The first 10,000.
    pub lost: Vec<String>,
    /// How many more places cannot be saved.
    pub lost_unlisted: u64,
    /// What is wrong with headers, footers and indexes. No sample is lost by it.
    pub damage: Vec<String>,
    /// Things that the user should know.
    pub notes: Vec<Note>,
}

/// Where a whole record is.
#[derive(Debug)]
struct Found {
    file: usize,
    offset: u64,
    record_bytes: u64,
    sample_id: u64,
    crc32: u32,
    key: String,
}

impl Found {
    /// What tells its content from another one under the same key: part of the id of the new
    /// dataset, so that another source is never taken for the one that an interrupted salvage began
    /// with.
    fn digest(&self) -> [u8; 16] {
        let mut digest = [0; 16];
        let content = self.crc32.to_le_bytes().into_iter().chain(self.sample_id.to_le_bytes());
        digest.iter_mut().zip(content).for_each(|(to, from)| *to = from);
        digest
    }
}

impl Survey {
    /// Number of whole records.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.found.len() as u64
    }

    /// Number of places that cannot be saved.
    #[must_use]
    pub fn places_lost(&self) -> u64 {
        self.lost_unlisted.saturating_add(self.lost.len() as u64)
    }

    fn lose(&mut self, what: String) {
        if self.lost.len() < LISTED {
            self.lost.push(what);
        } else {
            self.lost_unlisted += 1;
        }
    }

    /// Scans a lone shard, or the shards of a folder: those that the newest manifest names, and, of
    /// a dataset that never grew or with [`SalvageOptions::all_generations`], all others that end in
    /// `.shard`. Raising `cancel` ends it early.
    ///
    /// # Errors
    /// If the path cannot be read, holds no shard at all, or has no whole manifest of its newest
    /// generation: then `all_generations` goes on.
    pub fn scan(path: &Path, options: &SalvageOptions, cancel: &AtomicBool) -> anyhow::Result<Self> {
        let mut survey = Self::default();
        let limits = &options.limits;
        let folder = Folder::look(path, options, &mut survey)?;
        let mut scans = Vec::new();
        for shard in &folder.shards {
            match folder.scan(shard, limits) {
                Ok(scan) => scans.push((shard, scan)),
                Err(error) => {
                    let samples =
                        folder.samples(shard).map(|n| format!(" of {}", plural(n, "sample"))).unwrap_or_default();
                    survey.lose(format!("`{}`: the whole shard{samples}: {error}", shard.display()));
                }
            }
        }
        // One dataset only: the one of the manifest, or else of the first shard that names its
        // dataset.
        let ids = || scans.iter().filter_map(|(_, scan)| scan.identity().map(|i| i.dataset_id));
        let id = folder.manifest.as_ref().map(|m| m.dataset_id).or_else(|| ids().next());
        scans.retain(|(shard, scan)| match (id, scan.identity()) {
            (Some(id), Some(identity)) if identity.dataset_id != id => {
                let other = identity.dataset_id;
                survey.lose(format!("`{}`: the whole shard: of another dataset, {other}, not {id}", shard.display()));
                false
            }
            _ => true,
        });
        // Sorted by number, so that the samples stay mixed as before. What the newest generation has
        // comes before everything else: of two samples with one key the first is kept.
        scans.sort_by_key(|(shard, scan)| {
            (folder.is_older(shard), scan.identity().map_or(u32::MAX, |i| i.shard_number))
        });
        survey.take_metadata(&scans, limits);
        survey.take_classes(&scans, folder.manifest.as_ref());
        survey.note_missing_shards(&scans, folder.manifest.as_ref());
        let mut seen = HashMap::new();
        for (shard, scan) in scans {
            let expected = scan.expected_records().or_else(|| folder.samples(shard));
            let accounted = |survey: &Self| survey.samples() + survey.places_lost() + survey.copies;
            let before = accounted(&survey);
            survey.damage.extend(scan.damage().iter().map(ToString::to_string));
            survey.files.push(scan.source());
            for finding in scan {
                if cancel.load(Ordering::Relaxed) {
                    return Err(shardpack_writer::Error::Cancelled.into());
                }
                survey.take(shard, finding, &mut seen);
            }
            let accounted = accounted(&survey) - before;
            if let Some(missing) = expected.and_then(|n| n.checked_sub(accounted)).filter(|&n| n > 0) {
                survey.lose(format!("`{}`: {missing} more samples: cut off, or overwritten", shard.display()));
            }
        }
        Ok(survey)
    }

    /// Files one finding about the shard that was opened last.
    /// `seen` has ids and CRCs by key.
    fn take(&mut self, shard: &Path, finding: Salvaged, seen: &mut HashMap<String, (u64, u32)>) {
        match finding {
            Salvaged::Whole(record) => {
                let content = (record.frame.sample_id, record.frame.body_crc32);
                match seen.get(&record.key) {
                    Some(first) if *first == content => self.copies += 1,
                    Some(_) => {
                        let key = record.key.escape_debug();
                        self.lose(format!("`{}`: sample `{key}`: there twice; the first is kept", shard.display()));
                    }
                    None => {
                        seen.insert(record.key.clone(), content);
                        self.found.push(Found {
                            // A file is noted before its records.
                            file: self.files.len().saturating_sub(1),
                            offset: record.offset,
                            record_bytes: record.frame.record_bytes,
                            sample_id: record.frame.sample_id,
                            crc32: record.frame.body_crc32,
                            key: record.key,
                        });
                    }
                }
            }
            Salvaged::Lost(lost) => {
                let key = lost.key.map(|key| format!("sample `{}`: ", key.escape_debug())).unwrap_or_default();
                let range = format!("bytes {} to {}", lost.range.start, lost.range.end);
                let (file, why) = (format!("`{}`", shard.display()), lost.why.to_string());
                // An error of the format names file and sample itself.
                self.lose(match why.starts_with(&file) && (key.is_empty() || why.contains("sample `")) {
                    true => format!("{why} ({range})"),
                    false => format!("{file}: {range}: {key}{why}"),
                });
            }
        }
    }

    /// Keeps the first metadata that a reader with these limits would take.
    fn take_metadata(&mut self, scans: &[(&PathBuf, SalvageScan)], limits: &Limits) {
        for (shard, scan) in scans {
            let Some((metadata, _)) = scan.metadata() else { continue };
            match metadata.shards.map(u64::from).filter(|&count| count > limits.max_shards) {
                None => {
                    self.metadata = Some(metadata.clone());
                    return;
                }
                Some(count) => self.damage.push(format!(
                    "`{}`: metadata: expected at most {} shards, found {count}",
                    shard.display(),
                    limits.max_shards
                )),
            }
        }
    }

    /// Takes all classes that a later generation has behind those of its first shards (spec §3.5):
    /// without them, labels of newer samples would have no names.
    fn take_classes(&mut self, scans: &[(&PathBuf, SalvageScan)], manifest: Option<&Manifest>) {
        let Some(known) = &mut self.metadata else { return };
        let of_shards = scans.iter().filter_map(|(_, scan)| scan.metadata());
        let of_shards = of_shards.filter(|(found, _)| (&found.schema, &found.recipe) == (&known.schema, &known.recipe));
        let of_shards: Vec<&Vec<String>> = of_shards.filter_map(|(found, _)| found.classes.as_ref()).collect();
        for found in of_shards.into_iter().chain(manifest.and_then(|manifest| manifest.classes.as_ref())) {
            match &known.classes {
                Some(classes) if found.len() > classes.len() && found.starts_with(classes) => {
                    known.classes = Some(found.clone());
                }
                _ => {}
            }
        }
    }

    /// Numbers that are missing among the shards' own numbers. (Shards that a manifest lists are
    /// known by name.)
    fn note_missing_shards(&mut self, scans: &[(&PathBuf, SalvageScan)], manifest: Option<&Manifest>) {
        let count = self.metadata.as_ref().and_then(|metadata| metadata.shards);
        let (None, Some(count)) = (manifest, count.filter(|_| scans.len() > 1)) else { return };
        let there = scans.iter().filter_map(|(_, scan)| scan.identity().map(|i| i.shard_number));
        let gaps = gaps(count, there.collect());
        for gap in gaps {
            self.lose(match gap.end - gap.start {
                1 => format!("shard {} of {count}: the whole shard: not there", gap.start),
                shards => {
                    format!("shards {} to {} of {count}: {shards} whole shards: not there", gap.start, gap.end - 1)
                }
            });
        }
    }

    /// Writes what was found as a new dataset. The samples get new numbers, in stored order.
    ///
    /// # Errors
    /// If nothing was found, or the dataset cannot be written.
    pub fn write(&mut self, out: &Path, limits: &Limits, options: &WriteOptions<'_>) -> anyhow::Result<Report> {
        let Some(first) = self.found.first() else { bail!("no whole record was found: there is nothing to write") };
        let mut metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => {
                self.notes.push(Note::new(
                    "no schema was found: fields are named by their place, and the bytes of scalar fields are kept \
                     one by one",
                ));
                let bytes = self.read(first)?;
                guess_metadata(&Record::parse(&bytes, limits)?, limits)?
            }
        };
        metadata.recipe.insert("salvaged".into(), json!({ "lost": self.places_lost() }));
        let samples = self.found.iter().map(|found| PlanSample {
            key: &found.key,
            source_bytes: found.record_bytes,
            stored_bytes: found.record_bytes,
            mtime_ns: 0,
            extra_digest: found.digest(),
        });
        let shard_bytes = metadata.recipe.get("shard_bytes").and_then(serde_json::Value::as_u64).unwrap_or(1 << 30);
        let plan = Plan::new(samples, metadata, PlanOptions { shard_bytes, shuffle: None })?;
        let source = Records { survey: self, schema: plan.metadata().schema.clone(), limits };
        Ok(write_dataset(out, &plan, &source, options)?)
    }

    fn read(&self, found: &Found) -> anyhow::Result<Vec<u8>> {
        let file = self.files.get(found.file).context("a file of the survey is gone")?;
        file.read(found.offset, found.record_bytes).with_context(|| format!("sample `{}`", found.key.escape_debug()))
    }
}

/// The ranges of numbers below `count` that are not `there`: one more than there are numbers at most.
fn gaps(count: u32, there: BTreeSet<u32>) -> Vec<Range<u32>> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for number in there.into_iter().filter(|&number| number < count).chain([count]) {
        if next < number {
            gaps.push(next..number);
        }
        next = number.saturating_add(1);
    }
    gaps
}

/// The whole records of a survey, as samples for the writer.
struct Records<'a> {
    survey: &'a Survey,
    schema: Schema,
    limits: &'a Limits,
}

impl Records<'_> {
    fn found(&self, sample: u64) -> Option<&Found> {
        self.survey.found.get(usize::try_from(sample).ok()?)
    }

    fn copy(
        &self,
        found: &Found,
        sample: u64,
        shard_number: u32,
        buffer: Vec<u8>,
    ) -> anyhow::Result<EncodedSample<Tally>> {
        let bytes = self.survey.read(found)?;
        let record = Record::parse(&bytes, self.limits)?;
        if (record.key, record.frame.body_crc32) != (found.key.as_str(), found.crc32) {
            bail!("sample `{}`: the file changed while it was read", found.key.escape_debug());
        }
        let tally = Tally::of_record(&self.schema, record.key, record.scalars);
        let scalars = record.scalars.to_vec();
        let (record, frame) = copy_record(&record, &self.schema, shard_number, sample, buffer)?;
        Ok(EncodedSample { record, frame, scalars, source_bytes: found.record_bytes, tally })
    }
}

impl SampleSource for Records<'_> {
    type Tally = Tally;
    type Error = anyhow::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        Cow::Borrowed(self.found(sample).map_or("", |found| &found.key))
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.found(sample).map_or(0, |found| found.record_bytes.saturating_mul(2))
    }

    fn encode(&self, sample: u64, shard_number: u32, buffer: Vec<u8>) -> anyhow::Result<Encoded<Tally>> {
        let found = self.found(sample).context("a sample that the survey does not have")?;
        Ok(Encoded::Record(self.copy(found, sample, shard_number, buffer)?))
    }
}

/// A schema for records whose own schema is lost: derived from each field's codec and descriptor.
fn guess_metadata(record: &Record<'_>, limits: &Limits) -> anyhow::Result<Metadata> {
    // Before any is made: a record may hold gibibytes of scalars.
    let count = (record.fields.len() as u64).saturating_add(record.scalars.len() as u64);
    if count > limits.max_fields {
        bail!(
            "no schema was found, and the records cannot do without: expected at most {} fields and bytes of scalars, \
             found {count}",
            limits.max_fields
        );
    }
    let mut fields: Vec<Field> = Vec::new();
    for (i, value) in record.fields.iter().enumerate() {
        let kind = match value {
            Some(v) if v.codec == Codec::Jpeg || v.descriptor.starts_with(b"image/") => FieldKind::Image,
            Some(v) if ArrayDescriptor::parse(v.descriptor, limits).is_ok() => FieldKind::Array,
            _ => FieldKind::Bytes,
        };
        fields.push(Field::stored(format!("field-{i}"), kind));
    }
    fields.extend((0..record.scalars.len()).map(|i| Field::scalar(format!("scalar-byte-{i}"), Dtype::U8)));
    Ok(Metadata { schema: Schema::new(fields)?, ..Metadata::default() })
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
