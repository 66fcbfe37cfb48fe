//! `shardpack ls`: the samples of a dataset, a line each, out of its indexes.

use super::args::LsArgs;
use super::outcome::Outcome;
use super::{open, show};
use crate::read_limits;
use anyhow::{Context, bail};
use glob::Pattern;
use serde_json::{Map, Value};
use shardpack_format::{Dtype, Hinted, visible_json};
use shardpack_reader::{Dataset, Scalar, Shard};
use std::cmp::Ordering;
use std::io::{self, BufWriter, Write};

pub(super) fn run(args: &LsArgs) -> anyhow::Result<Outcome> {
    let dataset = open::generation(&args.dataset, &read_limits(crate::MAX_RECORD_BYTES), args.generation, &args.from)?;
    let pattern = args.keys.as_deref().map(Pattern::new).transpose();
    let pattern = pattern.with_context(|| {
        format!("--keys: expected a pattern with *, ? and [a-z], found `{}`", args.keys.as_deref().unwrap_or_default())
    })?;
    let conditions: Vec<Condition> =
        args.r#where.iter().map(|text| Condition::parse(text, &dataset)).collect::<Result<_, _>>()?;
    let columns: Vec<Column> =
        args.columns.iter().map(|name| Column::find(name, &dataset).context("--columns")).collect::<Result<_, _>>()?;
    // Line by line: nothing is held but the index of a shard. A closed pipe ends it.
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
            let place = Place { dataset: &dataset, shard: &shard, number, record, index: first + record };
            if left == 0 {
                break;
            }
            if pattern.as_ref().is_some_and(|pattern| !pattern.matches(key))
                || !conditions.iter().all(|condition| condition.holds(&place))
            {
                continue;
            }
            left -= 1;
            if args.json {
                let mut line = Map::new();
                line.insert("key".into(), key.into());
                line.extend(
                    args.columns.iter().zip(&columns).map(|(name, column)| (name.clone(), column.value(&place))),
                );
                writeln!(out, "{}", visible_json(&serde_json::to_string(&line)?))?;
                continue;
            }
            write!(out, "{}", show::plain(key))?;
            for column in &columns {
                let text = match column.value(&place) {
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
    Ok(Outcome::Fine)
}

/// A record and where it is.
struct Place<'a> {
    dataset: &'a Dataset,
    shard: &'a Shard,
    number: usize,
    record: u64,
    index: u64,
}

/// Something that is known of every sample without reading its record.
enum Column {
    /// A scalar field: its place among the scalars, and its type.
    Scalar(usize, Dtype),
    /// The name of the class.
    Class,
    /// Number in stored order.
    Index,
    /// Bytes of the record.
    Bytes,
    /// Name of the shard's file.
    Shard,
}

/// What stands beside the scalar fields, where none of them has the name.
const OTHERS: [&str; 4] = ["class", "index", "bytes", "shard"];

impl Column {
    fn find(name: &str, dataset: &Dataset) -> anyhow::Result<Self> {
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
                let names: Vec<String> = scalars.chain(OTHERS).map(show::plain).collect();
                bail!("expected one of {}, found `{}`", names.join(", "), show::plain(name))
            }
        }
    }

    fn value(&self, place: &Place<'_>) -> Value {
        match self {
            Self::Scalar(position, dtype) => {
                scalar(place.shard, *position, *dtype, place.record).map_or(Value::Null, show::scalar)
            }
            Self::Class => class_of(place).map_or(Value::Null, Value::from),
            Self::Index => place.index.into(),
            Self::Bytes => place.shard.row(place.record).map_or(Value::Null, |row| row.length.into()),
            Self::Shard => {
                place.dataset.shards().nth(place.number).map_or(Value::Null, |shard| shard.name.as_str().into())
            }
        }
    }
}

fn scalar(shard: &Shard, position: usize, dtype: Dtype, record: u64) -> Option<Scalar> {
    Scalar::from_bytes(dtype, shard.index().scalar(record, position)?)
}

