//! Provides access to a dataset. The manifest is in memory, and shards are opened on first use.

use crate::cast::Cast;
use crate::column::Column;
use crate::columns_files::with_columns_files;
use crate::error::{Error, Result};
use crate::handles::{Handles, ShardFile};
use crate::key_table::KeyTable;
use crate::shard::{Shard, ShardOptions};
use shardpack_io::{Storage, Traffic};

use shardpack_format::{
    DatasetId, Dtype, Error as FormatError, Explain as _, FieldKind, Hint, Limits, Manifest, Metadata, Recipe, Schema,
    Setting, ShardEntry, SharedMetadata, bug,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open dataset. Cloning it is cheap, and all methods may be called from many threads at once.
///
/// Samples are numbered in stored order: the records of shard 0, then the records of shard 1, and so on.
#[derive(Debug, Clone)]
pub struct Dataset(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) samples: u64,
    pub(crate) dataset_id: DatasetId,
    pub(crate) metadata: Metadata,
    /// The manifest and the file handles, or `None` for a lone shard and for a concatenation.
    pub(crate) source: Option<FromManifest>,
    /// Storage of the dataset's files, or `None` for a shard opened by its path and for a concatenation.
    pub(crate) storage: Option<Arc<dyn Storage>>,
    pub(crate) slots: Vec<Slot>,
    /// Sample range of each concatenated dataset. For any other dataset, a single range with all samples.
    pub(crate) parts: Vec<Range<u64>>,
    pub(crate) options: ShardOptions,
    pub(crate) keys: OnceLock<KeyTable>,
    /// Metadata of the first shard that was opened, shared by all shards with equal metadata.
    pub(crate) known: OnceLock<SharedMetadata>,
}

#[derive(Debug)]
pub(crate) struct FromManifest {
    pub(crate) handles: Arc<Handles>,
    pub(crate) manifest: Manifest,
}

/// A shard that is opened on first use.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Index of the shard's first sample.
    pub(crate) first: u64,
    pub(crate) samples: u64,
    pub(crate) origin: Origin,
    pub(crate) shard: OnceLock<Arc<Shard>>,
    /// Damage found in the header, footer or index, kept to avoid reading a large index again for every sample. Failed
    /// reads are not kept, so they are retried.
    pub(crate) damage: OnceLock<FormatError>,
}

#[derive(Debug)]
pub(crate) enum Origin {
    Entry(ShardEntry),
    /// A shard opened on its own, without a manifest.
    Lone,
    Member(MemberShard),
}

/// Shard `number` of a concatenated dataset, with the conversion of its columns.
#[derive(Debug)]
pub(crate) struct MemberShard {
    pub(crate) dataset: Dataset,
    pub(crate) number: usize,
    pub(crate) cast: Option<Arc<Cast>>,
}

/// Properties of a shard that are known without opening it.
///
/// ```
/// use shardpack_reader::ShardInfo;
/// let info = ShardInfo { name: "shard-00000.shard".into(), bytes: 1024, samples: 3 };
/// assert_eq!(info.samples, 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    /// File name relative to the manifest. In a concatenation, the folder of the shard's dataset comes first.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of records.
    pub samples: u64,
}

impl Dataset {
    pub(crate) fn of_lone_shard(shard: Shard, storage: Option<Arc<dyn Storage>>) -> Self {
        let slot = Slot {
            first: 0,
            samples: shard.len(),
            origin: Origin::Lone,
            shard: OnceLock::new(),
            damage: OnceLock::new(),
        };
        let mut metadata = shard.index().metadata().clone();
        metadata.schema = metadata.schema.with_features(shard.identity().optional_features);
        let inner = Inner {
            path: shard.path().into(),
            samples: shard.len(),
            dataset_id: shard.identity().dataset_id,
            parts: std::iter::once(0..shard.len()).collect(),
            metadata,
            source: None,
            storage,
            options: shard.options().clone(),
            slots: vec![slot],
            keys: OnceLock::new(),
            known: OnceLock::new(),
        };
        if let Some(slot) = inner.slots.first() {
            let _ = slot.shard.set(Arc::new(shard));
        }
        Self(Arc::new(inner))
    }

