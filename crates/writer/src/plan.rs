//! The plan, which assigns samples to shards. It is a pure function of samples and options.

use crate::error::{Error, Result};
use crate::names::shard_count;
use crate::permutation::shuffle;
use sha2::{Digest, Sha256};
use shardpack_format::{
    COLUMNS_FILE, DatasetId, IndexBuilder, Limits, Manifest, Metadata, VERSION, bug, check_key, saturating_u32,
    to_usize,
};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// The properties of a sample that a plan depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanSample<'a> {
    /// Key of the sample: its path below the source folder.
    pub key: &'a str,
    /// Size of the source in bytes.
    pub source_bytes: u64,
    /// Estimated size of the record in bytes, which determines where shards end. It must be a pure function of the
    /// source and the options, so that every run gets the same size.
    pub stored_bytes: u64,
    /// Modification time of the source in nanoseconds since 1970, or 0. It reveals whether the source has changed
    /// between runs, and is not part of the dataset id.
    pub mtime_ns: i64,
    /// Digest of all other properties that are known before the sample is read, such as its label and other columns.
    /// Zeros if there are none. Part of the dataset id.
    pub extra_digest: [u8; 16],
}

/// Options of a plan.
///
/// ```
/// assert_eq!(shardpack_writer::PlanOptions::default().shard_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Maximum size of a shard in bytes. A shard ends before the sample that would exceed it. A sample that alone
    /// exceeds this size gets its own shard. Default 1 GiB.
    pub shard_bytes: u64,
    /// Seed for shuffling the samples, or `None` to keep their order. Default: seed 0.
    pub shuffle: Option<u64>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { shard_bytes: 1 << 30, shuffle: Some(0) }
    }
}

/// Stored in place of the digest of modification times if the samples come from a program and therefore have no
/// modification times.
pub(crate) const OF_PROGRAM: [u8; 32] = [0xFF; 32];

/// The assignment of samples to shards, and the dataset id. Takes 4 bytes of memory per sample.
///
/// ```
/// use shardpack_writer::{Plan, PlanOptions, PlanSample};
/// let sample = |key| PlanSample { key, source_bytes: 600, stored_bytes: 600, ..Default::default() };
/// let options = PlanOptions { shard_bytes: 1000, shuffle: None };
/// let plan = Plan::new([sample("a"), sample("b")], Default::default(), options)?;
/// assert_eq!((plan.shard_count(), plan.samples(1)), (2, &[1][..]));
/// # Ok::<(), shardpack_writer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(crate) identity: Fingerprint,
    pub(crate) metadata: Metadata,
    pub(crate) order: Vec<u32>,
    pub(crate) shards: Vec<PlannedShard>,
    pub(crate) ids: Ids,
    /// True if the shards are columns files.
    pub(crate) is_columns: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ids {
    /// Consecutive ids that start with this number, in the order of the caller's samples.
    From(u64),
    /// One id per sample, in the order of the caller's samples.
    Listed(Vec<u64>),
}

