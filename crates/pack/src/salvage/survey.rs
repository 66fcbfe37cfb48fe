//! Finds the undamaged records in a damaged dataset, and the places where samples were lost.

use super::folder::DamagedFolder;
use super::options::SalvageOptions;
use super::watched::WatchedStorage;
use crate::bail;
use shardpack_format::{Limits, Manifest, Metadata, Note, visible_path};
use shardpack_io::Storage;
use shardpack_reader::{SalvageScan, SalvageSource, Salvaged};
use shardpack_sources::words::plural;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of listed losses. A shard of small records can have millions of them.
const LISTED: usize = 10_000;

/// The undamaged records of a damaged dataset, and the places where samples were lost.
#[derive(Debug, Default)]
pub struct Survey {
    pub(super) files: Vec<SalvageSource>,
    pub(super) records: Vec<WholeRecord>,
    pub(super) metadata: Option<Metadata>,
    /// Number of duplicate records, left over from rewriting shards.
    copies: u64,
    /// Descriptions of the first 10,000 places that cannot be salvaged. Each names the sample and the reason.
    pub lost: Vec<String>,
    /// Number of places that cannot be salvaged, in addition to the places in `lost`.
    pub lost_unlisted: u64,
    /// Damage in headers, footers and indexes that causes no loss of samples.
    pub damage: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<Note>,
}

#[derive(Debug)]
pub(super) struct WholeRecord {
    /// Position of the record's file in [`Survey::files`].
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) record_bytes: u64,
    sample_id: u64,
    pub(super) crc32: u32,
    pub(super) key: String,
}

impl WholeRecord {
    /// Returns a digest that changes if the content under any key changes. It becomes part of the new dataset's
    /// id, so that an interrupted salvage never continues from a different source.
    pub(super) fn digest(&self) -> [u8; 16] {
        let mut digest = [0; 16];
        let content = self.crc32.to_le_bytes().into_iter().chain(self.sample_id.to_le_bytes());
        digest.iter_mut().zip(content).for_each(|(to, from)| *to = from);
        digest
    }
}

fn not_cancelled(cancel: &AtomicBool) -> crate::Result<()> {
    match cancel.load(Ordering::Relaxed) {
        true => Err(shardpack_writer::Error::Cancelled.into()),
        false => Ok(()),
    }
}

impl Survey {
    /// Returns the number of undamaged records.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the number of places that cannot be salvaged.
    #[must_use]
    pub fn places_lost(&self) -> u64 {
        self.lost_unlisted.saturating_add(self.lost.len() as u64)
    }

    pub(super) fn lose(&mut self, what: String) {
        if self.lost.len() < LISTED {
            self.lost.push(what);
        } else {
            self.lost_unlisted += 1;
        }
    }

    /// Scans a lone shard or the shards of a folder. In a folder, these are the shards of the newest manifest
    /// and, if the dataset never grew or [`SalvageOptions::all_generations`] is set, all other `.shard` files.
    /// Setting `cancel` stops the scan.
    ///
    /// # Errors
    /// Fails if the path cannot be read or has no shards, or if the newest generation's manifest is damaged or
    /// missing (unless `all_generations` is set).
    pub fn scan(path: &Path, options: &SalvageOptions, cancel: &AtomicBool) -> crate::Result<Self> {
        Self::of(DamagedFolder::look(path, options)?, options, &|| not_cancelled(cancel))
    }

    /// Like [`scan`](Self::scan), for a folder in a store, or for its shard `name`.
    ///
    /// # Errors
    /// Same as [`scan`](Self::scan). Also fails if the store does not answer or refuses a request, so that an outage is
    /// not taken for damage.
    pub fn scan_in(
        storage: Arc<dyn Storage>,
        name: Option<&str>,
        options: &SalvageOptions,
        cancel: &AtomicBool,
    ) -> crate::Result<Self> {
        let (storage, outage) = WatchedStorage::new(storage);
        // Cancelling makes requests fail too.
        let check = || not_cancelled(cancel).and_then(|()| Ok(outage.check()?));
        let survey =
            DamagedFolder::look_in(storage, name, options).and_then(|folder| Self::of(folder, options, &check));
        check()?;
        survey
    }

