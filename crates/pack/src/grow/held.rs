//! Handles new samples whose keys are already in the dataset.

use super::add_options::{AddOptions, OnKnownKey};
use super::{all_held, before, other_samples, scalar_words, some};
use crate::bail;
use shardpack_format::{FieldKind, Hint, Note, Setting};
use shardpack_reader::{Dataset, Scalar, Shard};
use shardpack_sources::words::{plural, short};
use shardpack_sources::{ColumnValues, Listing, SampleContent, SourceSample};
use shardpack_writer::Output;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

pub(super) struct FreshSamples {
    pub(super) listing: Option<Listing>,
    pub(super) notes: Vec<Note>,
}

/// Skips or refuses the samples of `listing` whose keys are already in the dataset. The classes and columns of
/// `listing` must already match the dataset's.
pub(super) fn without(
    listing: Listing,
    dataset: &Output,
    opened: &Dataset,
    given: &AddOptions,
) -> crate::Result<FreshSamples> {
    let policy = given.on_known_key;
    let (mut fresh, mut known, mut places) = (Vec::new(), Vec::new(), HashSet::new());
    for (position, entry) in listing.samples.iter().enumerate() {
        match opened.by_key(&entry.key)? {
            None => fresh.push(position),
            Some(index) => {
                places.insert(opened.locate(index)?.0);
                known.push((position, index));
            }
        }
    }
    if known.is_empty() {
        return Ok(FreshSamples { listing: Some(listing), notes: Vec::new() });
    }
    let keys = |of: &[(usize, u64)]| -> Vec<&str> {
        of.iter().filter_map(|&(position, _)| Some(listing.samples.get(position)?.key.as_str())).collect()
    };
    let known_keys = keys(&known);
    let is_last = || match before(dataset, opened, &given.limits) {
        Some(before) => is_addition_to(&before, opened, &known_keys),
        None => is_last_addition(opened, &places, known.len()),
    };
    let (all, skips) = (listing.samples.len(), policy == OnKnownKey::Skip);
    let is_same_call = fresh.is_empty() && !skips && is_last()?;
    if !skips && !is_same_call {
        let text = format!(
            "{} of {all} new samples have keys that the dataset already has: {}",
            known.len(),
            some(known_keys.iter().copied(), known.len())
        );
        bail!(Note::new(text).with_hint(leave_out()));
    }
    let others = OtherSamples::of(&listing, dataset, opened, &known, is_same_call)?;
    if is_same_call && let Some(first) = &others.first {
        let text = format!(
            "for {} of {all} new samples, the dataset has different content for the same key (first: {first})",
            others.count
        );
        bail!(Note::new(text).with_hint(leave_out()));
    }
    let notes = others.notes();
    if fresh.is_empty() {
        return Ok(FreshSamples { listing: None, notes });
    }
    let left = listing.subset(&fresh);
    let left = Listing { bad: listing.bad, ignored: listing.ignored, notes: listing.notes, ..left };
    Ok(FreshSamples { listing: Some(left), notes })
}

fn leave_out() -> Hint {
    Hint::new("pass ")
        .and([Setting::word("on_known_key", "skip")])
        .then(" to skip these samples; to replace a sample, remove the old one first")
}

/// Returns true if the newest generation is `before` plus the samples `keys`, because the user repeated a
/// command that had already succeeded.
fn is_addition_to(before: &Dataset, opened: &Dataset, keys: &[&str]) -> crate::Result<bool> {
    Ok(opened.len() == before.len() + keys.len() as u64 && all_held(before, keys, false)?)
}

/// Like `is_addition_to`, for use when the previous generation no longer exists. Returns true if the newest
/// addition consists of the shards `places` and has `count` samples.
fn is_last_addition(opened: &Dataset, places: &HashSet<usize>, count: usize) -> crate::Result<bool> {
    let shards = opened.shards().len();
    let mut samples = 0;
    for &number in places {
        let says = opened.shard(number)?.index().metadata().shards;
        let range = opened.samples_in(number);
        samples += range.end - range.start;
        if opened.generation() == 1 || says.map(|says| says as usize) != Some(shards) {
            return Ok(false);
        }
    }
    Ok(samples == count as u64 && places.contains(&shards.saturating_sub(1)))
}