/// Properties of a plan. They are compared separately, so that an error can name the property that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) dataset_id: DatasetId,
    pub(crate) options: PlanOptions,
    pub(crate) samples: u64,
    /// SHA-256 over the keys, sizes and extra digests of all samples.
    pub(crate) inputs: [u8; 32],
    /// SHA-256 over the modification times of all sources.
    pub(crate) mtimes: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedShard {
    pub(crate) number: u32,
    pub(crate) samples: Range<usize>,
    pub(crate) source_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Plan {
    /// Plans a dataset of these samples, which are numbered from 0 in the given order. The plan sets `metadata.shards`.
    ///
    /// The dataset id is the first 16 bytes of a SHA-256 over the format version, the metadata, the options and, for
    /// every sample, its key, both sizes and the extra digest. The id does not depend on local paths, times or the
    /// number of threads.
    ///
    /// # Errors
    /// `Usage` if there are no samples, if a key occurs twice, or if `shard_bytes` is 0; `Format` if a key is not
    /// allowed; `Limit` if there are 2³² samples or more, or if a reader with the default [`Limits`] would refuse the
    /// fields, the metadata, the index of a shard, or the number of shards (a manifest can list about 200,000).
    pub fn new<'a, I>(samples: I, metadata: Metadata, options: PlanOptions) -> Result<Self>
    where
        I: IntoIterator<Item = PlanSample<'a>>,
        I::IntoIter: Clone,
    {
        if options.shard_bytes == 0 {
            return Err(Error::usage("the shard size must be at least 1 byte, not 0", ""));
        }
        let samples = samples.into_iter();
        let mut inputs = Sha256::new();
        let mut mtimes = Sha256::new();
        // Check this first, because a dataset without room for its shards is unreadable in any case.
        let room = room_for_shards(&metadata)?;
        let mut sizes = Vec::new();
        let mut key_hashes = Vec::new();
        for sample in samples.clone() {
            check_key(sample.key)?;
            inputs.update((sample.key.len() as u64).to_le_bytes());
            inputs.update(sample.key.as_bytes());
            inputs.update(sample.source_bytes.to_le_bytes());
            inputs.update(sample.stored_bytes.to_le_bytes());
            inputs.update(sample.extra_digest);
            mtimes.update(sample.mtime_ns.to_le_bytes());
            let key = saturating_u32(sample.key.len());
            sizes.push(Size { source: sample.source_bytes, stored: sample.stored_bytes, key });
            key_hashes.push(hash_key(sample.key));
        }
        refuse_duplicates(samples.map(|s| s.key), key_hashes)?;
        let count = u32::try_from(sizes.len()).map_err(|_| Error::Limit {
            what: "number of samples".into(),
            limit: u64::from(u32::MAX),
            found: sizes.len() as u64,
            hint: "split the input into several datasets".into(),
        })?;
        if count == 0 {
            return Err(Error::usage("there are no samples to pack", ""));
        }
        let mut order: Vec<u32> = (0..count).collect();
        if let Some(seed) = options.shuffle {
            shuffle(&mut order, seed);
        }
        let shards = cut(&order, &sizes, options.shard_bytes)?;
        refuse_too_many(shards.len() as u64, room)?;
        refuse_large_indexes(&shards, &order, &sizes, &metadata)?;
        let inputs: [u8; 32] = inputs.finalize().into();
        let dataset_id = name_dataset(&metadata, options, sizes.len() as u64, &inputs)?;
        let metadata = Metadata { shards: Some(shard_count(shards.len())), ..metadata };
        let mtimes = mtimes.finalize().into();
        let identity = Fingerprint { dataset_id, options, samples: u64::from(count), inputs, mtimes };
        Ok(Self { identity, metadata, order, shards, ids: Ids::From(0), is_columns: false })
    }

    /// Marks the samples as coming from a program. Such samples are lost when the program ends, so
    /// [`Growth::clear`](crate::Growth::clear) removes the unfinished shards of this plan.
    #[must_use]
    pub const fn of_program(mut self) -> Self {
        self.identity.mtimes = OF_PROGRAM;
        self
    }

    /// Returns the dataset id.
    #[must_use]
    pub const fn dataset_id(&self) -> DatasetId {
        self.identity.dataset_id
    }

    /// Returns the metadata of the dataset. Every shard repeats it.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the number of samples.
    #[must_use]
    pub const fn sample_count(&self) -> u64 {
        self.identity.samples
    }

    /// Returns the number of shards to write (at least 1).
    #[must_use]
    pub fn shard_count(&self) -> u32 {
        shard_count(self.shards.len())
    }

    /// Returns the samples of a shard in stored order, as indices into the caller's samples. Empty past the last shard.
    #[must_use]
    pub fn samples(&self, shard_number: u32) -> &[u32] {
        let shard = self.shard(shard_number);
        let samples = shard.and_then(|s| self.order.get(s.samples.clone()));
        debug_assert!(samples.is_some() || shard.is_none(), "samples of shard {shard_number} that are not there");
        samples.unwrap_or_default()
    }

    /// Returns the total source size of a shard's samples, in bytes.
    #[must_use]
    pub fn source_bytes(&self, shard_number: u32) -> u64 {
        self.shard(shard_number).map_or(0, |s| s.source_bytes)
    }

    /// Returns the estimated total size of a shard's records, in bytes.
    #[must_use]
    pub fn stored_bytes(&self, shard_number: u32) -> u64 {
        self.shard(shard_number).map_or(0, |s| s.stored_bytes)
    }

    /// Returns the optional-feature bits of the shards (spec §7).
    pub(crate) fn optional_features(&self) -> u64 {
        self.metadata.schema.optional_features() | if self.is_columns { COLUMNS_FILE } else { 0 }
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.shards.iter().map(|shard| shard.number)
    }

    pub(crate) fn id(&self, sample: u64) -> u64 {
        match &self.ids {
            Ids::From(first) => first.saturating_add(sample),
            Ids::Listed(ids) => {
                ids.get(to_usize(sample)).copied().unwrap_or_else(|| bug("an id for every planned sample"))
            }
        }
    }

    fn shard(&self, number: u32) -> Option<&PlannedShard> {
        self.shards.get(self.shards.binary_search_by_key(&number, |shard| shard.number).ok()?)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    source: u64,
    stored: u64,
    key: u32,
}

fn size_of(sizes: &[Size], sample: u32) -> Size {
    sizes.get(to_usize(sample)).copied().unwrap_or_else(|| bug("a size for every sample in the order"))
}

fn cut(order: &[u32], sizes: &[Size], shard_bytes: u64) -> Result<Vec<PlannedShard>> {
    let mut shards = Vec::new();
    let mut open = PlannedShard { number: 0, samples: 0..0, source_bytes: 0, stored_bytes: 0 };
    for (position, &sample) in order.iter().enumerate() {
        let Size { source, stored, .. } = size_of(sizes, sample);
        if !open.samples.is_empty() && open.stored_bytes.saturating_add(stored) > shard_bytes {
            // This may saturate, because too many shards are refused below.
            let number = open.number.saturating_add(1);
            let next = PlannedShard { number, samples: position..position, source_bytes: 0, stored_bytes: 0 };
            shards.push(std::mem::replace(&mut open, next));
        }
        open.samples.end = position + 1;
        open.source_bytes = open.source_bytes.saturating_add(source);
        open.stored_bytes = open.stored_bytes.saturating_add(stored);
    }
    shards.push(open);
    Ok(shards)
}

/// Returns the maximum number of shards. Packing more shards must not start, because readers with default limits would
/// refuse the result.
pub(crate) fn room_for_shards(metadata: &Metadata) -> Result<u64> {
    // The number of shards is not known yet, so assume the largest one.
    let metadata = Metadata { shards: Some(u32::MAX), ..metadata.clone() };
    Manifest::room_for_shards(&metadata, &Limits::default()).map_err(|error| match error {
        shardpack_format::Error::Limit { what, limit, found, .. } => {
            let hint = "use fewer fields or classes, or shorter names: readers reject larger metadata by default";
            Error::Limit { what, limit, found, hint: hint.into() }
        }
        other => other.into(),
    })
}

pub(crate) fn refuse_too_many(found: u64, limit: u64) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::Limit { what: "number of shards".into(), limit, found, hint: "choose larger shards".into() })
}

