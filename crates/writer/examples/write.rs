//! Writes the lines of a text file as samples, with all threads. This uses the low-level interface, which takes a plan
//! and the bytes of each record. To add pictures and arrays sample by sample, use `shardpack_pack::collect` instead.
//!
//! `cargo run --release -p shardpack-writer --example write -- LINES.txt OUT`
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_format::{Field, FieldKind, Metadata, RecordBuilder, Schema, StoredField};
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

struct Lines {
    schema: Schema,
    lines: Vec<String>,
}

impl Lines {
    fn line(&self, sample: u64) -> &str {
        usize::try_from(sample).ok().and_then(|number| self.lines.get(number)).map_or("", String::as_str)
    }
}

impl SampleSource for Lines {
    type Tally = ();
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        format!("line-{sample:08}").into()
    }

    fn memory_bytes(&self, sample: u64) -> u64 {
        self.line(sample).len() as u64 + 256
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<()>, Self::Error> {
        let text = self.line(sample).as_bytes();
        let field = Some(StoredField::raw(text.len() as u64));
        let mut record = RecordBuilder::new(buffer, &self.schema, shard, sample, &self.key(sample), &[], &[field])?;
        record.field_mut(0).copy_from_slice(text);
        let (record, frame) = record.finish();
        let (scalars, source_bytes) = (Vec::new(), text.len() as u64);
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes, tally: () }))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(out)) = (args.next(), args.next()) else { return Err("usage: write LINES.txt OUT".into()) };
    let lines: Vec<String> = std::fs::read_to_string(file)?.lines().map(str::to_owned).collect();
    let source = Lines { schema: Schema::new(vec![Field::stored("text", FieldKind::Text)])?, lines };

    let keys: Vec<_> = (0..).zip(&source.lines).map(|(sample, line)| (source.key(sample), line.len() as u64)).collect();
    let samples = keys.iter().map(|(key, bytes)| PlanSample {
        key,
        source_bytes: *bytes,
        // A record is slightly larger than its text. The plan uses this size to decide where shards end.
        stored_bytes: bytes + 192,
        ..PlanSample::default()
    });
    let metadata = Metadata { schema: source.schema.clone(), ..Metadata::default() };
    let plan = Plan::new(samples, metadata, PlanOptions::default())?;
    // After an interruption, run the same command again to continue.
    let report = write_dataset(Path::new(&out), &plan, &source, &WriteOptions::default())?;
    println!("{:?}: {} samples in {out}", report.outcome, report.samples);
    Ok(())
}
