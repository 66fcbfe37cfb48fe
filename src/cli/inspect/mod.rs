//! `shardpack inspect`: prints facts about a dataset.

mod facts;
mod first;
mod segments;
mod span;

use super::args::InspectArgs;
use super::exit_status::ExitStatus;
use super::{show, summary, units};
use facts::Facts;
use segments::SegmentFacts;
use serde_json::{Map, Value, json};
use shardpack_format::AddedColumns;
use shardpack_pack::pack::is_figure;
use shardpack_reader::Dataset;
use span::Span;

/// Number of classes and shards shown in the text. `--json` lists all.
const SHOWN: usize = 8;

pub(super) fn run(args: &InspectArgs) -> crate::Result<ExitStatus> {
    let dataset = args.dataset.open(args.max_record)?;
    let facts = Facts::gather(&dataset);
    if args.json {
        show::json(&to_json(&facts, &dataset))?;
    } else {
        show::print(&to_text(&facts, &dataset, &args.dataset.path.display().to_string()))?;
    }
    if facts.problems.is_empty() {
        return Ok(ExitStatus::Fine);
    }
    show::hint(
        &"run `shardpack verify` to list all problems, or `shardpack salvage` to copy the undamaged samples (if no \
          manifest is undamaged, removed samples may come back)"
            .into(),
    );
    Ok(ExitStatus::Problem)
}

fn to_json(facts: &Facts, dataset: &Dataset) -> Value {
    let ranges: Map<String, Value> = facts
        .spans
        .iter()
        .filter_map(|s| s.range.map(|(min, max)| (s.field.name.clone(), json!([show::scalar(min), show::scalar(max)]))))
        .collect();
    let arrays: Map<String, Value> = facts.arrays.iter().map(|a| (a.field.clone(), a.to_json())).collect();
    let classes = dataset.classes().map(|names| {
        let count = |number: usize| facts.class_counts.as_ref().and_then(|counts| counts.get(number));
        let entries = names.iter().enumerate();
        entries.map(|(number, name)| json!({ "name": name, "samples": count(number) })).collect::<Vec<_>>()
    });
    let shards: Vec<Value> =
        dataset.shards().map(|s| json!({ "name": s.name, "bytes": s.bytes, "samples": s.samples })).collect();
    json!({
        "dataset_id": dataset.dataset_id().to_string(),
        "generation": dataset.generation(),
        "samples": dataset.len(),
        "bytes": facts.bytes,
        "record_bytes": facts.record_bytes.map(|(min, max)| json!({ "min": min, "max": max })),
        "schema": json!({ "fields": dataset.schema().user_fields().collect::<Vec<_>>() }),
        "added_columns": added_columns(dataset),
        "segment_index": facts.segments.as_ref().map(SegmentFacts::to_json),
        "ranges": ranges,
        "arrays": arrays,
        "wavelengths": facts.wavelengths.as_ref().map(|w| w.to_json()),
        "classes": classes,
        "recipe": dataset.recipe(),
        "fidelity": dataset.fidelity(),
        "shards": shards,
        "problems": facts.problems,
    })
}

fn added_columns(dataset: &Dataset) -> &[AddedColumns] {
    dataset.manifest().map(|manifest| manifest.columns.as_slice()).unwrap_or_default()
}