fn refuse_large_indexes(shards: &[PlannedShard], order: &[u32], sizes: &[Size], metadata: &Metadata) -> Result<()> {
    let limits = Limits::default();
    let fixed = metadata.encode()?.len() as u64 + 64;
    for (number, shard) in shards.iter().enumerate() {
        let samples = order.get(shard.samples.clone()).unwrap_or_else(|| bug("shards cut from the order"));
        let mut keys = 0;
        for &sample in samples {
            keys += u64::from(size_of(sizes, sample).key);
        }
        let records = samples.len() as u64;
        let bytes = fixed.saturating_add(IndexBuilder::bytes_for(&metadata.schema, records, keys));
        for (what, limit, found) in [
            ("number of records", limits.max_records, records),
            ("number of index bytes", limits.max_index_bytes, bytes),
        ] {
            if found > limit {
                let what = format!("{what} in shard {number}");
                return Err(Error::Limit { what, limit, found, hint: "choose smaller shards".into() });
            }
        }
    }
    Ok(())
}

fn name_dataset(metadata: &Metadata, options: PlanOptions, samples: u64, inputs: &[u8; 32]) -> Result<DatasetId> {
    let metadata = Metadata { shards: None, ..metadata.clone() }.encode()?;
    let mut id = Sha256::new();
    id.update(b"shardpack dataset id 1\n");
    id.update(VERSION.0.to_le_bytes());
    id.update(VERSION.1.to_le_bytes());
    id.update((metadata.len() as u64).to_le_bytes());
    id.update(&metadata);
    id.update(options.shard_bytes.to_le_bytes());
    id.update([u8::from(options.shuffle.is_some())]);
    id.update(options.shuffle.unwrap_or(0).to_le_bytes());
    id.update(samples.to_le_bytes());
    id.update(inputs);
    let digest: [u8; 32] = id.finalize().into();
    let mut first = [0; 16];
    first.copy_from_slice(digest.split_at(16).0);
    Ok(DatasetId(first))
}

fn hash_key(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Refuses duplicate keys. Sorts the hashes, which take 8 bytes per sample, and compares only keys with equal hashes. A
/// set of keys would take 50 bytes per sample.
fn refuse_duplicates<'a>(keys: impl Iterator<Item = &'a str>, mut hashes: Vec<u64>) -> Result<()> {
    hashes.sort_unstable();
    let meeting: HashSet<u64> = hashes.windows(2).filter(|w| w.first() == w.last()).flatten().copied().collect();
    if meeting.is_empty() {
        return Ok(());
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (number, key) in keys.enumerate().filter(|(_, key)| meeting.contains(&hash_key(key))) {
        if let Some(first) = seen.insert(key, number) {
            let key = key.escape_debug();
            return Err(Error::usage(format!("sample key `{key}` occurs twice: samples {first} and {number}"), ""));
        }
    }
    Ok(())
}
