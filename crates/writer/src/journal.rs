//! The journal of a run, which lists its finished shards. It stays in the output folder until the manifest is written.
//!
//! The journal consists of JSON lines. Each begins with `{"crc32":"xxxxxxxx",`, the CRC32 of the rest of the line. The
//! first line describes the run. Every other line describes a finished shard, with everything that the manifest needs.
//! The journal ends at the first torn or damaged line. The shards of the damaged line and of all later lines are packed
//! again.

use crate::error::{Error, Result};
use crate::names::{journal_name, journal_temporary};
use crate::part::Part;
use crate::plan::{Fingerprint, OF_PROGRAM, Plan};
use crate::report::SkippedSample;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::{Hint, Limits, Metadata, Recipe, Setting, ShardEntry, bug, check_json, to_hex};
use shardpack_io::GrowingFile;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a journal. A million shards need less.
const MAX_BYTES: u64 = 4 << 30;
/// Maximum size of a line. The first line contains the metadata. Each other line contains the
/// skipped samples of a shard.
const MAX_LINE_BYTES: u64 = 128 << 20;

/// The first line of a journal. A run continues an earlier one only if their heads are equal. The heads of the parts of
/// a dataset may differ only in the modification times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalHead {
    /// Version of the packer. Another version may encode the same sample differently.
    packer: String,
    pub(crate) dataset_id: String,
    pub(crate) part: Option<Part>,
    samples: u64,
    shard_bytes: u64,
    shuffle: Option<u64>,
    inputs: String,
    mtimes: String,
    pub(crate) metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalEntry {
    pub(crate) number: u32,
    pub(crate) file: ShardEntry,
    pub(crate) source_bytes: u64,
    /// Tally of the samples in the shard, as JSON. Totals are always computed from this JSON, so that they are the same
    /// after an interruption.
    pub(crate) tally: Value,
    pub(crate) skipped: Vec<SkippedSample>,
}

impl JournalEntry {
    pub(crate) const fn shard(&self) -> (u32, &ShardEntry) {
        (self.number, &self.file)
    }
}

impl JournalHead {
    pub(crate) fn shards(&self) -> Result<u32> {
        let missing = || shardpack_format::Error::format("journal", "the number of shards", "none");
        self.metadata.shards.ok_or_else(|| missing().into())
    }

    pub(crate) fn new(plan: &Plan, part: Option<Part>) -> Self {
        let Fingerprint { dataset_id, options, samples, inputs, mtimes } = &plan.identity;
        Self {
            packer: env!("CARGO_PKG_VERSION").into(),
            dataset_id: dataset_id.to_string(),
            part,
            samples: *samples,
            shard_bytes: options.shard_bytes,
            shuffle: options.shuffle,
            inputs: to_hex(inputs),
            mtimes: to_hex(mtimes),
            metadata: plan.metadata().clone(),
        }
    }

    /// True if the samples come from a program and are therefore lost when it ends.
    pub(crate) fn is_of_program(&self) -> bool {
        self.mtimes == to_hex(&OF_PROGRAM)
    }

    /// Returns the first difference between two heads. Ignores the part and the modification times, which differ
    /// between the machines' copies of the sources.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let differ = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| {
            let (a, b) = (a.to_string(), b.to_string());
            (a != b).then(|| Difference { what: what.to_owned(), values: Some((a, b)) })
        };
        let unequal = |what: &str, equal: bool| (!equal).then(|| Difference { what: what.to_owned(), values: None });
        let seed = |s: Option<u64>| s.map_or("none".to_owned(), |s| s.to_string());
        differ("version of shardpack", &self.packer, &other.packer)
            .or_else(|| differ("shard size in bytes", &self.shard_bytes, &other.shard_bytes))
            .or_else(|| differ("shuffle seed", &seed(self.shuffle), &seed(other.shuffle)))
            .or_else(|| self.recipe_difference(other))
            .or_else(|| differ("number of samples", &self.samples, &other.samples))
            .or_else(|| unequal("names, sizes or labels in the sources", self.inputs == other.inputs))
            .or_else(|| unequal("contents of the sources", self.metadata.recipe == other.metadata.recipe))
            .or_else(|| unequal("schema or classes", self.metadata == other.metadata))
            .or_else(|| differ("dataset id", &self.dataset_id, &other.dataset_id))
    }

    /// Same as `difference`, but also compares the modification times, because the sources must be unchanged.
    pub(crate) fn difference_on_resume(&self, begun: &Self) -> Option<Difference> {
        let times = || Difference { what: "modification times of the sources".into(), values: None };
        self.difference(begun).or_else(|| (self.mtimes != begun.mtimes).then(times))
    }

    fn recipe_difference(&self, other: &Self) -> Option<Difference> {
        recipe_difference(&self.metadata.recipe, &other.metadata.recipe)
    }
}

