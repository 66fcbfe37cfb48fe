//! Writes samples that a program adds one at a time, from any thread, without knowing their number in advance.
//!
//! Shards store the samples in a seeded permutation, so no shard can be written before the last sample is
//! known. A [`Collector`] encodes each sample on the caller's thread and appends its record to a *spool*, an
//! unnamed local file. [`Collector::commit`] plans the dataset and copies the records from the spool, with all
//! guarantees of [`write_dataset`](shardpack_writer::write_dataset). This costs time and disk space. Encoded
//! data are written twice and read once, and occupy twice their size until the end. In return, an error names
//! its sample at once, the collector needs only about 150 bytes of memory per sample plus its key, and a killed
//! program leaves no files behind.
//!
//! The same samples and keys produce the same bytes regardless of the order in which they are
//! added, unless [`CollectOptions::shuffle`] is `None`, which keeps the order of addition. There is
//! one exception: the first array of each field decides how the arrays of that field are stored. If
//! several threads could add the first array, name the codec and the filter, or add one sample
//! before the threads start.
//!
//! [`Collector::append`] adds samples to an existing dataset, as its next generation.

mod append;
mod commit;
mod encode;
mod error;
mod finish;
mod kind;
mod labels;
mod layout;
mod options;
mod report;
mod spool;
#[cfg(test)]
mod tests;
mod value;

pub use append::AppendOptions;
pub use error::{CollectError, Result, SampleRefusal};
pub use kind::Kind;
pub use options::CollectOptions;
pub use report::{Appended, CollectReport};
pub use value::{Number, Sample, SampleValue};

use crate::lock::lock;
use append::{Addition, OpenedDataset};
use commit::SpooledSample;
use encode::{PictureCounts, ProgramRecord, RecordWorkspace};
use layout::ProgramLayout;
use shardpack_format::{DatasetId, check_key};
use shardpack_writer::{Output, Reservation};
use spool::Spool;
use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

const KEY_DIGITS: usize = 8;

/// Collects samples from any number of threads and finally writes them as a dataset.
///
/// Dropping a collector without [`commit`](Self::commit) leaves the folder unchanged.
///
/// ```
/// use shardpack_pack::collect::{CollectOptions, Collector, Sample};
/// let folder = tempfile::tempdir()?;
/// let out = folder.path().join("texts");
/// let collector = Collector::open(&out, None, CollectOptions::default())?;
/// collector.add(Sample::new().with_key("a").with("text", "hello").with("label", 3))?;
/// collector.add(Sample::new().with_key("b").with("text", "world").with("label", 4))?;
/// let report = collector.commit(None, None)?;
/// assert_eq!(report.report.samples, 2);
/// assert!(out.join("manifest.json").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Collector {
    out: Output,
    options: CollectOptions,
    /// The declared fields, or `None` if the first sample decides.
    schema: Option<Vec<(String, Kind)>>,
    layout: Mutex<Option<Arc<ProgramLayout>>>,
    spool: Spool,
    added: Mutex<AddedSamples>,
    /// Number of samples. It can be read while a commit holds the lock `added`.
    count: AtomicU64,
    idle: Mutex<Vec<RecordWorkspace>>,
    /// True once the dataset is complete. Adding a sample takes the lock for reading, and a commit takes it for
    /// writing.
    committed: RwLock<bool>,
    target: CollectTarget,
}

#[derive(Debug)]
enum CollectTarget {
    New {
        reservation: Reservation,
        /// Id of a dataset that an earlier commit started but did not finish.
        begun: Mutex<Option<DatasetId>>,
    },
    /// The samples become the next generation of an existing dataset.
    Behind(Box<Addition>),
}

#[derive(Debug, Default)]
struct AddedSamples {
    /// Number of samples whose addition has started.
    begun: u64,
    keys: HashSet<Arc<str>>,
    places: HashSet<u64>,
    samples: Vec<SpooledSample>,
    pictures: PictureCounts,
}

impl std::fmt::Debug for RecordWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWorkspace").finish_non_exhaustive()
    }
}

