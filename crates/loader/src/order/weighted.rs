//! Sampling with replacement, with a weight for each sample or class.
//!
//! Draw `p` of an epoch depends only on seed, epoch and `p`, so ranks, resuming and batches work as with any
//! other order. Samples come from all over the dataset, so each one is a separate read.

use super::alias::Alias;
use super::keyed::Keyed;
use super::positions::{OpenReads, Own, Pick, Positions, SampleRef};
use super::state::{Digest, Fingerprint, Sampling};
use super::streams;
use shardpack_format::DatasetId;
use shardpack_reader::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An order that draws samples by weight, with replacement.
///
/// ```
/// use shardpack_loader::order::{Sampling, Weighted};
/// // A class of 90 and a class of 10, drawn equally often.
/// let labels: Vec<i64> = (0..100).map(|i| i64::from(i >= 90)).collect();
/// let epoch = Weighted::balanced(&labels, 42)?.draws(10_000).epoch(0);
/// let rare = (0..10_000).filter(|&p| epoch.sample(p).is_some_and(|s| s.sample >= 90)).count();
/// assert!((4_800..5_200).contains(&rare));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Weighted {
    seed: u64,
    dataset: DatasetId,
    draws: u64,
    table: Arc<WeightTable>,
    fingerprint: Fingerprint,
}

#[derive(Debug)]
struct WeightTable {
    alias: Alias,
    /// Samples of the class behind each column of the alias table, or `None` if each column is one sample.
    classes: Option<Vec<Vec<u64>>>,
    samples: u64,
}

impl Weighted {
    /// Draws sample `i` with probability `weights[i]` divided by the sum of the weights. An epoch has as many
    /// draws as there are weights. Uses 16 bytes per sample, which clones share.
    ///
    /// # Errors
    /// `Usage` if a weight is negative or not finite, if no weight is above zero, or if there are 2³² weights or more.
    pub fn by_sample(weights: &[f64], seed: u64) -> Result<Self> {
        let mut digest = Digest::new("weights of samples");
        digest.numbers(&weights.iter().map(|w| w.to_bits()).collect::<Vec<_>>());
        let table = WeightTable { alias: Alias::new(weights)?, classes: None, samples: weights.len() as u64 };
        Ok(Self::new(table, seed, weights.len() as u64, digest))
    }

    /// Draws a class by weight, and then one of its samples with equal probability. `labels` are the labels
    /// of all samples, in stored order. Classes without a weight are never drawn. An epoch has as many draws
    /// as there are labels. Uses 8 bytes per sample, which clones share.
    ///
    /// # Errors
    /// `Usage` if a class with a weight above zero has no sample. Otherwise the same errors as [`Weighted::by_sample`].
    pub fn by_class(labels: &[i64], weights: &BTreeMap<i64, f64>, seed: u64) -> Result<Self> {
        let mut members: BTreeMap<i64, Vec<u64>> = weights.keys().map(|&class| (class, Vec::new())).collect();
        for (sample, label) in (0..).zip(labels) {
            if let Some(class) = members.get_mut(label) {
                class.push(sample);
            }
        }
        let empty =
            members.iter().find(|(class, samples)| samples.is_empty() && weights.get(class).is_some_and(|&w| w > 0.0));
        if let Some((class, _)) = empty {
            return Err(Error::usage(format!("class {class} has a weight but no samples")));
        }
        let values: Vec<f64> = weights.values().copied().collect();
        let mut digest = Digest::new("weights of classes");
        digest.numbers(&values.iter().map(|w| w.to_bits()).collect::<Vec<_>>());
        for samples in members.values() {
            digest.numbers(samples);
        }
        let (classes, samples) = (Some(members.into_values().collect()), labels.len() as u64);
        Ok(Self::new(WeightTable { alias: Alias::new(&values)?, classes, samples }, seed, samples, digest))
    }

    /// Draws all classes that occur in `labels` equally often, regardless of their numbers of samples. A
    /// sample with a label below 0 is unlabelled and never drawn.
    ///
    /// ```
    /// use shardpack_loader::order::{Sampling, Weighted};
    /// let epoch = Weighted::balanced(&[0, 0, 0, 1, -1], 7)?.draws(100).epoch(0);
    /// let drawn: Vec<u64> = (0..100).filter_map(|at| Some(epoch.sample(at)?.sample)).collect();
    /// assert!(drawn.contains(&3) && !drawn.contains(&4));
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if all labels are below 0.
    pub fn balanced(labels: &[i64], seed: u64) -> Result<Self> {
        let classes = labels.iter().filter(|&&label| label >= 0);
        Self::by_class(labels, &classes.map(|&label| (label, 1.0)).collect(), seed)
    }

    fn new(table: WeightTable, seed: u64, draws: u64, digest: Digest) -> Self {
        let fingerprint = digest.finish();
        Self { seed, dataset: DatasetId([0; 16]), draws, table: Arc::new(table), fingerprint }
    }

    /// Sets the number of samples to draw in an epoch.
    #[must_use]
    pub const fn draws(mut self, draws: u64) -> Self {
        self.draws = draws;
        self
    }

    /// Sets the dataset's ID, so that restoring the state of a different dataset fails.
    #[must_use]
    pub const fn dataset(mut self, id: DatasetId) -> Self {
        self.dataset = id;
        self
    }
}

impl Sampling for Weighted {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut digest = Digest::new("weighted");
        digest.bytes(&self.dataset.0);
        digest.bytes(self.fingerprint.to_string().as_bytes());
        digest.numbers(&[self.draws]);
        digest.finish()
    }

    fn epoch(&self, epoch: u32) -> Box<dyn Positions> {
        let key = |stream| Keyed::new(self.seed, epoch, stream);
        let (columns, members) = (key(streams::DRAWS), key(streams::MEMBERS));
        Box::new(Drawn { columns, members, draws: self.draws, table: Arc::clone(&self.table) })
    }

    fn sources(&self) -> Vec<u64> {
        vec![self.table.samples]
    }

    fn aligned(&self) -> u64 {
        1
    }
}

#[derive(Debug)]
struct Drawn {
    columns: Keyed,
    members: Keyed,
    draws: u64,
    table: Arc<WeightTable>,
}

impl Positions for Drawn {
    fn len(&self) -> u64 {
        self.draws
    }

    fn sample(&self, position: u64) -> Option<SampleRef> {
        if position >= self.draws {
            return None;
        }
        let (column, coin) = self.columns.pair(position);
        let column = self.table.alias.choose(column, coin);
        let Some(classes) = &self.table.classes else { return Some(SampleRef::new(column)) };
        let class = classes.get(usize::try_from(column).ok()?)?;
        let member = self.members.below(class.len() as u64, position);
        class.get(usize::try_from(member).ok()?).copied().map(SampleRef::new)
    }

    fn pick(&self, position: u64, _: &Own) -> Option<Pick> {
        self.sample(position).map(|at| Pick { repetition: position, ..Pick::alone(at) })
    }

    fn open_reads_max(&self, _: u64) -> Vec<OpenReads> {
        vec![OpenReads::ALONE]
    }
}