fn to_text(facts: &Facts, dataset: &Dataset, name: &str) -> String {
    let mut out = format!(
        "{name}: {} in {}, {}\n",
        units::plural(dataset.len(), "sample"),
        units::plural(dataset.shards().len() as u64, "shard"),
        units::bytes(facts.bytes)
    );
    let mut rows = vec![("dataset id", dataset.dataset_id().to_string())];
    if dataset.generation() > 1 {
        rows.push(("generation", dataset.generation().to_string()));
    }
    for columns in added_columns(dataset) {
        let names: Vec<String> = columns.schema.fields().iter().map(|field| show::plain(&field.name)).collect();
        let bytes = columns.files.iter().map(|file| file.bytes).sum();
        rows.push(("added columns", format!("{}: {} in columns files", names.join(", "), units::bytes(bytes))));
    }
    if let Some((min, max)) = facts.record_bytes {
        rows.push(("records", format!("{} to {}", units::bytes(min), units::bytes(max))));
    }
    if let Some(wavelengths) = &facts.wavelengths {
        rows.push(("wavelengths", wavelengths.to_text()));
    }
    if let Some(segments) = &facts.segments {
        rows.push(("segment index", segments.to_text()));
    }
    out += &show::pairs(&rows);
    out += &fields_text(facts, dataset);
    if let Some(classes) = dataset.classes() {
        out += &format!("\nclasses ({})\n", units::count(classes.len() as u64));
        let rows = classes.iter().take(SHOWN).enumerate();
        out += &match &facts.class_counts {
            Some(counts) => {
                let rows =
                    rows.zip(counts).map(|((i, name), n)| vec![i.to_string(), units::count(*n), show::plain(name)]);
                show::table(&["label", "samples", "name"], &rows.collect::<Vec<_>>())
            }
            None => {
                let rows = rows.map(|(i, name)| vec![i.to_string(), show::plain(name)]);
                show::table(&["label", "name"], &rows.collect::<Vec<_>>())
            }
        };
        out += &more(classes.len());
    }
    out += "\nrecipe\n";
    let recipe: Vec<(&str, String)> =
        dataset.recipe().iter().map(|(k, v)| (k.as_str(), summary::recipe_value(v))).collect();
    out += &show::pairs(&recipe);
    if let Some(figures) = dataset.fidelity().filter(|f| !f.is_empty()) {
        for (field, figures) in figures {
            out += &format!("\nfidelity of `{}`, compared with its source\n", show::plain(field));
            out += &summary::fidelity_text(figures);
        }
    }
    out += "\nshards\n";
    let rows = dataset.shards().take(SHOWN);
    out += &show::table(
        &["name", "samples", "bytes"],
        &rows.map(|s| vec![s.name, units::count(s.samples), units::bytes(s.bytes)]).collect::<Vec<_>>(),
    );
    out += &more(dataset.shards().len());
    if !facts.problems.is_empty() {
        out += &problems_text(facts, dataset.shards().len());
    }
    out
}

/// Describes the fields. Leaves out the fidelity figures, because they have their own section.
fn fields_text(facts: &Facts, dataset: &Dataset) -> String {
    let schema = dataset.schema();
    let fields = schema.user_fields().filter(|f| !is_figure(schema, &f.name));
    let rows: Vec<Vec<String>> = fields
        .map(|field| {
            if let Some(array) = facts.arrays.iter().find(|a| a.field == field.name) {
                return vec![field.name.clone(), "array".into(), array.shape_text(), array.stored_text()];
            }
            let span = facts.spans.iter().find(|s| s.field.name == field.name);
            vec![
                field.name.clone(),
                field.dtype.map_or_else(|| field.kind.to_string(), |d| d.name().to_owned()),
                span.map_or_else(String::new, Span::text),
            ]
        })
        .collect();
    let header: &[&str] = match facts.arrays.is_empty() {
        true => &["name", "type", "range"],
        false => &["name", "type", "range or shape", "first sample"],
    };
    format!("\nfields\n{}", show::table(header, &rows))
}

fn problems_text(facts: &Facts, shards: usize) -> String {
    let mut out = match facts.unreadable_shards {
        0 => "\nproblems\n".to_owned(),
        n => format!(
            "\nproblems: {} of {} cannot be read; the ranges and class counts above do not include {}\n",
            units::count(n),
            units::plural(shards as u64, "shard"),
            if n == 1 { "it" } else { "them" },
        ),
    };
    for problem in facts.problems.iter().take(SHOWN) {
        out += &format!("  {}\n", problem.replace('\n', "\n  "));
    }
    out + &more(facts.problems.len())
}

fn more(len: usize) -> String {
    match len.saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!("  … and {} more (--json lists all)\n", units::count(n as u64)),
    }
}