fn class_of<'a>(place: &Place<'a>) -> Option<&'a str> {
    let (position, dtype) = place.dataset.schema().scalar_position("label")?;
    let label = scalar(place.shard, position, dtype, place.record)?.as_i64()?;
    place.dataset.classes()?.get(usize::try_from(label).ok()?).map(String::as_str)
}

/// `label=3`, `class=ant`, `height>=256`.
struct Condition {
    column: Column,
    allowed: Allowed,
    value: Wanted,
}

enum Wanted {
    Number(f64),
    Text(String),
}

/// Whether an order of what is found and what is wanted will do.
type Allowed = fn(Ordering) -> bool;

/// Longer ones first: `<=` begins with `<`.
const COMPARISONS: [(&str, Allowed); 6] = [
    ("!=", Ordering::is_ne),
    ("<=", Ordering::is_le),
    (">=", Ordering::is_ge),
    ("=", Ordering::is_eq),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

/// What to do about a class that is not there: those whose names hold the one that was given.
fn meant(classes: &[String], given: &str) -> String {
    let given = given.to_lowercase();
    let like = classes.iter().filter(|class| class.to_lowercase().contains(&given)).take(3);
    let like: Vec<String> = like.map(|class| format!("`{}`", show::plain(class))).collect();
    match like.is_empty() {
        true => "`shardpack inspect --json` lists them".to_owned(),
        false => format!("did you mean {}?", like.join(" or ")),
    }
}

impl Condition {
    fn parse(text: &str, dataset: &Dataset) -> anyhow::Result<Self> {
        let at = text.find(['!', '<', '>', '=']);
        let parsed = at.and_then(|at| {
            let (name, rest) = text.split_at(at);
            let (word, allowed) = COMPARISONS.into_iter().find(|(word, _)| rest.starts_with(word))?;
            Some((name.trim(), allowed, rest.strip_prefix(word)?.trim()))
        });
        let Some((name, allowed, value)) = parsed.filter(|(name, _, value)| !name.is_empty() && !value.is_empty())
        else {
            bail!("--where: expected a condition such as `class=ant` or `height>=256`, found `{}`", show::plain(text));
        };
        // A label may be told by the name of its class.
        let is_number = value.parse::<f64>().is_ok_and(|number| !number.is_nan());
        let name = if name == "label" && !is_number && dataset.classes().is_some() { "class" } else { name };
        let column = Column::find(name, dataset).context("--where")?;
        let value = match (&column, value) {
            (Column::Class | Column::Shard, text) => Wanted::Text(text.to_owned()),
            (Column::Scalar(_, Dtype::Bool), "true") => Wanted::Number(1.0),
            (Column::Scalar(_, Dtype::Bool), "false") => Wanted::Number(0.0),
            (_, number) if is_number => Wanted::Number(number.parse()?),
            _ => bail!("--where: expected a number for `{}`, found `{}`", show::plain(name), show::plain(value)),
        };
        if let (Column::Class, Wanted::Text(class), Some(classes)) = (&column, &value, dataset.classes())
            && !classes.contains(class)
        {
            let text = format!("--where: expected a class of the dataset, found `{}`", show::plain(class));
            bail!(Hinted::new(text, meant(classes, class)));
        }
        Ok(Self { column, allowed, value })
    }

    fn holds(&self, place: &Place<'_>) -> bool {
        let order = match (&self.value, self.column.value(place)) {
            (Wanted::Text(wanted), Value::String(found)) => Some(found.as_str().cmp(wanted)),
            (Wanted::Number(wanted), Value::Number(found)) => {
                found.as_f64().and_then(|found| found.partial_cmp(wanted))
            }
            (Wanted::Number(wanted), Value::Bool(found)) => f64::from(u8::from(found)).partial_cmp(wanted),
            // NaN is no number, and a sample without a class has none.
            _ => None,
        };
        order.is_some_and(self.allowed)
    }
}