#[derive(Default)]
struct OtherSamples {
    count: u64,
    first: Option<String>,
    /// Number of samples whose files are newer than the dataset and whose content was not compared.
    younger: u64,
    first_younger: Option<String>,
}

enum Difference {
    None,
    Of(String),
    /// No difference was found, but the content was not compared.
    NotCompared,
}

impl OtherSamples {
    /// Counts the samples that differ from the dataset's samples with the same keys. `known` pairs positions in the
    /// listing with positions in the dataset. Reads only the index unless `are_compared` is true.
    fn of(
        listing: &Listing,
        dataset: &Output,
        opened: &Dataset,
        known: &[(usize, u64)],
        are_compared: bool,
    ) -> crate::Result<Self> {
        let (mut others, mut written) = (Self::default(), HashMap::new());
        for &(position, index) in known {
            let Some(entry) = listing.samples.get(position) else { continue };
            let (number, record) = opened.locate(index)?;
            let written_ns = match written.get(&number) {
                Some(&at) => at,
                None => {
                    let name = opened.shards().nth(number).map(|shard| shard.name).unwrap_or_default();
                    *written.entry(number).or_insert(written_ns(&dataset.folder().join(name)))
                }
            };
            let there = HeldSample { opened, shard: &*opened.shard(number)?, record, index, written_ns, are_compared };
            match there.compare(listing, position, entry)? {
                Difference::Of(what) => {
                    others.count += 1;
                    others.first.get_or_insert_with(|| format!("`{}`: {what}", short(&entry.key)));
                }
                Difference::NotCompared if there.is_older(entry) => {
                    others.younger += 1;
                    others.first_younger.get_or_insert_with(|| short(&entry.key).to_string());
                }
                Difference::NotCompared | Difference::None => {}
            }
        }
        Ok(others)
    }

    fn notes(&self) -> Vec<Note> {
        let other = self.first.as_ref().map(|first| other_samples(self.count, first));
        let younger = self.first_younger.as_ref().map(|first| {
            let samples = plural(self.younger, "sample");
            format!(
                "skipped {samples} without comparing contents, although the files are newer than the dataset (first: \
                 `{first}`)"
            )
        });
        other.into_iter().chain(younger).map(Note::new).collect()
    }
}

/// Returns the modification time of a file in ns since 1970, or `None` if it is unknown, as for an object in a store.
fn written_ns(path: &Path) -> Option<i64> {
    let time = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(time.as_nanos()).ok()
}

struct HeldSample<'a> {
    opened: &'a Dataset,
    shard: &'a Shard,
    record: u64,
    index: u64,
    written_ns: Option<i64>,
    are_compared: bool,
}

