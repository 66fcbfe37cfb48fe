//! `shardpack cat`: one field of one sample, to a file or to stdout.

use super::args::CatArgs;
use super::{Outcome, open, show};
use crate::export;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use shardpack_codec::ArrayDecoder;
use shardpack_format::{ArrayDescriptor, FieldKind, Limits};
use shardpack_reader::{Dataset, RecordView};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

pub(super) fn run(args: &CatArgs) -> anyhow::Result<Outcome> {
    let limits = open::limits(args.max_record);
    let dataset = open::dataset(&args.dataset, &limits)?;
    let index = find(&dataset, &args.sample)?;
    let sample = dataset.get(index)?;
    let view = sample.view();
    if args.json {
        show::json(&describe(&view, &limits)?)?;
        return Ok(Outcome::Fine);
    }
    let name = match &args.field {
        Some(name) => name.as_str(),
        None => match dataset.schema().stored().next() {
            Some(field) => &field.name,
            None => bail!("the dataset has no stored field\nhint: name a scalar field with `--field`"),
        },
    };
    let Some(field) = dataset.schema().fields().iter().find(|f| f.name == name) else {
        let names: Vec<&str> = dataset.schema().fields().iter().map(|f| f.name.as_str()).collect();
        bail!("field: expected one of {}, found `{}`", names.join(", "), name.escape_debug());
    };
    if field.kind == FieldKind::Scalar {
        show::print(&format!("{}\n", view.scalar(name)?))?;
        return Ok(Outcome::Fine);
    }
    let Some(value) = view.field(name)? else {
        bail!("sample `{}` has no value for field `{name}`", view.key().escape_debug());
    };
    let content = export::content(field.kind, &value, &mut ArrayDecoder::new(), &limits)
        .map_err(|e| e.in_file(args.dataset.to_string_lossy()).in_sample(view.key()))?;
    match &args.output {
        Some(path) => {
            let file = File::options().write(true).create_new(true).open(path);
            let mut file = file.with_context(|| format!("cannot create `{}`", path.display()))?;
            content.write_to(&mut file).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        None => {
            let binary = !matches!(field.kind, FieldKind::Text | FieldKind::Json);
            if binary && io::stdout().is_terminal() {
                bail!("field `{name}` is binary\nhint: name a file with `--output`, or redirect stdout");
            }
            let mut out = BufWriter::new(io::stdout().lock());
            content.write_to(&mut out)?;
            out.flush()?;
        }
    }
    Ok(Outcome::Fine)
}

/// The sample with this key; else, if it is a number, the sample with this index.
fn find(dataset: &Dataset, sample: &str) -> anyhow::Result<u64> {
    if let Some(index) = dataset.by_key(sample)? {
        return Ok(index);
    }
    match sample.parse::<u64>() {
        Ok(index) if index < dataset.len() => Ok(index),
        Ok(index) => bail!("sample index: expected one below {}, found {index}", dataset.len()),
        Err(_) => bail!(
            "sample: expected a key of the dataset or an index below {}, found `{}`",
            dataset.len(),
            sample.escape_debug()
        ),
    }
}

/// Everything that can be said of a sample without decoding it.
fn describe(view: &RecordView<'_>, limits: &Limits) -> anyhow::Result<Value> {
    let mut fields = Map::new();
    for field in view.schema().fields() {
        let entry = match field.kind {
            FieldKind::Scalar => show::scalar(view.scalar(&field.name)?),
            kind => match view.field(&field.name)? {
                None => Value::Null,
                Some(value) => {
                    let mut entry = json!({
                        "codec": value.codec.name(),
                        "stored_bytes": value.bytes.len(),
                        "decoded_bytes": value.decoded_bytes,
                    });
                    match kind {
                        FieldKind::Image => entry["media_type"] = json!(String::from_utf8_lossy(value.descriptor)),
                        FieldKind::Array => {
                            let d = ArrayDescriptor::parse(value.descriptor, limits)?;
                            entry["dtype"] = json!(d.decoded);
                            entry["stored_dtype"] = json!(d.stored);
                            entry["shape"] = json!(d.shape);
                            entry["lossless"] = json!(d.is_lossless());
                            entry["no_data"] = json!(d.no_data);
                        }
                        _ => {}
                    }
                    entry
                }
            },
        };
        fields.insert(field.name.clone(), entry);
    }
    Ok(json!({
        "index": view.index(),
        "key": view.key(),
        "sample_id": view.sample_id(),
        "record_bytes": view.record_bytes().len(),
        "fields": fields,
    }))
}
