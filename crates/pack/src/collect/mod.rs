//! Writing from a program: samples come one at a time, from any thread, and their number is not
//! known in advance.
//!
//! Shards hold the samples in a seeded permutation, so none can be written before the last sample
//! is known. A [`Collector`] encodes each sample in the caller's thread and appends its record to a
//! *spool*, a file without a name in the output folder (of what goes to a store, in the folder for
//! its files on this machine). [`Collector::commit`] plans the dataset and
//! copies the records out of the spool, with all guarantees of
//! [`write_dataset`](shardpack_writer::write_dataset). The price: the encoded data are written
//! twice and read once, and take twice their space until the end. The gain: an error names its
//! sample at once, memory is bounded (about 150 bytes and the key per sample), and a killed program
//! leaves nothing behind.
//!
//! The same samples under the same keys give the same bytes, in whatever order they were added,
//! unless [`CollectOptions::shuffle`] keeps that order. One exception: the first array of each
//! field decides how arrays are stored. If several threads could add the first one, name the codec
//! and the filter, or add one sample before the threads begin.
//!
//! [`Collector::append`] adds to a dataset that is there, as its next generation.

mod append;
mod commit;
mod encode;
mod error;
mod finish;
mod kind;
mod layout;
mod options;
mod picture;
mod report;
mod spool;
#[cfg(test)]
mod tests;
mod trials;
mod value;

pub use append::AppendOptions;
pub use error::{CollectError, Result};
pub use kind::Kind;
pub use options::CollectOptions;
pub use report::{Appended, CollectReport};
pub use value::{Number, Sample, Value};

use crate::pack::OddPicture;
use append::{Behind, Classes};
use commit::Entry;
use encode::{Bench, Encoded};
use layout::Layout;
use shardpack_format::{DatasetId, check_key};
use shardpack_writer::{Claim, Output};
use spool::Spool;
use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Digits of a key that is made from a sample's number.
const KEY_DIGITS: usize = 8;

/// Takes samples from any number of threads, and makes a dataset from them at the end.
///
/// Dropped without [`commit`](Self::commit), it leaves the folder as it was.
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
    /// What the program says about its fields; `None` means that the first sample shows it.
    schema: Option<Vec<(String, Kind)>>,
    layout: Mutex<Option<Arc<Layout>>>,
    spool: Spool,
    state: Mutex<State>,
    /// Number of samples. Kept apart so that it can be read during a commit, which holds the state.
    count: AtomicU64,
    idle: Mutex<Vec<Bench>>,
    /// Whether the dataset is complete. Held for reading while a sample is added, for writing while
    /// the dataset is made.
    committed: RwLock<bool>,
    /// What labels count into.
    classes: Option<Classes>,
    place: Place,
}

/// Where the samples go.
#[derive(Debug)]
enum Place {
    /// Into a dataset of their own.
    New {
        claim: Claim,
        /// What an earlier commit began and could not finish.
        begun: Mutex<Option<DatasetId>>,
    },
    /// Behind the samples of a dataset.
    Behind(Box<Behind>),
}

#[derive(Debug, Default)]
struct State {
    /// Samples that were begun.
    begun: u64,
    /// Keys of the samples that were added or are being added.
    keys: HashSet<Arc<str>>,
    /// Places that the program gave.
    places: HashSet<u64>,
    entries: Vec<Entry>,
    has_icc: bool,
    /// Pictures with more than 8 bits per sample, which decode to 8.
    deep_pictures: u64,
    banded_pictures: u64,
    odd_pictures: Vec<OddPicture>,
}