/// Returns the first option that differs. Ignores values that the packer measured on samples.
pub(crate) fn recipe_difference(mut a: &Recipe, mut b: &Recipe) -> Option<Difference> {
    let mut name = differing(a, b)?;
    // Related options are grouped, so look for the difference inside the groups.
    while let (Some(inner_a), Some(inner_b)) = (group(a.get(name)), group(b.get(name)))
        && let Some(inner) = differing(inner_a, inner_b)
    {
        (a, b, name) = (inner_a, inner_b, inner);
    }
    let show = |v: Option<&Value>| v.map_or_else(|| "absent".to_owned(), shown);
    Some(Difference { what: format!("setting of `{name}`"), values: Some((show(a.get(name)), show(b.get(name)))) })
}

/// Returns the options of a group. If it contains both the requested options (`asked`) and the effective ones, returns
/// only the requested ones.
fn group(value: Option<&Value>) -> Option<&Map<String, Value>> {
    let all = value?.as_object()?;
    all.get("asked").and_then(Value::as_object).or(Some(all))
}

fn differing<'a>(a: &'a Map<String, Value>, b: &'a Map<String, Value>) -> Option<&'a String> {
    let differs = |name: &&String| match (group(a.get(*name)), group(b.get(*name))) {
        (Some(inner_a), Some(inner_b)) => differing(inner_a, inner_b).is_some(),
        _ => a.get(*name) != b.get(*name),
    };
    a.keys().chain(b.keys()).find(differs)
}

const SHOWN: usize = 100;

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) what: String,
    /// Values of both runs, or `None` if only digests were compared, which mean nothing to the user.
    pub(crate) values: Option<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Journal {
    pub(crate) head: JournalHead,
    pub(crate) entries: BTreeMap<u32, JournalEntry>,
}

impl Journal {
    /// Reads a journal up to the first damaged line. Returns `None` if the first line is damaged, because the run then
    /// has no finished shards.
    pub(crate) fn read(target: &Target<'_>, name: &str) -> Result<Option<Self>> {
        let path = &target.file(name);
        let file = BufReader::new(target.open_shared(name)?.take(MAX_BYTES.saturating_add(1)));
        let mut lines = Lines { path, file, line: Vec::new(), bytes: 0 };
        let Some(head) = lines.next::<JournalHead>()? else { return Ok(None) };
        let limit = Limits::default().max_shards;
        if let Some(found) = head.metadata.shards.map(u64::from).filter(|&found| found > limit) {
            return Err(lines.over("shards", limit, found));
        }
        let mut entries = BTreeMap::new();
        while let Some(entry) = lines.next::<JournalEntry>()? {
            entries.insert(entry.number, entry);
        }
        Ok(Some(Self { head, entries }))
    }

    /// Rewrites the journal with its valid entries, and opens it for appending.
    pub(crate) fn begin(&self, target: &Target<'_>) -> Result<OpenJournal> {
        let name = journal_name(self.head.part);
        let mut bytes = line(&self.head)?;
        for entry in self.entries.values() {
            bytes.extend(line(entry)?);
        }
        target.replace_scratch(&name, &journal_temporary(self.head.part), &bytes)?;
        let path = target.scratch_file(&name);
        Ok(OpenJournal { file: target.append_scratch(&name)?, path, not_noted: Mutex::default() })
    }
}

/// Reads lines, keeping only one of them in memory at a time.
struct Lines<'a, R> {
    path: &'a Path,
    file: R,
    line: Vec<u8>,
    bytes: u64,
}

