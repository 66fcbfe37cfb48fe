//! `shardpack ls`: lists a dataset's samples, one per line, from its indexes.

use super::args::LsArgs;
use super::exit_status::ExitStatus;
use super::show;
use glob::Pattern;
use serde_json::{Map, Value};
use shardpack_format::{Dtype, Note, visible_json};
use shardpack_pack::{Context, bail};
use shardpack_reader::{Dataset, Scalar, Shard};
use std::cmp::Ordering;
use std::io::{self, BufWriter, Write};

pub(super) fn run(args: &LsArgs) -> crate::Result<ExitStatus> {
    let dataset = args.dataset.open(crate::MAX_RECORD_BYTES)?;
    let pattern = args.keys.as_deref().map(Pattern::new).transpose().map_err(crate::Error::other);
    let pattern = pattern
        .with_context(|| format!("`--keys`: `{}` is not a valid pattern", args.keys.as_deref().unwrap_or_default()))?;
    let conditions: Vec<Condition> =
        args.r#where.iter().map(|text| Condition::parse(text, &dataset)).collect::<Result<_, _>>()?;
    let columns: Vec<IndexColumn> = args
        .columns
        .iter()
        .map(|name| IndexColumn::find(name, &dataset).context("--columns"))
        .collect::<Result<_, _>>()?;
    // Write line by line, and keep only one shard's index in memory. Stop writing if the reader closes the pipe.
    let mut out = BufWriter::new(io::stdout().lock());
    if !columns.is_empty() && !args.json {
        let names: Vec<&str> = args.columns.iter().map(String::as_str).collect();
        writeln!(out, "key\t{}", names.join("\t"))?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut first = 0;
    for number in 0..dataset.shards().count() {
        if left == 0 {
            break;
        }
        let shard = dataset.shard(number)?;
        for record in 0..shard.len() {
            let key = shard.index().key(record).unwrap_or_default();
            let sample = IndexedSample { dataset: &dataset, shard: &shard, number, record, index: first + record };
            if left == 0 {
                break;
            }
            if pattern.as_ref().is_some_and(|pattern| !pattern.matches(key))
                || !conditions.iter().all(|condition| condition.holds(&sample))
            {
                continue;
            }
            left -= 1;
            if args.json {
                let mut line = Map::new();
                line.insert("key".into(), key.into());
                line.extend(
                    args.columns.iter().zip(&columns).map(|(name, column)| (name.clone(), column.value(&sample))),
                );
                writeln!(out, "{}", visible_json(&serde_json::to_string(&line)?))?;
                continue;
            }
            write!(out, "{}", show::plain(key))?;
            for column in &columns {
                let text = match column.value(&sample) {
                    Value::String(text) => show::plain(&text),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                write!(out, "\t{text}")?;
            }
            writeln!(out)?;
        }
        first += shard.len();
    }
    out.flush()?;
    Ok(ExitStatus::Fine)
}

struct IndexedSample<'a> {
    dataset: &'a Dataset,
    shard: &'a Shard,
    number: usize,
    record: u64,
    index: u64,
}

enum IndexColumn {
    Scalar(usize, Dtype),
    Class,
    /// Index of the sample in stored order.
    Index,
    /// Size of the record in bytes.
    Bytes,
    Shard,
}

const OTHERS: [&str; 4] = ["class", "index", "bytes", "shard"];

impl IndexColumn {
    fn find(name: &str, dataset: &Dataset) -> crate::Result<Self> {
        if let Some((position, dtype)) = dataset.schema().scalar_position(name) {
            return Ok(Self::Scalar(position, dtype));
        }
        match name {
            "class" if dataset.classes().is_some() && dataset.schema().scalar_position("label").is_some() => {
                Ok(Self::Class)
            }
            "index" => Ok(Self::Index),
            "bytes" => Ok(Self::Bytes),
            "shard" => Ok(Self::Shard),
            _ => {
                let scalars = dataset.schema().scalars().map(|(name, _)| name);
                let names: Vec<String> =
                    scalars.chain(OTHERS).filter(|known| *known != name).map(show::plain).collect();
                bail!("the dataset has no column `{}`: choose from {}", show::plain(name), names.join(", "))
            }
        }
    }

    fn value(&self, sample: &IndexedSample<'_>) -> Value {
        match self {
            Self::Scalar(position, dtype) => {
                scalar(sample.shard, *position, *dtype, sample.record).map_or(Value::Null, show::scalar)
            }
            Self::Class => class_of(sample).map_or(Value::Null, Value::from),
            Self::Index => sample.index.into(),
            Self::Bytes => sample.shard.row(sample.record).map_or(Value::Null, |row| row.length.into()),
            Self::Shard => {
                sample.dataset.shards().nth(sample.number).map_or(Value::Null, |shard| shard.name.as_str().into())
            }
        }
    }
}

fn scalar(shard: &Shard, position: usize, dtype: Dtype, record: u64) -> Option<Scalar> {
    Scalar::from_bytes(dtype, shard.index().scalar(record, position)?)
}

fn class_of<'a>(sample: &IndexedSample<'a>) -> Option<&'a str> {
    let (position, dtype) = sample.dataset.schema().scalar_position("label")?;
    let label = scalar(sample.shard, position, dtype, sample.record)?.as_i64()?;
    sample.dataset.classes()?.get(usize::try_from(label).ok()?).map(String::as_str)
}

