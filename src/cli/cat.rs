//! `shardpack cat`: writes one field of one sample to a file or to stdout.

use super::args::CatArgs;
use super::exit_status::ExitStatus;
use super::refuse::refuse_url_to_write;
use super::{show, units};
use crate::read_limits;
use serde_json::{Map, Value, json};
use shardpack_format::{ArrayDescriptor, FieldKind, Hint, Limits, Note, Setting};
use shardpack_pack::export::{self, FileContent, Pending, Placed};
use shardpack_pack::{Context, bail};
use shardpack_reader::{ArrayDecoder, Dataset, RecordView};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

pub(super) fn run(args: &CatArgs) -> crate::Result<ExitStatus> {
    if let Some(output) = &args.output {
        refuse_url_to_write(output, "cat")?;
    }
    let dataset = args.dataset.open(args.max_record)?;
    let index = find(&dataset, &args.sample)?;
    let sample = dataset.get(index)?;
    let view = sample.view();
    if args.json {
        show::json(&describe(&view, &read_limits(args.max_record))?)?;
        return Ok(ExitStatus::Fine);
    }
    let name = match &args.field {
        Some(name) => name.as_str(),
        None => match dataset.schema().stored().next() {
            Some(field) => &field.name,
            None => {
                let hint = Hint::new("choose one of them with ").and([Setting::named("field")]);
                let text = "the dataset has only scalar fields, and `cat` shows none of them by default";
                bail!(Note::new(text).with_hint(hint))
            }
        },
    };
    let Some(field) = dataset.schema().fields().iter().find(|f| f.name == name) else {
        let names: Vec<&str> = dataset.schema().user_fields().map(|f| f.name.as_str()).collect();
        bail!("the dataset has no field `{}`: its fields are {}", show::plain(name), names.join(", "));
    };
    let content = match field.kind {
        FieldKind::Scalar => Some(FileContent::from(format!("{}\n", view.scalar(name)?))),
        _ => export::content(&view, field, &mut ArrayDecoder::new())?,
    };
    let Some(content) = content else {
        bail!("sample `{}` has no value for field `{name}`", show::plain(view.key()));
    };
    match args.output.as_deref() {
        Some(path) if path != Path::new("-") => write(path, &content)?,
        asked => {
            let binary = matches!(field.kind, FieldKind::Image | FieldKind::Array | FieldKind::Bytes)
                || content.is_hidden_text();
            if binary && asked.is_none() && io::stdout().is_terminal() {
                let hint = Hint::new("redirect stdout, or write to a file with ")
                    .and([Setting::any("output", "FILE")])
                    .then(" or to the terminal with ")
                    .and([Setting::any("output", "-")]);
                let text = format!("the field `{name}` is binary and cannot be shown in a terminal");
                bail!(Note::new(text).with_hint(hint));
            }
            let mut out = BufWriter::new(io::stdout().lock());
            content.write_to(&mut out)?;
            out.flush()?;
        }
    }
    Ok(ExitStatus::Fine)
}

/// Writes a new file completely or not at all. Writes directly to a device or a pipe.
fn write(path: &Path, content: &FileContent<'_>) -> crate::Result<()> {
    let failed = || format!("cannot write `{}`", path.display());
    match fs::metadata(path) {
        Ok(there) if there.is_file() => bail!("`{}` already exists and will not be overwritten", path.display()),
        Ok(_) => {
            let mut file = File::options().write(true).open(path).with_context(failed)?;
            return content.write_to(&mut file).with_context(failed);
        }
        Err(_) => {}
    }
    let written = Pending::create(path).and_then(|mut file| {
        content.write_to(&mut file)?;
        file.commit()
    });
    match written.with_context(failed)? {
        Placed::New | Placed::AlreadyThere => Ok(()),
        Placed::Occupied => bail!("`{}` already exists and will not be overwritten", path.display()),
    }
}

/// Returns the sample with this key or, if there is none and the text is a number, the sample with this index.
fn find(dataset: &Dataset, sample: &str) -> crate::Result<u64> {
    let found = match dataset.by_key(sample) {
        Ok(found) => found,
        Err(error) => return find_without_table(dataset, sample, error.into()),
    };
    match (found, sample.parse::<u64>()) {
        (Some(index), _) => Ok(index),
        (None, Ok(index)) if index < dataset.len() => Ok(index),
        (None, Ok(index)) => {
            let samples = units::plural(dataset.len(), "sample");
            bail!("there is no sample {index}: the dataset has {samples}, numbered from 0")
        }
        (None, Err(_)) => {
            let (name, len) = (show::plain(sample), dataset.len());
            let text = format!("`{name}` is neither the key of a sample nor an index below {len}");
            bail!(Note::new(text).with_hint(meant(dataset, sample)))
        }
    }
}

fn meant(dataset: &Dataset, sample: &str) -> String {
    let keys: Vec<String> = dataset.keys_like(sample).iter().map(|key| format!("`{}`", show::plain(key))).collect();
    match keys.is_empty() {
        true => "run `shardpack ls` to list the keys".to_owned(),
        false => format!("did you mean {}?", keys.join(" or ")),
    }
}

/// Finds a sample without the table of keys. The table cannot be built if a shard is unreadable or a key occurs
/// twice. Searches the keys of readable shards.
fn find_without_table(dataset: &Dataset, sample: &str, error: crate::Error) -> crate::Result<u64> {
    let (mut found, mut number_keys, mut first) = (Vec::new(), false, 0);
    for (number, info) in dataset.shards().enumerate() {
        if let Ok(shard) = dataset.shard(number) {
            for (record, key) in (0..shard.len()).filter_map(|record| Some((record, shard.index().key(record)?))) {
                number_keys |= key.parse::<u64>().is_ok();
                if key == sample {
                    found.push(first + record);
                }
            }
        }
        first += info.samples;
    }
    match (found.as_slice(), sample.parse::<u64>()) {
        (&[index], _) => Ok(index),
        ([], Ok(index)) if index < dataset.len() => {
            if number_keys {
                show::note(&format!(
                    "note: {index} was taken as an index; it could also be a key, because some keys are numbers and \
                     not all keys could be read"
                ));
            }
            Ok(index)
        }
        ([], _) => {
            let what = format!("found no sample `{}`, but not all keys could be read", show::plain(sample));
            Err(error.context(what))
        }
        _ => Err(error.context(format!("`{}` is the key of {} samples", show::plain(sample), found.len()))),
    }
}

fn describe(view: &RecordView<'_>, limits: &Limits) -> crate::Result<Value> {
    let mut fields = Map::new();
    for field in view.schema().user_fields() {
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