impl<R: BufRead> Lines<'_, R> {
    /// Returns the next line, or `None` at the end or if the line is torn or damaged.
    fn next<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>> {
        self.line.clear();
        let mut limited = self.file.by_ref().take(MAX_LINE_BYTES.saturating_add(1));
        let read = limited.read_until(b'\n', &mut self.line).map_err(|e| Error::io("read", self.path, e))? as u64;
        self.bytes = self.bytes.saturating_add(read);
        if read > MAX_LINE_BYTES {
            return Err(self.over("bytes in one line", MAX_LINE_BYTES, read));
        }
        if self.bytes > MAX_BYTES {
            return Err(self.over("bytes", MAX_BYTES, self.bytes));
        }
        let Some(rest) = whole_line(&self.line) else { return Ok(None) };
        let object = format!("{{{rest}");
        // The memory of parsed JSON depends on the number of nodes, which is checked before any memory is allocated.
        let limits = Limits::default();
        let limits = Limits { max_json_depth: limits.max_json_depth.saturating_mul(2), ..limits };
        match check_json(object.as_bytes(), &limits) {
            Err(shardpack_format::Error::Limit { limit, found, .. }) => {
                Err(self.over("JSON values in one line", limit, found))
            }
            Err(_) => Ok(None),
            Ok(()) => Ok(serde_json::from_str(&object).ok()),
        }
    }

    fn over(&self, what: &str, limit: u64, found: u64) -> Error {
        let what = format!("journal `{}`: too many {what}", self.path.display());
        Error::Limit { what, limit, found, hint: Hint::new("use ").and([Setting::on("force")]).then(" to start over") }
    }
}

pub(crate) struct OpenJournal {
    file: Arc<dyn GrowingFile>,
    path: PathBuf,
    not_noted: Mutex<Vec<JournalEntry>>,
}

impl OpenJournal {
    pub(crate) fn add(&self, entry: &JournalEntry) -> Result<()> {
        let add = || {
            self.file.append(&line(entry)?).map_err(|e| Error::io("write", &self.path, e))?;
            self.file.sync().map_err(|e| Error::io("sync", &self.path, e))
        };
        add().inspect_err(|_| {
            self.not_noted.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
        })
    }

    /// Returns the entries of finished shards that could not be written to the journal.
    pub(crate) fn not_noted(self) -> Vec<JournalEntry> {
        self.not_noted.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let json = serde_json::to_string(value)
        .map_err(|e| Error::usage(format!("a line of the journal cannot be written as JSON: {e}"), ""))?;
    let rest = json.strip_prefix('{').unwrap_or_else(|| bug("a line that is a JSON object"));
    Ok(format!("{{\"crc32\":\"{:08x}\",{rest}\n", crc32fast::hash(rest.as_bytes())).into_bytes())
}

/// Returns the text after the checksum, or `None` if the line is torn or damaged.
fn whole_line(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, rest) = line.strip_prefix("{\"crc32\":\"")?.split_once("\",")?;
    (crc == format!("{:08x}", crc32fast::hash(rest.as_bytes()))).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recipe(codec: &str, measured: u64) -> Recipe {
        let cube =
            json!({ "asked": { "codec": codec }, "settings": measured, "candidates": [measured, "x".repeat(500)] });
        json!({ "kind": "cubes", "cube": cube }).as_object().unwrap().clone()
    }

    #[test]
    fn measured_values_are_not_options() {
        assert!(recipe_difference(&recipe("auto", 1), &recipe("auto", 2)).is_none());
        let found = recipe_difference(&recipe("auto", 1), &recipe("zstd", 2)).unwrap();
        assert_eq!(found.what, "setting of `codec`");
        assert_eq!(found.values, Some(("\"auto\"".to_owned(), "\"zstd\"".to_owned())));
        let mut other = recipe("auto", 1);
        other.remove("cube");
        let (shown, _) = recipe_difference(&recipe("auto", 1), &other).unwrap().values.unwrap();
        assert_eq!(shown.chars().count(), SHOWN + 1, "{shown}");
    }
}
