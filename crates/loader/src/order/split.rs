//! Divides a dataset into parts, such as training and validation.
//!
//! Samples are sorted by a hash of seed and key, and the sorted list is cut according to the shares. So the
//! parts do not depend on the stored order.

use sha2::{Digest as _, Sha256};
use shardpack_format::{Dtype, Setting, bug};
use shardpack_reader::{Column, Dataset, Error, Result};
use std::collections::BTreeMap;

/// Options for dividing a dataset into parts. The parts depend only on these options, the seed and the keys
/// of the samples, and later versions of this library do not change them.
///
/// ```no_run
/// use shardpack_loader::order::{Attribute, Members, Order, Runs, Split};
/// let dataset = shardpack_loader::Dataset::open("train")?;
/// let split = Split::new(&[0.8, 0.1, 0.1], 0)?.stratify(Attribute::Column("label".into()));
/// let [train, val, test] = split.parts(&dataset, None)?.try_into().unwrap_or_default();
/// let order = Order::of(&dataset, 42).subset(Members::new(&Runs::of(&dataset, Runs::BYTES), train));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Split {
    shares: Vec<f64>,
    seed: u64,
    stratify: Option<Attribute>,
    groups: Option<Attribute>,
    is_growing: bool,
}

/// A value of each sample, used to group or stratify samples.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// A scalar field of integers or booleans, such as `label`.
    Column(String),
    /// One string for each sample to be split, in the order of the samples.
    Values(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SplitUnit {
    stratum: u32,
    hash: u64,
    /// Number of the group, or of the sample if there are no groups.
    unit: u64,
    sample: u64,
}

impl Split {
    /// Divides a dataset by these shares, which must add up to 1. A part has `share × samples` samples,
    /// rounded up or down, but at least one.
    ///
    /// # Errors
    /// `Usage` if there are fewer than two shares, if a share is not above 0, or if they do not add up to 1.
    pub fn new(shares: &[f64], seed: u64) -> Result<Self> {
        if shares.len() < 2 {
            return Err(Error::usage(format!("a split needs at least two shares, not {shares:?}")));
        }
        if !shares.iter().all(|share| share.is_finite() && *share > 0.0) {
            return Err(Error::usage(format!(
                "each share of a split must be a number above 0, but the shares are {shares:?}"
            )));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            let text = format!("the shares of a split must add up to 1, but {shares:?} add up to {sum}");
            return Err(Error::usage(text).with_hint("pass fractions such as 0.8 and 0.2"));
        }
        let shares = shares.iter().map(|share| share / sum).collect();
        Ok(Self { shares, seed, stratify: None, groups: None, is_growing: false })
    }

    /// Gives each part the same share of each value, for example of each class. The number of samples of a
    /// class in a part is off by less than 2, or by at most 1 if there are two parts.
    #[must_use]
    pub fn stratify(mut self, by: Attribute) -> Self {
        self.stratify = Some(by);
        self
    }

    /// Keeps samples with the same value in one part, for example all pictures of a patient. Parts are cut
    /// between groups, as close to the shares as possible. With [`Split::stratify`], the class of a group is
    /// the most frequent class of its samples.
    #[must_use]
    pub fn groups(mut self, by: Attribute) -> Self {
        self.groups = Some(by);
        self
    }

    /// Assigns each sample or group by its own hash, so that it stays in the same part when the dataset grows
    /// or shrinks. The sizes of the parts are then random: a share of 0.9 of 10,000 samples is 9,000, give or
    /// take 60.
    #[must_use]
    pub fn growing(mut self) -> Self {
        self.is_growing = true;
        self
    }

    /// Returns the samples of each part, in stored order. `members` are the samples to divide, without duplicates.
    /// `None` means all samples. Opens every shard but reads no record. Uses 40 bytes per sample during the call.
    ///
    /// # Errors
    /// `Usage` if a part would be empty, if the column does not exist or does not contain integers, if the
    /// number of values differs from the number of samples, or if a growing split is stratified. Otherwise
    /// the same errors as [`Dataset::shard`].
    pub fn parts(&self, dataset: &Dataset, members: Option<&[u64]>) -> Result<Vec<Vec<u64>>> {
        if self.is_growing && self.stratify.is_some() {
            let error = Error::usage("`growing` and `stratify` cannot be combined");
            return Err(error.with_hint(
                "choose one: a growing split looks only at the keys of the samples, so it cannot balance classes",
            ));
        }
        let samples: Vec<u64> = members.map_or_else(|| (0..dataset.len()).collect(), <[u64]>::to_vec);
        let groups = self.groups.as_ref().map(|by| by.values(dataset, &samples, "groups")).transpose()?;
        let strata = self.stratify.as_ref().map(|by| by.values(dataset, &samples, "stratify")).transpose()?;
        let mut entries = match &groups {
            Some(groups) => self.grouped(&samples, groups, strata.as_deref()),
            None => self.single(dataset, &samples, strata.as_deref())?,
        };
        entries.sort_unstable();
        let mut parts = vec![Vec::new(); self.shares.len()];
        if self.is_growing {
            self.deal_by_hash(&entries, &mut parts);
        } else {
            self.deal(&entries, &mut parts);
        }
        for (number, (part, share)) in parts.iter_mut().zip(&self.shares).enumerate() {
            if part.is_empty() {
                let units = if groups.is_some() { ", and groups cannot be divided between parts" } else { "" };
                let count = samples.len();
                let text = format!(
                    "part {number} of the split would be empty: its share is {share} of {count} samples{units}"
                );
                return Err(Error::usage(text).with_hint(self.way_out()));
            }
            part.sort_unstable();
        }
        Ok(parts)
    }

    fn way_out(&self) -> shardpack_format::Hint {
        if self.is_growing {
            shardpack_format::Hint::new("choose larger shares, or a different ")
                .and([Setting::named("seed")])
                .then(" if these samples come from a growing split: the same seed would leave a part empty")
        } else {
            "choose larger shares".into()
        }
    }

    fn single(&self, dataset: &Dataset, samples: &[u64], strata: Option<&[String]>) -> Result<Vec<SplitUnit>> {
        let numbers = strata.map(numbered);
        let mut entries = Vec::with_capacity(samples.len());
        let mut open = None;
        for (at, &sample) in samples.iter().enumerate() {
            let (number, record) = dataset.locate(sample)?;
            let shard = match open.take() {
                Some((opened, shard)) if opened == number => shard,
                _ => dataset.shard(number)?,
            };
            let key = shard.index().key(record).unwrap_or_else(|| bug("a shard record without a key"));
            let stratum = numbers.as_ref().and_then(|numbers| numbers.get(at)).copied().unwrap_or(0);
            entries.push(SplitUnit { stratum, hash: self.hash(key), unit: sample, sample });
            open = Some((number, shard));
        }
        Ok(entries)
    }

    /// Sorts samples into groups. The stratum of a group is the most frequent stratum of its samples. On a tie, the
    /// first one wins.
    fn grouped(&self, samples: &[u64], groups: &[String], strata: Option<&[String]>) -> Vec<SplitUnit> {
        let (group_of, stratum_of) = (numbered(groups), strata.map(numbered));
        let mut counts: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
        for (at, group) in group_of.iter().enumerate() {
            let stratum = stratum_of.as_ref().and_then(|strata| strata.get(at)).copied().unwrap_or(0);
            *counts.entry(*group).or_default().entry(stratum).or_default() += 1;
        }
        let most = |counts: &BTreeMap<u32, u64>| {
            let first_of_most = counts.iter().rev().max_by_key(|(_, count)| **count);
            first_of_most.map_or(0, |(stratum, _)| *stratum)
        };
        let strata: BTreeMap<u32, u32> = counts.iter().map(|(group, counts)| (*group, most(counts))).collect();
        let entry = |((&sample, name), group): ((&u64, &String), u32)| {
            let stratum = strata.get(&group).copied().unwrap_or(0);
            SplitUnit { stratum, hash: self.hash(name), unit: group.into(), sample }
        };
        samples.iter().zip(groups).zip(group_of).map(entry).collect()
    }

    /// Returns the first 64 bits of a SHA-256 hash, which is the same on every machine and in every version.
    fn hash(&self, name: &str) -> u64 {
        let hash = Sha256::new()
            .chain_update(b"shardpack split 1\0")
            .chain_update(self.seed.to_le_bytes())
            .chain_update(name)
            .finalize();
        hash.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    fn deal_by_hash(&self, entries: &[SplitUnit], parts: &mut [Vec<u64>]) {
        const ALL: f64 = 18_446_744_073_709_551_616.0;
        for entry in entries {
            let (mut part, mut end) = (0, 0.0);
            for (number, share) in self.shares.iter().enumerate() {
                part = number;
                end += share;
                if (entry.hash as f64) < end * ALL {
                    break;
                }
            }
            parts.get_mut(part).into_iter().for_each(|part| part.push(entry.sample));
        }
    }

    /// Cuts each stratum by the numbers of samples that the parts still lack, so that rounding errors do not add up.
    fn deal(&self, entries: &[SplitUnit], parts: &mut [Vec<u64>]) {
        let is_one_stratum = entries.chunk_by(|a, b| a.stratum == b.stratum).count() == 1;
        let mut seen = 0;
        for stratum in entries.chunk_by(|a, b| a.stratum == b.stratum) {
            let units: Vec<&[SplitUnit]> = stratum.chunk_by(|a, b| a.unit == b.unit).collect();
            seen += stratum.len();
            let lacking = self.shares.iter().zip(&*parts).map(|(share, part)| share * seen as f64 - part.len() as f64);
            let counts = allotted(stratum.len(), &lacking.collect::<Vec<_>>());
            let is_enough = is_one_stratum && units.len() >= parts.len();
            let (mut from, mut left, mut left_counts) = (0, stratum.len(), stratum.len());
            let last = parts.len().saturating_sub(1);
            for (number, (part, count)) in parts.iter_mut().zip(counts).enumerate() {
                // Groups stay whole, so earlier parts may be too large or too small. The remaining parts make
                // up for that.
                let wanted = (count * left).checked_div(left_counts).unwrap_or(0);
                let (least, most) = match is_enough {
                    true => (from + 1, units.len() - (last - number)),
                    false => (from, units.len()),
                };
                let (mut end, mut given) = (from, 0_usize);
                while end < most {
                    let size = units.get(end).map_or(0, |unit| unit.len());
                    let is_nearer = (given + size).abs_diff(wanted) < given.abs_diff(wanted);
                    if number < last && end >= least && !is_nearer {
                        break;
                    }
                    given += size;
                    end += 1;
                }
                for unit in units.get(from..end).unwrap_or_default() {
                    part.extend(unit.iter().map(|entry| entry.sample));
                }
                (from, left, left_counts) = (end, left - given, left_counts - count);
            }
        }
    }
}

impl Attribute {
    fn values(&self, dataset: &Dataset, samples: &[u64], option: &str) -> Result<Vec<String>> {
        match self {
            Self::Values(values) if values.len() == samples.len() => Ok(values.clone()),
            Self::Values(values) => {
                let (found, expected) = (values.len(), samples.len());
                Err(Error::usage(format!("`{option}` has {found} values, but there are {expected} samples")))
            }
            Self::Column(name) => {
                let column = dataset.column(name)?;
                if matches!(column.dtype(), Dtype::F16 | Dtype::F32 | Dtype::F64) {
                    return Err(Error::usage(format!(
                        "`{option}` needs an integer field, but field `{}` has the type {}",
                        name.escape_debug(),
                        column.dtype()
                    ))
                    .with_hint(
                        "pass a list with one integer or text per sample, for example the number of the bin that the \
                         value falls in",
                    ));
                }
                samples.iter().map(|&sample| text_of(&column, sample)).collect()
            }
        }
    }
}

fn text_of(column: &Column, sample: u64) -> Result<String> {
    let value = column.value(sample);
    Ok(value
        .ok_or_else(|| {
            Error::usage(format!(
                "there is no sample {sample}: the dataset has {} samples, numbered from 0",
                column.len()
            ))
        })?
        .to_string())
}

fn numbered(texts: &[String]) -> Vec<u32> {
    let mut numbers: BTreeMap<&str, u32> = texts.iter().map(|text| (text.as_str(), 0)).collect();
    numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
    texts.iter().map(|text| numbers.get(text.as_str()).copied().unwrap_or(0)).collect()
}

/// Rounds the wanted numbers so that their sum is `count`, using the largest remainder method. Ties go to the earlier
/// parts.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and at most the count")]
fn allotted(count: usize, wanted: &[f64]) -> Vec<usize> {
    let mut out: Vec<usize> = wanted.iter().map(|wanted| (wanted.floor().max(0.0) as usize).min(count)).collect();
    loop {
        let sum: usize = out.iter().sum();
        let lacks = |at: usize| wanted.get(at).zip(out.get(at)).map_or(0.0, |(wanted, out)| wanted - *out as f64);
        let by = |a: &usize, b: &usize| lacks(*a).total_cmp(&lacks(*b));
        let all = 0..out.len();
        let (at, step) = match sum.cmp(&count) {
            std::cmp::Ordering::Equal => return out,
            std::cmp::Ordering::Less => (all.rev().max_by(by), 1),
            std::cmp::Ordering::Greater => (all.filter(|&at| out.get(at).is_some_and(|&out| out > 0)).min_by(by), -1),
        };
        let Some(changed) = at.and_then(|at| out.get_mut(at)) else { return out };
        *changed = changed.saturating_add_signed(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_remainders_are_rounded_up() {
        assert_eq!(allotted(90, &[0.8 * 90.0, (1.0 - 0.8) * 90.0]), [72, 18]);
        assert_eq!(allotted(10, &[10.0 / 3.0; 3]), [4, 3, 3]);
        assert_eq!(allotted(3, &[1.5, 1.5]), [2, 1]);
        assert_eq!(allotted(0, &[0.3, -0.3]), [0, 0]);
        // The last two parts already have too many samples, so they get none here.
        assert_eq!(allotted(1, &[2.8, -0.9, -0.9]), [1, 0, 0]);
    }

    #[test]
    fn the_hash_stays() {
        // The expected number was computed in Python: int.from_bytes(hashlib.sha256(b"shardpack split 1\0" + bytes(8) +
        // b"a").digest()[:8])
        let split = Split::new(&[0.5, 0.5], 0).unwrap();
        assert_eq!(split.hash("a"), 0xae33_2680_4afb_3083);
    }
}