impl Collector {
    /// Starts a dataset in the folder `out`, or in a [`shardpack_writer::Bucket`]. The folder is created if
    /// needed and reserved for this collector.
    ///
    /// `schema` declares the fields with their kinds, in order. By default the first sample decides.
    ///
    /// # Errors
    /// `Writer` if the folder is in use, contains other files, or contains a dataset and `options.force` is not
    /// set; `Format` and `Usage` if the options contradict each other; `Io`.
    pub fn open(out: impl Into<Output>, schema: Option<Vec<(String, Kind)>>, options: CollectOptions) -> Result<Self> {
        let out = out.into();
        options.arrays.check()?;
        if options.threads == 0 {
            return Err(CollectError::usage("the number of threads must be at least 1, not 0", ""));
        }
        if options.shard_bytes == 0 {
            return Err(CollectError::usage("the shard size must be at least 1 byte, not 0", ""));
        }
        if options.classes.as_ref().is_some_and(Vec::is_empty) {
            return Err(CollectError::usage(
                "the list of classes is empty",
                "pass at least one class, or omit the list",
            ));
        }
        let reservation = Reservation::take(out.clone(), options.force)?;
        Self::at(out, schema, options, None, CollectTarget::New { reservation, begun: Mutex::default() })
    }

    /// Starts the next generation of the dataset in the folder `out`, or in a [`shardpack_writer::Bucket`]. The folder
    /// stays locked until the collector is dropped. Existing files do not change.
    ///
    /// The dataset may have been written by a program or packed from files. The new samples get the same
    /// fields, classes, shard size and storage. Unless `schema` declares the fields, each sample must name all
    /// of them, including those without a value. A declared schema must match the dataset's fields.
    ///
    /// ```
    /// use shardpack_pack::collect::{AppendOptions, CollectOptions, Collector, Sample};
    /// let folder = tempfile::tempdir()?;
    /// let out = folder.path().join("texts");
    /// let collector = Collector::open(&out, None, CollectOptions::default())?;
    /// collector.add(Sample::new().with_key("a").with("text", "hello").with("label", 3))?;
    /// collector.commit(None, None)?;
    /// drop(collector);
    ///
    /// let collector = Collector::append(&out, None, AppendOptions::default())?;
    /// let error = collector.add(Sample::new().with_key("a").with("text", "again").with("label", 3)).unwrap_err();
    /// assert!(error.to_string().contains("sample `a`: the dataset already has a sample with this key"));
    /// collector.add(Sample::new().with_key("b").with("text", "world").with("label", 4))?;
    /// let appended = collector.commit(None, None)?.appended.unwrap();
    /// assert_eq!((appended.generation, appended.samples), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if there is no dataset, if a program cannot provide one of its fields, or if `schema` or the
    /// classes differ from the dataset's; `Argument` if an option differs; `Writer` if another program is
    /// writing there, or if an addition of files is unfinished; `Reader` if the dataset is damaged; `Io`.
    pub fn append(out: impl Into<Output>, schema: Option<Vec<(String, Kind)>>, options: AppendOptions) -> Result<Self> {
        let out = out.into();
        let OpenedDataset { addition, layout, options } = Addition::open(&out, schema.as_deref(), options)?;
        let target = CollectTarget::Behind(Box::new(addition));
        Self::at(out, schema, options, Some(layout), target)
    }

    fn at(
        out: Output,
        schema: Option<Vec<(String, Kind)>>,
        options: CollectOptions,
        layout: Option<ProgramLayout>,
        target: CollectTarget,
    ) -> Result<Self> {
        Ok(Self {
            spool: Spool::create(out.folder())?,
            out,
            options,
            schema,
            layout: Mutex::new(layout.map(Arc::new)),
            added: Mutex::default(),
            count: AtomicU64::new(0),
            idle: Mutex::default(),
            committed: RwLock::new(false),
            target,
        })
    }

    fn addition(&self) -> Option<&Addition> {
        match &self.target {
            CollectTarget::New { .. } => None,
            CollectTarget::Behind(addition) => Some(addition),
        }
    }

