//! Salvage: everything whole in a damaged dataset, written as a new one.
//!
//! Two passes: the first scans every shard for whole records and keeps only where they are; the second copies them, record by record, through the
//! writer, so that the result is as complete and as checked as any packed dataset. The damaged files are only read.

use crate::pack::Tally;
use anyhow::{Context, bail};
use serde_json::json;
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, Field, FieldKind, Limits, MANIFEST_NAME, Manifest, Metadata, Record, RecordBuilder,
    Schema, StoredField,
};
use shardpack_reader::{ReadAt, Rebuilt, SalvageScan, Salvaged, open_regular, rebuild_manifest};
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, Report, SampleSource, Tally as _, WriteOptions,
    write_dataset,
};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a salvage found.
#[derive(Debug, Default)]
pub struct Survey {
    files: Vec<Arc<dyn ReadAt>>,
    found: Vec<Found>,
    metadata: Option<Metadata>,
    /// What cannot be saved, in words: place, sample and reason.
    pub lost: Vec<String>,
    /// What is wrong with headers, footers and indexes; no sample is lost by it.
    pub damage: Vec<String>,
    /// Things that the user should know.
    pub notes: Vec<String>,
}

/// Where a whole record stands.
#[derive(Debug)]
struct Found {
    file: usize,
    offset: u64,
    record_bytes: u64,
    key: String,
}

impl Survey {
    /// Number of whole records.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.found.len() as u64
    }

    /// Scans a lone shard, or all shards of a folder: those that its manifest names and all others that end in `.shard`.
    ///
    /// # Errors
    /// If the path cannot be read, or holds no shard at all.
    pub fn scan(path: &Path, limits: &Limits) -> anyhow::Result<Self> {
        let mut survey = Self::default();
        let mut seen = HashSet::new();
        let mut scans = Vec::new();
        for shard in shard_paths(path, limits, &mut survey)? {
            match SalvageScan::open(&shard, limits) {
                Ok(scan) => scans.push((scan.identity().map(|i| i.shard_number), shard, scan)),
                Err(error) => survey.lost.push(format!("`{}`: the whole shard: {error}", shard.display())),
            }
        }
        // Shards whose number is known in its order, so that the samples stay mixed as they were.
        scans.sort_by_key(|(number, _, _)| number.unwrap_or(u32::MAX));
        for (_, shard, scan) in scans {
            survey.damage.extend(scan.damage().iter().map(ToString::to_string));
            if survey.metadata.is_none() {
                survey.metadata = scan.metadata().map(|(metadata, _)| metadata.clone());
            }
            let file = survey.files.len();
            survey.files.push(open_regular(&shard)?);
            for finding in scan {
                match finding {
                    Salvaged::Whole(record) if !seen.insert(record.key.clone()) => {
                        let key = record.key.escape_debug();
                        survey
                            .lost
                            .push(format!("`{}`: sample `{key}`: there twice; the first is kept", shard.display()));
                    }
                    Salvaged::Whole(record) => survey.found.push(Found {
                        file,
                        offset: record.offset,
                        record_bytes: record.frame.record_bytes,
                        key: record.key,
                    }),
                    Salvaged::Lost(lost) => {
                        let key = lost.key.map(|key| format!("sample `{}`: ", key.escape_debug())).unwrap_or_default();
                        let range = format!("bytes {} to {}", lost.range.start, lost.range.end);
                        survey.lost.push(format!("`{}`: {range}: {key}{}", shard.display(), lost.why));
                    }
                }
            }
        }
        Ok(survey)
    }

    /// Writes what was found as a new dataset. The samples are numbered anew, in the order in which they stood.
    ///
    /// # Errors
    /// If nothing was found, or the dataset cannot be written.
    pub fn write(&mut self, out: &Path, limits: &Limits, options: &WriteOptions<'_>) -> anyhow::Result<Report> {
        let Some(first) = self.found.first() else { bail!("no whole record was found: there is nothing to write") };
        let mut metadata = match self.metadata.take() {
            Some(metadata) => metadata,
            None => {
                self.notes.push(
                    "no schema was found: fields are named by their place, and the bytes of scalar fields are kept one by one".into(),
                );
                let bytes = self.read(first)?;
                guess_metadata(&Record::parse(&bytes, limits)?, limits)?
            }
        };
        metadata.recipe.insert("salvaged".into(), json!({ "lost": self.lost.len() }));
        let samples = self.found.iter().map(|found| PlanSample {
            key: &found.key,
            source_bytes: found.record_bytes,
            stored_bytes: found.record_bytes,
            mtime_ns: 0,
        });
        let shard_bytes = metadata.recipe.get("shard_bytes").and_then(serde_json::Value::as_u64).unwrap_or(1 << 30);
        let plan = Plan::new(samples, metadata, PlanOptions { shard_bytes, shuffle: None })?;
        let source = Records { survey: self, schema: plan.metadata().schema.clone(), limits };
        Ok(write_dataset(out, &plan, &source, options)?)
    }

    fn read(&self, found: &Found) -> anyhow::Result<Vec<u8>> {
        let file = self.files.get(found.file).context("a file of the survey is gone")?;
        let mut bytes = vec![0; usize::try_from(found.record_bytes)?];
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, found.offset + at as u64) {
                Ok(0) => bail!("sample `{}`: the file became shorter while it was read", found.key.escape_debug()),
                Ok(n) => at += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| format!("sample `{}`", found.key.escape_debug())),
            }
        }
        Ok(bytes)
    }
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
        let fields = record.fields.iter().map(|value| {
            value.as_ref().map(|value| StoredField {
                codec: value.codec,
                stored_bytes: value.bytes.len() as u64,
                decoded_bytes: value.decoded_bytes,
                descriptor: value.descriptor,
            })
        });
        let fields: Vec<_> = fields.collect();
        let mut copy =
            RecordBuilder::new(buffer, &self.schema, shard_number, sample, record.key, record.scalars, &fields)?;
        for (i, value) in record.fields.iter().enumerate() {
            if let Some(value) = value {
                copy.field_mut(i).copy_from_slice(value.bytes);
            }
        }
        let tally = Tally::of_record(&self.schema, record.key, record.scalars);
        let scalars = record.scalars.to_vec();
        let (record, frame) = copy.finish();
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