/// What is told of the pictures of a sample.
struct Told {
    has_icc: bool,
    deep_pictures: u64,
    banded_pictures: u64,
    odd_pictures: Vec<OddPicture>,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector {
    /// Begins a dataset in the folder `out`, or in a [`shardpack_writer::Bucket`]. The folder is created if needed and reserved for this
    /// collector.
    ///
    /// `schema` says what the fields hold, in order. Without it the first sample decides.
    ///
    /// # Errors
    /// `Writer` if the folder cannot be used: it holds other files, or a dataset that
    /// `options.force` does not allow to replace, or another collector is using it. `Format` and
    /// `Usage` if the options contradict each other; `Io`.
    pub fn open(out: impl Into<Output>, schema: Option<Vec<(String, Kind)>>, options: CollectOptions) -> Result<Self> {
        let out = out.into();
        options.arrays.check()?;
        if options.threads == 0 {
            return Err(CollectError::usage("threads", "at least 1", "0", ""));
        }
        if options.shard_bytes == 0 {
            return Err(CollectError::usage("shard size", "at least 1 byte", "0", ""));
        }
        if options.classes.as_ref().is_some_and(Vec::is_empty) {
            return Err(CollectError::usage("classes", "at least one name", "none", ""));
        }
        let claim = Claim::take(out.clone(), options.force)?;
        let classes = options.classes.as_deref().map(Classes::new);
        Self::at(out, schema, options, classes, None, Place::New { claim, begun: Mutex::default() })
    }

    /// Begins an addition to the dataset in the folder `out`: its next generation. The folder is locked
    /// until the collector is dropped. Nothing that is there changes.
    ///
    /// The dataset may be of any origin: one of a program, or one that was packed from files. Its fields,
    /// its classes, its shards and how it stores values are those of the new samples. A sample must name
    /// all fields, with no value for what it lacks, unless `schema` says that you know them: it must then
    /// be that of the dataset.
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
    /// assert!(error.to_string().contains("sample `a`: key: expected one that the dataset does not hold yet"));
    /// collector.add(Sample::new().with_key("b").with("text", "world").with("label", 4))?;
    /// let appended = collector.commit(None, None)?.appended.unwrap();
    /// assert_eq!((appended.generation, appended.samples), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if there is no dataset, or one with fields that a program cannot give, or if `schema` or the
    /// classes are not the dataset's; `Argument` if an option is not; `Writer` if another program is
    /// writing there, or if an addition of files was begun and not finished; `Reader` if the dataset is
    /// damaged; `Io`.
    pub fn append(out: impl AsRef<Path>, schema: Option<Vec<(String, Kind)>>, options: AppendOptions) -> Result<Self> {
        let append::Opened { behind, layout, options, classes } =
            Behind::open(out.as_ref(), schema.as_deref(), options)?;
        Self::at(Output::from(out.as_ref()), schema, options, classes, Some(layout), Place::Behind(Box::new(behind)))
    }

    fn at(
        out: Output,
        schema: Option<Vec<(String, Kind)>>,
        options: CollectOptions,
        classes: Option<Classes>,
        layout: Option<Layout>,
        place: Place,
    ) -> Result<Self> {
        Ok(Self {
            spool: Spool::create(out.folder())?,
            out,
            options,
            schema,
            layout: Mutex::new(layout.map(Arc::new)),
            state: Mutex::default(),
            count: AtomicU64::new(0),
            idle: Mutex::default(),
            committed: RwLock::new(false),
            classes,
            place,
        })
    }

    /// The dataset that the samples are added to, if there is one.
    fn behind(&self) -> Option<&Behind> {
        match &self.place {
            Place::New { .. } => None,
            Place::Behind(behind) => Some(behind),
        }
    }

    /// The fields and what they hold, where that is known: of a dataset that is added to, or once there
    /// is a sample.
    #[must_use]
    pub fn fields(&self) -> Option<Vec<(String, Kind)>> {
        let layout = lock(&self.layout).clone()?;
        Some(layout.fields.iter().map(|field| (field.name.clone(), field.kind)).collect())
    }

    /// The names of the classes, in the order of their numbers in the dataset.
    #[must_use]
    pub fn classes(&self) -> Option<&[String]> {
        self.options.classes.as_deref()
    }

    /// Whether samples are stored in the order of adding.
    #[must_use]
    pub const fn keeps_order(&self) -> bool {
        self.options.shuffle.is_none()
    }

    /// The number that the first sample without a key is named after: 0, or the first that no sample of
    /// the dataset has.
    #[must_use]
    pub fn first_number(&self) -> u64 {
        self.behind().map_or(0, |behind| behind.first_id)
    }

    /// Whether the dataset that is added to has a sample with this key.
    ///
    /// # Errors
    /// `Reader` if it is damaged.
    pub fn holds(&self, key: &str) -> Result<bool> {
        Ok(self.behind().map(|behind| behind.holds(key)).transpose()?.flatten().is_some())
    }

    /// The folder that the dataset goes to, or the name of the place in a store.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.out.path()
    }