    /// Returns the fields and their kinds, or `None` if the first sample has yet to determine them.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<(String, Kind)>> {
        let layout = lock(&self.layout).clone()?;
        Some(layout.fields.iter().map(|field| (field.name.clone(), field.kind)).collect())
    }

    /// Returns the class names, ordered by the dataset's class numbers.
    #[must_use]
    pub fn classes(&self) -> Option<&[String]> {
        self.options.classes.as_deref()
    }

    /// Returns true if samples keep the order in which they were added.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        self.options.shuffle.is_none()
    }

    /// Returns the number for the first generated key: 0, or the first unused number of an existing dataset.
    #[must_use]
    pub fn first_number(&self) -> u64 {
        self.addition().map_or(0, |addition| addition.first_id)
    }

    /// Returns true if the existing dataset has a sample with this key.
    ///
    /// # Errors
    /// `Reader` if the dataset is damaged.
    pub fn holds(&self, key: &str) -> Result<bool> {
        Ok(self.addition().map(|addition| addition.held.index(key)).transpose()?.flatten().is_some())
    }

    /// Returns the dataset's folder, or its location in a store.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.out.path()
    }

    /// Returns the number of samples added so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns true if there are no samples yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Encodes a sample on this thread and adds it. After an error, only this sample is missing, and more
    /// samples can be added.
    ///
    /// # Errors
    /// `Sample` if a value does not fit its field or cannot be stored with the options, or a position or a key of the
    /// dataset is already taken; `RepeatedKey` if an earlier sample has the key; `Format` if a key is not allowed, or
    /// the dataset is complete; `Io` if the disk is full.
    pub fn add(&self, mut sample: Sample) -> Result<()> {
        let committed = self.committed.read().unwrap_or_else(PoisonError::into_inner);
        if *committed {
            return Err(complete());
        }
        if let Some(addition) = self.addition()
            && let Some(key) = &sample.key
            && let Some(index) = addition.held.index(key)?
        {
            let layout = self.layout(&sample, key)?;
            return addition.held.take(&layout, key, index, &sample, self.is_empty());
        }
        let (key, sequence) = self.begin(&mut sample)?;
        // A panic in a decoder must not leave the key reserved.
        let encoded = catch_unwind(AssertUnwindSafe(|| self.encode(&key, sequence, &sample)));
        let result = encoded.unwrap_or_else(|panic| Err(defect(&key, &*panic)));
        let mut added = lock(&self.added);
        match result {
            Ok((spooled, pictures)) => {
                added.samples.push(spooled);
                added.pictures.merge(pictures);
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                // Release the key, so that the program can correct the sample and add it again.
                added.keys.remove(&key);
                sample.order.map(|place| added.places.remove(&place));
                Err(error)
            }
        }
    }

    fn begin(&self, sample: &mut Sample) -> Result<(Arc<str>, u64)> {
        let mut added = lock(&self.added);
        let sequence = sample.order.unwrap_or(added.begun);
        let key: Arc<str> = match sample.key.take() {
            Some(key) => key.into(),
            None => format!("{:0KEY_DIGITS$}", self.first_number().saturating_add(sequence)).into(),
        };
        let refuse = |text: String| Err(CollectError::of_sample(&key, text, ""));
        check_key(&key).map_err(|error| CollectError::usage(error.to_string(), ""))?;
        if added.keys.contains(&key) {
            return Err(CollectError::RepeatedKey { key: key.to_string() });
        }
        if sample.order.is_some() == added.places.is_empty() && !added.keys.is_empty() {
            return refuse("either all samples or none must have an `order`".into());
        }
        if let Some(place) = sample.order
            && !added.places.insert(place)
        {
            return refuse(format!("another sample already has `order` {place}"));
        }
        added.keys.insert(Arc::clone(&key));
        added.begun += 1;
        Ok((key, sequence))
    }

    fn encode(&self, key: &Arc<str>, sequence: u64, sample: &Sample) -> Result<(SpooledSample, PictureCounts)> {
        let layout = self.layout(sample, key)?;
        let taken = lock(&self.idle).pop();
        let mut workspace = taken.unwrap_or_default();
        let result = workspace.encode(&layout, key, sequence, sample).and_then(|encoded| {
            let ProgramRecord { record, source_bytes, digest, notes, pictures } = encoded;
            let span = self.spool.append(&record)?;
            workspace.reuse(record);
            let (key, notes) = (Arc::clone(key), notes.into_boxed_slice());
            Ok((SpooledSample { key, sequence, span, source_bytes, digest, notes }, pictures))
        });
        lock(&self.idle).push(workspace);
        result
    }

    fn layout(&self, sample: &Sample, key: &str) -> Result<Arc<ProgramLayout>> {
        let mut layout = lock(&self.layout);
        if let Some(layout) = &*layout {
            return Ok(Arc::clone(layout));
        }
        let settled = Arc::new(ProgramLayout::new(self.schema.as_deref(), sample, key, &self.options)?);
        *layout = Some(Arc::clone(&settled));
        Ok(settled)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        match &self.target {
            // Discard the unfinished dataset. Nothing can complete it, because its samples are lost with the spool.
            CollectTarget::New { reservation, begun } => {
                if let Some(begun) = lock(begun).take() {
                    let _ = reservation.discard(begun);
                }
            }
            CollectTarget::Behind(addition) => addition.discard(),
        }
    }
}

fn defect(key: &str, panic: &(dyn Any + Send)) -> CollectError {
    let text = format!("internal error while encoding: {}", shardpack_format::panic_text(panic));
    CollectError::of_sample(key, text, shardpack_format::REPORT_HINT)
}

fn complete() -> CollectError {
    CollectError::usage("the dataset is complete: nothing more can be added", "")
}