    /// Returns the path of the manifest or of the lone shard. For a concatenation, returns all paths joined by
    /// ` + `, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the manifest, or `None` for a lone shard and for a concatenation.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.0.source.as_ref().map(|s| &s.manifest)
    }

    /// Returns the id shared by all shards of the dataset. For a concatenation, returns a digest of the ids of
    /// its datasets.
    #[must_use]
    pub fn dataset_id(&self) -> DatasetId {
        self.0.dataset_id
    }

    /// Returns the limits on the sizes that a file may declare.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.options.limits
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.samples
    }

    /// Returns true if the dataset has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fields of a sample.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.0.metadata.schema
    }

    /// Returns the class names, if the dataset has any. The field `label` is a zero-based index into this list.
    #[must_use]
    pub fn classes(&self) -> Option<&[String]> {
        self.0.metadata.classes.as_deref()
    }

    /// Returns the options that the dataset was packed with.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.0.metadata.recipe
    }

    /// Returns the fidelity statistics of each field over all samples, or `None` for a lone shard.
    #[must_use]
    pub fn fidelity(&self) -> Option<&Recipe> {
        self.manifest().map(|m| &m.fidelity)
    }

    /// Returns the name, size and number of samples of each shard, without opening any.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = ShardInfo> {
        self.0.slots.iter().map(|slot| self.info(slot))
    }

    /// Returns the range of samples in shard `number`, which is empty if there is no such shard. Opens no files.
    #[must_use]
    pub fn samples_in(&self, number: usize) -> Range<u64> {
        self.0.slots.get(number).map_or(0..0, |slot| slot.first..slot.first + slot.samples)
    }

    /// Iterates over the shards that contain some of `samples`, with the range of their records in each shard.
    /// Opens no files.
    pub fn records_of(&self, samples: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let (slots, end) = (&self.0.slots, samples.end);
        let from = slots.partition_point(|slot| slot.first + slot.samples <= samples.start);
        let touched = slots.iter().enumerate().skip(from).take_while(move |(_, slot)| slot.first < end);
        touched.filter_map(move |(number, slot)| {
            let records =
                samples.start.max(slot.first) - slot.first..samples.end.min(slot.first + slot.samples) - slot.first;
            (!records.is_empty()).then_some((number, records))
        })
    }

    fn info(&self, slot: &Slot) -> ShardInfo {
        match &slot.origin {
            Origin::Entry(entry) => ShardInfo { name: entry.name.clone(), bytes: entry.bytes, samples: entry.samples },
            Origin::Lone => ShardInfo {
                name: self.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
                bytes: slot.shard.get().map_or(0, |shard| shard.file_bytes()),
                samples: slot.samples,
            },
            Origin::Member(MemberShard { dataset: part, number, .. }) => {
                let unknown = || ShardInfo { name: String::new(), bytes: 0, samples: slot.samples };
                let mut info = part.0.slots.get(*number).map_or_else(unknown, |slot| part.info(slot));
                let folder = part.path().parent().unwrap_or(Path::new(""));
                info.name = folder.join(info.name).to_string_lossy().into_owned();
                info
            }
        }
    }

    /// Returns shard `number`. The first use opens it and compares it with the manifest.
    ///
    /// # Errors
    /// `Usage` past the end; `Format` if the shard differs from its entry in the manifest; otherwise the same
    /// as [`Shard::open`].
    pub fn shard(&self, number: usize) -> Result<Arc<Shard>> {
        let slots = &self.0.slots;
        let slot = slots.get(number).ok_or_else(|| {
            Error::usage(format!("there is no shard {number}: the dataset has {} shards, numbered from 0", slots.len()))
        })?;
        if let Some(shard) = slot.shard.get() {
            return Ok(Arc::clone(shard));
        }
        let (source, entry) = match (&self.0.source, &slot.origin) {
            (_, Origin::Member(MemberShard { dataset, number, cast: None })) => return dataset.shard(*number),
            (_, Origin::Member(MemberShard { dataset, number, cast: Some(cast) })) => {
                let shard = dataset.shard(*number)?;
                let shard = shard.part_of(cast.apply(&shard)?);
                return Ok(Arc::clone(slot.shard.get_or_init(|| Arc::new(shard))));
            }
            (Some(source), Origin::Entry(entry)) => (source, entry),
            // A lone shard is opened together with its dataset, so this cannot be reached.
            _ => bug("a shard of a dataset without storage is not open"),
        };
        if let Some(damage) = slot.damage.get() {
            return Err(damage.clone().into());
        }
        match self.open_shard(source, entry, number) {
            Ok(shard) => Ok(Arc::clone(slot.shard.get_or_init(|| Arc::new(shard)))),
            Err(Error::Data(damage)) if damage.kind().is_about_data() => {
                Err(slot.damage.get_or_init(|| damage).clone().into())
            }
            Err(other) => Err(other),
        }
    }

    /// Returns true if [`Dataset::shard`] would return without reading anything, because the shard is open,
    /// known to be damaged, or does not exist.
    #[must_use]
    pub fn is_open(&self, number: usize) -> bool {
        self.0.slots.get(number).is_none_or(|slot| match &slot.origin {
            Origin::Member(MemberShard { dataset, number, cast: None }) => dataset.is_open(*number),
            _ => slot.shard.get().is_some() || slot.damage.get().is_some(),
        })
    }

    /// Like [`Dataset::shard`], but returns `None` for a damaged shard, for callers that can continue without it.
    /// Reading its samples later reports the damage.
    ///
    /// # Errors
    /// `Io` if the shard cannot be read.
    pub fn shard_unless_damaged(&self, number: usize) -> Result<Option<Arc<Shard>>> {
        match self.shard(number) {
            Ok(shard) => Ok(Some(shard)),
            Err(error) if error.kind().is_about_data() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Iterates over the numbers of all shards. Announces the next shards to the storage, so that a networked storage
    /// can fetch several at once.
    pub fn shard_numbers(&self) -> impl Iterator<Item = usize> + '_ {
        /// Number of shards to announce ahead, which keeps many small requests in flight.
        const AHEAD: usize = 64;
        self.advise_shards(0..AHEAD.min(self.0.slots.len()));
        (0..self.0.slots.len()).inspect(|number| {
            let next = number.saturating_add(AHEAD);
            self.advise_shards(next..next.saturating_add(1));
        })
    }

    /// Tells the storage that these shards will be opened soon.
    pub fn advise_shards(&self, numbers: Range<usize>) {
        for (number, slot) in numbers.clone().zip(self.0.slots.get(numbers).unwrap_or_default()) {
            if slot.shard.get().is_some() || slot.damage.get().is_some() {
                continue;
            }
            match (&slot.origin, &self.0.storage) {
                (Origin::Member(MemberShard { dataset, number, .. }), _) => dataset.advise_shards(*number..number + 1),
                (Origin::Entry(entry), Some(storage)) => {
                    storage.advise_open(&entry.name);
                    let columns = self.manifest().map(|manifest| manifest.columns.as_slice()).unwrap_or_default();
                    let files = columns.iter().filter_map(|columns| columns.files.get(number));
                    files.for_each(|file| storage.advise_open(&file.name));
                }
                _ => {}
            }
        }
    }

    /// Returns the datasets of a concatenation. A dataset may occur several times.
    fn members(&self) -> Vec<&Self> {
        let of_slots = self.0.slots.iter().filter_map(|slot| match &slot.origin {
            Origin::Member(MemberShard { dataset, .. }) => Some(dataset),
            _ => None,
        });
        let mut members: Vec<&Self> = of_slots.collect();
        members.dedup_by(|next, last| Arc::ptr_eq(&next.0, &last.0));
        members
    }

    /// Returns true if the dataset, or a dataset of the concatenation, has columns files (spec §3.6).
    #[must_use]
    pub fn has_columns_files(&self) -> bool {
        self.manifest().is_some_and(|manifest| !manifest.columns.is_empty())
            || self.members().into_iter().any(Self::has_columns_files)
    }

    fn storages(&self) -> Vec<&Arc<dyn Storage>> {
        let of_members = self.members().into_iter().flat_map(Self::storages);
        self.0.storage.iter().chain(of_members).collect()
    }

    /// Returns the number of bytes that the storage reads ahead into its own memory, or 0 for local disks.
    #[must_use]
    pub fn read_ahead_bytes(&self) -> u64 {
        self.storages().iter().fold(0, |sum, storage| sum.saturating_add(storage.read_ahead_bytes()))
    }

    /// Returns the storage's network traffic so far, which is zero for local disks.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.storages().iter().fold(Traffic::default(), |sum, storage| sum.plus(storage.traffic()))
    }

    fn open_shard(&self, source: &FromManifest, entry: &ShardEntry, place: usize) -> Result<Shard> {
        let file = ShardFile::pooled(&source.handles, &entry.name)?;
        let shard = Shard::from_file(file, self.0.options.clone(), self.0.known.get())?;
        let number = shardpack_format::saturating_u32(place);
        let same = source.manifest.check_shard(number, shard.footer(), shard.index().metadata());
        same.map_err(|e| e.in_file(shard.path().to_string_lossy()))?;
        self.0.known.get_or_init(|| shard.index().shared_metadata().clone());
        match source.manifest.columns.is_empty() {
            true => Ok(shard),
            false => {
                let FromManifest { handles, manifest } = source;
                with_columns_files(shard, place, manifest, handles, self.schema(), &self.0.options)
            }
        }
    }

    /// Returns the number of the shard that contains sample `index`, and the index of its record in that shard.
    ///
    /// # Errors
    /// `Usage` past the end.
    pub fn locate(&self, index: u64) -> Result<(usize, u64)> {
        // An empty shard starts at the same index as the shard after it, so take the last shard that starts there.
        let after = self.0.slots.partition_point(|slot| slot.first <= index);
        match after.checked_sub(1).and_then(|number| self.0.slots.get(number).map(|slot| (number, slot))) {
            Some((number, slot)) if index - slot.first < slot.samples => Ok((number, index - slot.first)),
            _ => Err(Error::usage(format!(
                "there is no sample {index}: the dataset has {} samples, numbered from 0",
                self.len()
            ))),
        }
    }

    /// Returns all values of a scalar field in sample order. Opens every shard but reads no records.
    ///
    /// # Errors
    /// `Usage` if the dataset has no scalar field of this name; otherwise the same as [`Dataset::shard`].
    pub fn column(&self, name: &str) -> Result<Column> {
        let Some((position, dtype)) = self.schema().scalar_position(name) else {
            let names: Vec<&str> = self.schema().scalars().map(|(name, _)| name).collect();
            return Err(Error::usage(format!(
                "the dataset has no scalar field `{}`; its scalar fields are [{}]",
                name.escape_debug(),
                names.join(", ")
            )));
        };
        let mut column = Column::new(dtype, Vec::new());
        for number in self.shard_numbers() {
            let shard = self.shard(number)?;
            // Fail, because skipping the shard would assign all later labels to the wrong samples.
            let of_shard = shard.column_bytes(position);
            column.extend(
                of_shard.ok_or_else(|| FormatError::format("number of columns in a shard", position + 1, position))?,
            );
        }
        Ok(column)
    }

    /// Returns the class of every sample, from the scalar field `label`, as signed integers.
    ///
    /// # Errors
    /// `Usage` if there is no such field or its type is not an integer; otherwise the same as
    /// [`Dataset::shard`].
    pub fn labels(&self) -> Result<Vec<i64>> {
        let schema = self.schema();
        if !schema.scalars().any(|(name, _)| name == "label") {
            let of_text = schema.fields().iter().filter(|field| field.kind == FieldKind::Text);
            let names: Vec<String> = of_text.map(|field| format!("`{}`", field.name.escape_debug())).collect();
            let error = Error::usage("the dataset has no labels: there is no field `label`");
            return Err(match names.as_slice() {
                [] => error,
                _ => error.with_hint(
                    Hint::new("pack with ")
                        .and([Setting::any("label_column", "NAME")])
                        .then(format!(" to make classes from a text field (this dataset has {})", names.join(", "))),
                ),
            });
        }
        let column = self.column("label")?;
        match column.dtype() {
            dtype @ (Dtype::F16 | Dtype::F32 | Dtype::F64) => {
                Err(Error::usage(format!("the field `label` must be an integer field, but its type is {dtype}")))
            }
            _ => column.to_i64s().ok_or_else(|| Error::usage("the field `label` has a class number of 2^63 or more")),
        }
    }
}
