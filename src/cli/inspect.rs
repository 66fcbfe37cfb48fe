//! `shardpack inspect`: what a dataset is, from manifest and indexes; no record is touched.

use super::args::InspectArgs;
use super::{Outcome, open, show, units};
use crate::pack::fidelity;
use serde_json::{Map, Value, json};
use shardpack_format::{Field, FieldKind};
use shardpack_reader::{Dataset, Scalar};

/// Classes and shards that the text names one by one; `--json` has them all.
const SHOWN: usize = 8;

pub(super) fn run(args: &InspectArgs) -> anyhow::Result<Outcome> {
    let dataset = open::dataset(&args.dataset, &open::limits(args.max_record))?;
    let facts = Facts::gather(&dataset)?;
    if args.json {
        show::json(&facts.to_json(&dataset))?;
    } else {
        show::print(&facts.to_text(&dataset, &args.dataset.display().to_string()))?;
    }
    Ok(Outcome::Fine)
}

/// Smallest and largest value of a scalar field.
struct Span {
    field: Field,
    range: Option<(Scalar, Scalar)>,
}

struct Facts {
    bytes: u64,
    record_bytes: (u64, u64),
    spans: Vec<Span>,
    /// Samples of each class.
    class_counts: Vec<u64>,
}

impl Facts {
    fn gather(dataset: &Dataset) -> anyhow::Result<Self> {
        let mut record_bytes = (u64::MAX, 0);
        for (number, info) in dataset.shards().enumerate() {
            let shard = dataset.shard(number)?;
            for record in 0..info.samples {
                let length = shard.row(record)?.length;
                record_bytes = (record_bytes.0.min(length), record_bytes.1.max(length));
            }
        }
        let mut spans = Vec::new();
        for field in dataset.schema().fields() {
            if field.kind != FieldKind::Scalar || fidelity::is_figure(&field.name) {
                continue;
            }
            let column = dataset.column(&field.name)?;
            let order = |a: &Scalar, b: &Scalar| a.as_f64().total_cmp(&b.as_f64());
            let range = column.values().min_by(order).zip(column.values().max_by(order));
            spans.push(Span { field: field.clone(), range });
        }
        let mut class_counts = Vec::new();
        if let Some(classes) = dataset.classes() {
            class_counts.resize(classes.len(), 0);
            for label in dataset.labels()? {
                if let Some(count) = usize::try_from(label).ok().and_then(|i| class_counts.get_mut(i)) {
                    *count += 1;
                }
            }
        }
        Ok(Self { bytes: dataset.shards().map(|s| s.bytes).sum(), record_bytes, spans, class_counts })
    }

    fn to_json(&self, dataset: &Dataset) -> Value {
        let ranges: Map<String, Value> = self
            .spans
            .iter()
            .filter_map(|s| {
                s.range.map(|(min, max)| (s.field.name.clone(), json!([show::scalar(min), show::scalar(max)])))
            })
            .collect();
        let classes = dataset.classes().map(|names| {
            let entries = names.iter().zip(&self.class_counts);
            entries.map(|(name, count)| json!({ "name": name, "samples": count })).collect::<Vec<_>>()
        });
        let shards: Vec<Value> =
            dataset.shards().map(|s| json!({ "name": s.name, "bytes": s.bytes, "samples": s.samples })).collect();
        json!({
            "dataset_id": dataset.dataset_id().to_string(),
            "samples": dataset.len(),
            "bytes": self.bytes,
            "record_bytes": { "min": self.smallest(), "max": self.record_bytes.1 },
            "schema": dataset.schema(),
            "ranges": ranges,
            "classes": classes,
            "recipe": dataset.recipe(),
            "fidelity": dataset.fidelity(),
            "shards": shards,
        })
    }

    fn smallest(&self) -> u64 {
        self.record_bytes.0.min(self.record_bytes.1)
    }

    fn to_text(&self, dataset: &Dataset, name: &str) -> String {
        let mut out = format!(
            "{name}: {} in {}, {}\n",
            units::plural(dataset.len(), "sample"),
            units::plural(dataset.shards().len() as u64, "shard"),
            units::bytes(self.bytes)
        );
        let records = format!("{} to {}", units::bytes(self.smallest()), units::bytes(self.record_bytes.1));
        out += &show::pairs(&[("dataset id", dataset.dataset_id().to_string()), ("records", records)]);
        out += "\nfields\n";
        let rows = dataset.schema().fields().iter().filter(|f| !fidelity::is_figure(&f.name)).map(|field| {
            let range = self.spans.iter().find(|s| s.field.name == field.name).and_then(|s| s.range);
            vec![
                field.name.clone(),
                field.dtype.map_or_else(|| kind_name(field.kind).to_owned(), |d| d.name().to_owned()),
                range.map_or_else(String::new, |(min, max)| format!("{min} to {max}")),
            ]
        });
        out += &show::table(&["name", "type", "range"], &rows.collect::<Vec<_>>());
        if let Some(classes) = dataset.classes() {
            out += &format!("\nclasses ({})\n", units::count(classes.len() as u64));
            let rows = classes.iter().zip(&self.class_counts).take(SHOWN);
            out += &show::table(
                &["label", "samples", "name"],
                &rows
                    .enumerate()
                    .map(|(i, (name, n))| vec![i.to_string(), units::count(*n), name.escape_debug().to_string()])
                    .collect::<Vec<_>>(),
            );
            out += &more(classes.len());
        }
        out += "\nrecipe\n";
        let recipe: Vec<(&str, String)> =
            dataset.recipe().iter().map(|(k, v)| (k.as_str(), super::summary::recipe_value(v))).collect();
        out += &show::pairs(&recipe);
        if let Some(figures) = dataset.fidelity().filter(|f| !f.is_empty()) {
            for (field, figures) in figures {
                out += &format!("\nfidelity of `{}`\n", field.escape_debug());
                out += &super::summary::fidelity_text(figures);
            }
        }
        out += "\nshards\n";
        let rows = dataset.shards().take(SHOWN);
        out += &show::table(
            &["name", "samples", "bytes"],
            &rows.map(|s| vec![s.name, units::count(s.samples), units::bytes(s.bytes)]).collect::<Vec<_>>(),
        );
        out += &more(dataset.shards().len());
        out
    }
}

fn more(len: usize) -> String {
    match len.saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!("  … and {} more (--json lists all)\n", units::count(n as u64)),
    }
}

fn kind_name(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Image => "image",
        FieldKind::Array => "array",
        FieldKind::Text => "text",
        FieldKind::Json => "json",
        FieldKind::Bytes => "bytes",
        _ => "scalar",
    }
}