/// A condition such as `label=3`, `class=ant` or `height>=256`.
struct Condition {
    column: IndexColumn,
    comparison: Comparison,
    value: Operand,
}

enum Operand {
    Number(f64),
    Text(String),
}

/// Returns true if the order of the value and the operand meets the condition.
type Comparison = fn(Ordering) -> bool;

/// Comparison operators. Longer ones come first, because `<=` starts with `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("!=", Ordering::is_ne),
    ("<=", Ordering::is_le),
    (">=", Ordering::is_ge),
    ("=", Ordering::is_eq),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

/// Lists the classes whose names contain `given`, ignoring case.
fn meant(classes: &[String], given: &str) -> String {
    let given = given.to_lowercase();
    let like = classes.iter().filter(|class| class.to_lowercase().contains(&given)).take(3);
    let like: Vec<String> = like.map(|class| format!("`{}`", show::plain(class))).collect();
    match like.is_empty() {
        true => "run `shardpack inspect --json` to list the classes".to_owned(),
        false => format!("did you mean {}?", like.join(" or ")),
    }
}

impl Condition {
    fn parse(text: &str, dataset: &Dataset) -> crate::Result<Self> {
        let at = text.find(['!', '<', '>', '=']);
        let parsed = at.and_then(|at| {
            let (name, rest) = text.split_at(at);
            let (word, comparison) = COMPARISONS.into_iter().find(|(word, _)| rest.starts_with(word))?;
            Some((name.trim(), comparison, rest.strip_prefix(word)?.trim()))
        });
        let Some((name, comparison, value)) = parsed.filter(|(name, _, value)| !name.is_empty() && !value.is_empty())
        else {
            bail!("--where: expected a condition such as `class=ant` or `height>=256`, found `{}`", show::plain(text));
        };
        let is_number = value.parse::<f64>().is_ok_and(|number| !number.is_nan());
        let name = if name == "label" && !is_number && dataset.classes().is_some() { "class" } else { name };
        let column = IndexColumn::find(name, dataset).context("--where")?;
        let value = match (&column, value) {
            (IndexColumn::Class | IndexColumn::Shard, text) => Operand::Text(text.to_owned()),
            (IndexColumn::Scalar(_, Dtype::Bool), "true") => Operand::Number(1.0),
            (IndexColumn::Scalar(_, Dtype::Bool), "false") => Operand::Number(0.0),
            (_, number) if is_number => Operand::Number(number.parse().map_err(crate::Error::other)?),
            _ => bail!("--where: expected a number for `{}`, found `{}`", show::plain(name), show::plain(value)),
        };
        if let (IndexColumn::Class, Operand::Text(class), Some(classes)) = (&column, &value, dataset.classes())
            && !classes.contains(class)
        {
            let text = format!("--where: the dataset has no class `{}`", show::plain(class));
            bail!(Note::new(text).with_hint(meant(classes, class)));
        }
        Ok(Self { column, comparison, value })
    }

    fn holds(&self, sample: &IndexedSample<'_>) -> bool {
        let order = match (&self.value, self.column.value(sample)) {
            (Operand::Text(wanted), Value::String(found)) => Some(found.as_str().cmp(wanted)),
            (Operand::Number(wanted), Value::Number(found)) => {
                found.as_f64().and_then(|found| found.partial_cmp(wanted))
            }
            (Operand::Number(wanted), Value::Bool(found)) => f64::from(u8::from(found)).partial_cmp(wanted),
            // A NaN equals no number, and a sample may have no class.
            _ => None,
        };
        order.is_some_and(self.comparison)
    }
}