/// The shards to look at.
fn shard_paths(path: &Path, limits: &Limits, survey: &mut Survey) -> anyhow::Result<Vec<PathBuf>> {
    if !fs::metadata(path).with_context(|| format!("cannot open `{}`", path.display()))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    match fs::read(path.join(MANIFEST_NAME)) {
        Ok(bytes) => match Manifest::parse(&bytes, limits) {
            Ok(manifest) => paths.extend(manifest.shards.iter().map(|shard| path.join(&shard.name))),
            Err(error) => survey.damage.push(format!("`{MANIFEST_NAME}`: {error}")),
        },
        Err(error) => survey.damage.push(format!("`{MANIFEST_NAME}`: {error}")),
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))? {
        let shard = entry?.path();
        // A manifest may be stale or of another dataset: what lies there and looks like a shard is looked at as well.
        if shard.extension().is_some_and(|e| e == "shard") && !paths.contains(&shard) {
            paths.push(shard);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!(
            "`{}`: expected a dataset or a shard, found neither a manifest nor files that end in .shard",
            path.display()
        );
    }
    Ok(paths)
}

/// A schema for records whose own is lost: from what each field's codec and descriptor say.
fn guess_metadata(record: &Record<'_>, limits: &Limits) -> anyhow::Result<Metadata> {
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

/// Makes a manifest anew for a folder whose shards are whole, and writes it there; one that is there already is kept under another name.
///
/// # Errors
/// If a shard is damaged or missing, or the manifest cannot be written.
pub fn restore_manifest(folder: &Path, limits: &Limits) -> anyhow::Result<Rebuilt> {
    let mut total = Tally::default();
    let rebuilt = rebuild_manifest(folder, limits, &mut |shard, manifest| {
        let index = shard.index();
        let columns: Vec<_> = (0..).map_while(|position| index.column(position)).collect();
        let widths: Vec<usize> =
            manifest.schema.scalars().map(|(_, dtype)| usize::try_from(dtype.bytes()).unwrap_or(0)).collect();
        let mut packed = Vec::new();
        // The sums must come out as the writer made them: sample by sample within a shard, then shard by shard.
        let mut of_shard = Tally::default();
        for record in 0..index.len() {
            packed.clear();
            for (column, width) in columns.iter().zip(&widths) {
                let start = usize::try_from(record).unwrap_or(usize::MAX).saturating_mul(*width);
                packed.extend(column.get(start..start.saturating_add(*width)).unwrap_or_default());
            }
            of_shard.merge(Tally::of_record(&manifest.schema, index.key(record).unwrap_or_default(), &packed));
        }
        total.merge(of_shard);
        manifest.fidelity = total.fidelity();
        Ok(())
    })?;
    let path = folder.join(MANIFEST_NAME);
    let temporary = folder.join(".manifest.json.tmp");
    let write = || -> std::io::Result<()> {
        let bytes = rebuilt.manifest.encode().map_err(std::io::Error::other)?;
        fs::write(&temporary, bytes)?;
        fs::File::open(&temporary)?.sync_all()?;
        if path.symlink_metadata().is_ok() {
            fs::rename(&path, folder.join("manifest.json.damaged"))?;
        }
        fs::rename(&temporary, &path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(rebuilt)
}
