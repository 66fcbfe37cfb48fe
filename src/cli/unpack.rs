//! `shardpack unpack`: the samples as files again.

use super::args::UnpackArgs;
use super::progress::Bar;
use super::{Outcome, interrupt, open, show, units};
use crate::export;
use anyhow::{Context, anyhow};
use serde_json::{Map, Value, json};
use shardpack_codec::ArrayDecoder;
use shardpack_format::{FieldKind, Limits, check_key};
use shardpack_reader::{Dataset, RecordView, Sample};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of records that wait for a worker, at most.
const QUEUE: usize = 8;

pub(super) fn run(args: &UnpackArgs) -> anyhow::Result<Outcome> {
    let limits = open::limits(args.max_record);
    let dataset = open::dataset(&args.dataset, &limits)?;
    let interrupt = interrupt::install(true)?;
    let cancel = &interrupt.raised;
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot create `{}`", args.dir.display()))?;
    let start = Instant::now();
    let bar = Bar::new("unpack", dataset.shards().map(|s| s.bytes).sum());
    let work = Unpacker { dir: &args.dir, limits: &limits, files: AtomicU64::new(0), bytes: AtomicU64::new(0) };
    let threads = args.threads.unwrap_or_else(open::all_cores).max(1);
    let (send, receive) = crossbeam_channel::bounded::<Sample>(QUEUE);
    let done = std::thread::scope(|scope| -> anyhow::Result<u64> {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let receive = receive.clone();
                let work = &work;
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut decoder = ArrayDecoder::new();
                    receive.iter().try_for_each(|sample| work.write(&sample.view(), &mut decoder))
                })
            })
            .collect();
        drop(receive);
        let mut samples = 0;
        let mut bytes = 0;
        let mut failure = None;
        for sample in dataset.iter()? {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            let sample = match sample {
                Ok(sample) => sample,
                Err(e) => {
                    failure =
                        Some(anyhow!(e).context("cannot read a sample; `shardpack verify` lists all that are hurt"));
                    break;
                }
            };
            bytes += sample.record_bytes().len() as u64;
            samples += 1;
            // No worker left: one of them failed, and says why when it is joined.
            if send.send(sample).is_err() {
                break;
            }
            bar.read(samples, bytes);
        }
        drop(send);
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a worker thread panicked: this is a bug of shardpack"))??;
        }
        failure.map_or(Ok(samples), Err)
    });
    bar.finish();
    let samples = done?;
    if cancel.load(Ordering::Relaxed) {
        show::note(&format!("interrupted after {}", units::plural(samples, "sample")));
        return Ok(Outcome::Interrupted);
    }
    write_table(&dataset, &args.dir)?;
    let (files, bytes) = (work.files.into_inner(), work.bytes.into_inner());
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        show::json(&json!({ "samples": samples, "files": files, "bytes_out": bytes, "seconds": seconds }))?;
    } else {
        let rate = units::rate(bytes, seconds);
        let samples = units::plural(samples, "sample");
        let files = units::plural(files, "file");
        let (size, time) = (units::bytes(bytes), units::seconds(seconds));
        show::print(&format!("unpacked {samples} into {files}: {size} in {time} ({rate})\n"))?;
    }
    Ok(Outcome::Fine)
}

struct Unpacker<'a> {
    dir: &'a Path,
    limits: &'a Limits,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Unpacker<'_> {
    fn write(&self, view: &RecordView<'_>, decoder: &mut ArrayDecoder) -> anyhow::Result<()> {
        let mut seen: Vec<FieldKind> = Vec::new();
        for field in view.schema().stored() {
            let first = !seen.contains(&field.kind);
            seen.push(field.kind);
            // Text fields come from a table of labels and go back into one.
            let Some(value) = view.field(&field.name)?.filter(|_| field.kind != FieldKind::Text) else { continue };
            let content =
                export::content(field.kind, &value, decoder, self.limits).map_err(|e| e.in_sample(view.key()))?;
            let path = self.place(&export::file_name(view.key(), &field.name, field.kind, first))?;
            let write = || -> std::io::Result<()> {
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                content.write_to(&mut File::options().write(true).create_new(true).open(&path)?)
            };
            write().with_context(|| format!("cannot write `{}` for sample `{}`", path.display(), view.key()))?;
            self.files.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(content.len(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// A path below the folder. The key was checked when the record was parsed; here once more, with what another system takes for a separator.
    fn place(&self, name: &str) -> anyhow::Result<PathBuf> {
        check_key(name)?;
        if cfg!(windows) && name.contains(['\\', ':']) {
            anyhow::bail!("sample key: expected a name without \\ and :, found `{}`", name.escape_debug());
        }
        Ok(self.dir.join(name))
    }
}

/// Writes `labels.jsonl` where the dataset was packed with a table of labels: one line for each sample, as `--labels` reads it.
fn write_table(dataset: &Dataset, dir: &Path) -> anyhow::Result<()> {
    let columns = match dataset.recipe().get("labels").and_then(|l| l.get("columns")).and_then(Value::as_array) {
        Some(columns) => columns.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
        None => return Ok(()),
    };
    let path = dir.join("labels.jsonl");
    let file = File::options().write(true).create_new(true).open(&path);
    let mut out = BufWriter::new(file.with_context(|| format!("cannot create `{}`", path.display()))?);
    let mut stream = dataset.stream()?;
    while let Some(record) = stream.next_record() {
        let view = record?;
        let mut row = Map::new();
        row.insert("key".into(), json!(view.key()));
        for name in &columns {
            let value = match view.schema().scalar_position(name) {
                Some(_) => {
                    let value = view.scalar(name)?;
                    let class = dataset.classes().filter(|_| *name == "label").zip(value.as_i64());
                    let class = class.and_then(|(classes, id)| classes.get(usize::try_from(id).ok()?));
                    class.map_or_else(|| show::scalar(value), |name| json!(name))
                }
                None => match view.field(name)? {
                    Some(v) => {
                        let limits = Limits::default();
                        let text = shardpack_codec::decode_bytes(v.codec, v.bytes, v.decoded_bytes, &limits)?;
                        json!(String::from_utf8_lossy(&text))
                    }
                    None => Value::Null,
                },
            };
            row.insert((*name).to_owned(), value);
        }
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    out.flush().with_context(|| format!("cannot write `{}`", path.display()))
}