    /// Calls `check` often, and fails with its error.
    fn of(
        mut folder: DamagedFolder,
        options: &SalvageOptions,
        check: &dyn Fn() -> crate::Result<()>,
    ) -> crate::Result<Self> {
        let limits = &options.limits;
        let (damage, notes) = (std::mem::take(&mut folder.damage), std::mem::take(&mut folder.notes));
        let mut survey = Self { damage, notes, ..Self::default() };
        let mut scans = Vec::new();
        for shard in &folder.shards {
            check()?;
            match folder.scan(shard, limits) {
                Ok(scan) => scans.push((shard, scan)),
                Err(error) => {
                    let samples =
                        folder.samples(shard).map(|n| format!(" ({})", plural(n, "sample"))).unwrap_or_default();
                    survey.lose(format!("`{}`: cannot read the shard{samples}: {error}", shard.display()));
                }
            }
        }
        if let Some((file, identity)) = scans.iter().find_map(|(shard, scan)| Some((shard, scan.identity()?)))
            && identity.is_columns_file()
        {
            let text = format!(
                "`{}` is a columns file: it has columns that were added to the samples of shard {} of dataset {}, but \
                 not the samples",
                visible_path(file),
                identity.shard_number,
                identity.dataset_id
            );
            bail!(Note::new(text).with_hint("salvage the folder of the dataset, then add the columns again"));
        }
        // Keep only the shards of one dataset: the manifest's dataset or, without a manifest, the
        // dataset of the first shard that names one.
        let ids = || scans.iter().filter_map(|(_, scan)| scan.identity().map(|i| i.dataset_id));
        let id = folder.manifest.as_ref().map(|m| m.dataset_id).or_else(|| ids().next());
        scans.retain(|(shard, scan)| match (id, scan.identity()) {
            (Some(id), Some(identity)) if identity.dataset_id != id => {
                let other = identity.dataset_id;
                survey.lose(format!("`{}`: the shard belongs to dataset {other}, not to {id}", shard.display()));
                false
            }
            _ => true,
        });
        // Sort the shards by number, so that the samples stay shuffled. Shards of the newest generation come
        // first, because only the first of several samples with the same key is kept.
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
                check()?;
                survey.take(shard, finding, &mut seen);
            }
            let accounted = accounted(&survey) - before;
            if let Some(missing) = expected.and_then(|n| n.checked_sub(accounted)).filter(|&n| n > 0) {
                let samples = plural(missing, "more sample");
                survey.lose(format!("`{}`: {samples}, because the file was truncated or overwritten", shard.display()));
            }
        }
        Ok(survey)
    }

    /// Records a finding about the file that was opened last. `seen` maps each key to its sample id and CRC.
    fn take(&mut self, shard: &Path, finding: Salvaged, seen: &mut HashMap<String, (u64, u32)>) {
        match finding {
            Salvaged::Whole(record) => {
                let content = (record.frame.sample_id, record.frame.body_crc32);
                match seen.get(&record.key) {
                    Some(first) if *first == content => self.copies += 1,
                    Some(_) => {
                        let key = record.key.escape_debug();
                        self.lose(format!(
                            "`{}`: sample key `{key}` occurs twice; the first sample is kept",
                            shard.display()
                        ));
                    }
                    None => {
                        seen.insert(record.key.clone(), content);
                        self.records.push(WholeRecord {
                            // A file is added before its records, so this record belongs to the last file.
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
                // A format error already names the file and the sample.
                self.lose(match why.starts_with(&file) && (key.is_empty() || why.contains("sample `")) {
                    true => format!("{why} ({range})"),
                    false => format!("{file}: {range}: {key}{why}"),
                });
            }
        }
    }

    /// Keeps the first metadata with a shard count within the limits. Only the headers of shards show whether a field
    /// named like a segment index really is one. If all headers and footers are damaged, the field is treated as the
    /// user's own, so that no data is hidden.
    fn take_metadata(&mut self, scans: &[(&PathBuf, SalvageScan)], limits: &Limits) {
        for (shard, scan) in scans {
            let Some((metadata, _)) = scan.metadata() else { continue };
            match metadata.shards.map(u64::from).filter(|&count| count > limits.max_shards) {
                None => {
                    let identities = || scans.iter().filter_map(|(_, scan)| scan.identity());
                    let features = scan.identity().or_else(|| identities().next()).map_or(0, |i| i.optional_features);
                    let schema = metadata.schema.clone().with_features(features);
                    self.metadata = Some(Metadata { schema, ..metadata.clone() });
                    return;
                }
                Some(count) => self.damage.push(format!(
                    "`{}`: the metadata lists {count} shards, but at most {} are allowed",
                    shard.display(),
                    limits.max_shards
                )),
            }
        }
    }

    /// Keeps the longest list of classes. Later generations append classes (spec §3.5), and the
    /// labels of newer samples refer to these.
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

    /// Reports gaps in the numbers of the shards. If there is a manifest, missing shards are known by name instead.
    fn note_missing_shards(&mut self, scans: &[(&PathBuf, SalvageScan)], manifest: Option<&Manifest>) {
        let count = self.metadata.as_ref().and_then(|metadata| metadata.shards);
        let (None, Some(count)) = (manifest, count.filter(|_| scans.len() > 1)) else { return };
        let there = scans.iter().filter_map(|(_, scan)| scan.identity().map(|i| i.shard_number));
        let gaps = gaps(count, there.collect());
        for gap in gaps {
            self.lose(match gap.end - gap.start {
                1 => format!("shard {} of {count}: the whole shard is missing", gap.start),
                shards => {
                    format!("shards {} to {} of {count}: {shards} whole shards are missing", gap.start, gap.end - 1)
                }
            });
        }
    }
}

/// Returns the numbers below `count` that are missing from `there`, as ranges.
pub(super) fn gaps(count: u32, there: BTreeSet<u32>) -> Vec<Range<u32>> {
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
