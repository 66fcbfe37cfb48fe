//! Prints an overview of a dataset and of one of its samples.
//!
//! `cargo run --release -p shardpack-reader --example read -- DATASET [INDEX]`
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_format::FieldKind;
use shardpack_reader::Dataset;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dataset = Dataset::open(args.next().ok_or("usage: read DATASET [INDEX]")?)?;
    let index: u64 = args.next().map_or(Ok(0), |index| index.parse())?;
    println!("{} samples in {} shards", dataset.len(), dataset.shards().len());
    if let Some(classes) = dataset.classes() {
        // The indexes contain the labels, so this reads no records.
        println!("{} classes, {} labels", classes.len(), dataset.labels()?.len());
    }
    let sample = dataset.get(index)?;
    println!("sample {index} is `{}`", sample.key());
    for field in dataset.schema().user_fields() {
        let name = &field.name;
        match field.kind {
            FieldKind::Scalar => println!("  {name}: {:?}", sample.scalar(name)?),
            FieldKind::Array if sample.field(name)?.is_some() => {
                let array = sample.array(name)?;
                println!("  {name}: {:?} of {}", array.shape(), array.dtype());
            }
            kind => {
                let bytes = sample.field(name)?.map_or(0, |value| value.bytes.len());
                println!("  {name}: {kind:?}, {bytes} bytes as stored");
            }
        }
    }
    Ok(())
}