    /// Number of samples so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether there are no samples yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Encodes a sample in this thread, and adds it. After an error this sample is not in the
    /// dataset, but the others are, and more can be added.
    ///
    /// # Errors
    /// `Misfit` if a value does not fit its field; `Encode` if it cannot be stored with these
    /// options, such as a value out of float16's range; `Sample` if a key or a place is taken or
    /// not allowed; `Usage` once the dataset is complete; `Io` if the disk is full.
    pub fn add(&self, mut sample: Sample) -> Result<()> {
        let committed = self.committed.read().unwrap_or_else(PoisonError::into_inner);
        if *committed {
            return Err(complete());
        }
        if let Some(behind) = self.behind()
            && let Some(key) = sample.key.clone()
            && let Some(index) = behind.holds(&key)?
        {
            let layout = self.layout(&sample, &key)?;
            return behind.take_known(self, &layout, &key, index, sample);
        }
        let (key, sequence) = self.begin(&mut sample)?;
        let place = sample.order;
        // A panic of a decoder must not keep the key taken.
        let encoded = catch_unwind(AssertUnwindSafe(|| self.encode(&key, sequence, sample)));
        let result = encoded.unwrap_or_else(|panic| Err(defect(&key, &*panic)));
        let mut state = lock(&self.state);
        match result {
            Ok((entry, Told { has_icc, deep_pictures, banded_pictures, odd_pictures })) => {
                state.entries.push(entry);
                state.deep_pictures += deep_pictures;
                state.banded_pictures += banded_pictures;
                state.odd_pictures.extend(odd_pictures);
                self.count.fetch_add(1, Ordering::Relaxed);
                state.has_icc |= has_icc;
                Ok(())
            }
            Err(error) => {
                // The name is free again: the program may correct the sample and add it once more.
                state.keys.remove(&key);
                place.map(|place| state.places.remove(&place));
                Err(error)
            }
        }
    }

    /// Gives the sample its key and its place.
    fn begin(&self, sample: &mut Sample) -> Result<(Arc<str>, u64)> {
        let mut state = lock(&self.state);
        let sequence = sample.order.unwrap_or(state.begun);
        let key: Arc<str> = match sample.key.take() {
            Some(key) => key.into(),
            None => format!("{:0KEY_DIGITS$}", self.first_number().saturating_add(sequence)).into(),
        };
        let refuse = |what, expected: &str, found: String| Err(encode::of_sample(&key, what, expected, found));
        if let Err(error) = check_key(&key) {
            let expected = match error {
                shardpack_format::Error::Format { expected, .. } => expected,
                other => other.to_string(),
            };
            return refuse("key", &expected, "another".into());
        }
        if state.keys.contains(&key) {
            return refuse("key", "each once", "one that is taken".into());
        }
        if sample.order.is_some() == state.places.is_empty() && !state.keys.is_empty() {
            return refuse("order", "a place for every sample, or for none", "both".into());
        }
        if let Some(place) = sample.order
            && !state.places.insert(place)
        {
            return refuse("order", "each place once", format!("{place}, which is taken"));
        }
        state.keys.insert(Arc::clone(&key));
        state.begun += 1;
        Ok((key, sequence))
    }

    fn encode(&self, key: &Arc<str>, sequence: u64, sample: Sample) -> Result<(Entry, Told)> {
        let layout = self.layout(&sample, key)?;
        let taken = lock(&self.idle).pop();
        let mut bench = taken.unwrap_or_default();
        let result = bench.encode(&layout, self, key, sequence, sample).and_then(|encoded| {
            let Encoded { record, source_bytes, digest, notes, has_icc, deep_pictures, banded_pictures, odd_pictures } =
                encoded;
            let span = self.spool.append(&record)?;
            bench.reuse(record);
            let notes = notes.into_boxed_slice();
            let entry = Entry { key: Arc::clone(key), sequence, span, source_bytes, digest, notes };
            Ok((entry, Told { has_icc, deep_pictures, banded_pictures, odd_pictures }))
        });
        lock(&self.idle).push(bench);
        result
    }

    /// The layout. The first sample decides it.
    fn layout(&self, sample: &Sample, key: &str) -> Result<Arc<Layout>> {
        let mut layout = lock(&self.layout);
        if let Some(layout) = &*layout {
            return Ok(Arc::clone(layout));
        }
        let settled = Arc::new(Layout::new(self.schema.as_deref(), sample, key, &self.options)?);
        *layout = Some(Arc::clone(&settled));
        Ok(settled)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        match &self.place {
            // A dataset was begun and can no longer be finished: its samples go with the spool.
            Place::New { claim, begun } => {
                if let Some(begun) = lock(begun).take() {
                    let _ = claim.discard(begun);
                }
            }
            Place::Behind(behind) => behind.discard(),
        }
    }
}

/// A panic while a sample was encoded.
fn defect(key: &str, panic: &(dyn Any + Send)) -> CollectError {
    CollectError::Sample {
        key: key.to_owned(),
        what: "internal error: encoding",
        expected: "an end without a panic".to_owned(),
        found: shardpack_format::panic_text(panic).to_owned(),
        hint: shardpack_format::REPORT_HINT.into(),
    }
}

fn complete() -> CollectError {
    CollectError::usage("dataset", "one that is not complete yet", "a complete one", "")
}