impl HeldSample<'_> {
    fn scalar(&self, name: &str) -> Option<Scalar> {
        let (position, dtype) = self.shard.schema().scalar_position(name)?;
        Scalar::from_bytes(dtype, self.shard.index().scalar(self.record, position)?)
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.scalar(name)? {
            Scalar::Unsigned(value) => Some(value),
            _ => None,
        }
    }

    fn has(&self, name: &str, kind: FieldKind) -> bool {
        self.shard.schema().fields().iter().any(|field| field.name == name && field.kind == kind)
    }

    /// Compares the label, columns, mask and size of `entry` with this sample. If the picture was stored
    /// unchanged, also compares its bytes. Comparing any other content would take as long as packing it.
    fn compare(&self, listing: &Listing, position: usize, entry: &SourceSample) -> crate::Result<Difference> {
        let differs = |what: &str, there: String, came: String| {
            Ok(Difference::Of(format!("{what}{there} in the dataset, but {came} in the new sample")))
        };
        if let Some(class) = entry.class
            && let Some(Scalar::Signed(label)) = self.scalar("label")
            && label != i64::from(class)
        {
            let name = |number: Option<usize>| {
                let name = number.and_then(|number| listing.classes.get(number));
                name.map_or_else(|| "no class".to_owned(), |name| format!("`{}`", short(name)))
            };
            return differs("label ", name(usize::try_from(label).ok()), name(usize::try_from(class).ok()));
        }
        for column in &listing.columns {
            if let Some((there, came)) = self.column(&column.name, &column.values, position)? {
                let what = format!("column `{}`: ", short(&column.name));
                return differs(&what, there, came);
            }
        }
        if self.are_compared && self.has("mask", FieldKind::Array) {
            let has_mask = self.opened.get(self.index)?.view().field("mask")?.is_some();
            let words = |has| if has { "a mask" } else { "no mask" }.to_owned();
            if has_mask != entry.mask.is_some() {
                return differs("", words(has_mask), words(entry.mask.is_some()));
            }
        }
        match &entry.content {
            SampleContent::Picture(_) => self.compare_picture(listing, entry),
            SampleContent::Cube(info) => {
                let shape = ["height", "width", "channels"].map(|axis| self.number(axis).unwrap_or_default());
                let text = |[height, width, channels]: [u64; 3]| format!("{height} × {width} × {channels}");
                Ok(match shape == info.shape {
                    true => Difference::NotCompared,
                    false => Difference::Of(format!(
                        "a cube of {} in the dataset, but {} in the new sample",
                        text(shape),
                        text(info.shape)
                    )),
                })
            }
        }
    }

    fn is_older(&self, entry: &SourceSample) -> bool {
        let beside = [&entry.data, &entry.mask, &entry.meta].into_iter().flatten().map(|file| &**file);
        let newest = beside.chain(&entry.frames).map(|file| file.mtime_ns).chain([entry.mtime_ns]).max();
        self.written_ns.zip(newest).is_some_and(|(written, newest)| newest > written)
    }

    fn column(&self, name: &str, values: &ColumnValues, position: usize) -> crate::Result<Option<(String, String)>> {
        let came = match values {
            ColumnValues::Bool(values) => values.get(position).map(|&value| Scalar::Bool(value)),
            ColumnValues::Int(values) => values.get(position).map(|&value| Scalar::Signed(value)),
            ColumnValues::Float(values) => values.get(position).map(|&value| Scalar::Float(value)),
            ColumnValues::Text(_) | ColumnValues::Json(_) if !self.are_compared => return Ok(None),
            ColumnValues::Text(texts) | ColumnValues::Json(texts) => {
                let sample = self.opened.get(self.index)?;
                let view = sample.view();
                let there = view.field(name)?.map(|field| field.bytes).unwrap_or_default();
                let came = texts.get(position).unwrap_or_default();
                let quoted = |text: &str| format!("`{}`", short(text));
                return Ok((there != came.as_bytes()).then(|| (quoted(&String::from_utf8_lossy(there)), quoted(came))));
            }
        };
        let (there, came) = (scalar_words(self.scalar(name)), scalar_words(came));
        Ok((there != came).then_some((there, came)))
    }

    fn compare_picture(&self, listing: &Listing, entry: &SourceSample) -> crate::Result<Difference> {
        let bytes = |there: u64, came: u64| {
            Difference::Of(format!("a picture of {there} bytes in the dataset, but {came} bytes in the new sample"))
        };
        if let Some(there) = self.number("image.source_bytes")
            && there != entry.bytes
        {
            return Ok(bytes(there, entry.bytes));
        }
        let frames = entry.frames.len() as u64;
        if let Some(there) = self.number("image.frames")
            && there != frames
        {
            return Ok(Difference::Of(format!(
                "a clip of {there} frames in the dataset, but {frames} in the new sample"
            )));
        }
        // Only values stored unchanged can be compared with a file.
        let is_changed = self.number("image.tiles_per_row").is_some_and(|tiles| tiles > 0);
        if !self.are_compared || is_changed || frames > 0 || entry.content.picture().is_none() {
            return Ok(Difference::NotCompared);
        }
        let sample = self.opened.get(self.index)?;
        let view = sample.view();
        let there = view.field("image")?.map(|field| field.bytes).unwrap_or_default();
        if there.len() as u64 != entry.bytes {
            return Ok(bytes(there.len() as u64, entry.bytes));
        }
        let mut came = vec![0; there.len()];
        listing.read_into(entry, &mut came)?;
        Ok(match there == came {
            true => Difference::None,
            false => Difference::Of("the dataset has a different picture of the same size".to_owned()),
        })
    }
}
