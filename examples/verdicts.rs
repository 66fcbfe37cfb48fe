//! Reads paths from standard input, one per line, and prints the reader's verdict on each: `ok` and the
//! SHA-256 of its table of values, or the kind and text of the first problem.
//! `tests/python/test_agreement.py` compares the output with the independent reader.
#![allow(missing_docs, clippy::print_stdout)]

#[path = "../tests/reading/mod.rs"]
mod reading;

use sha2::{Digest as _, Sha256};
use std::io::BufRead as _;
use std::path::Path;

fn verdict(path: &Path) -> (&'static str, String) {
    let read = reading::verify(path).and_then(|report| match report.problems.first() {
        Some(problem) => Ok((problem.kind, problem.to_string())),
        None => {
            let digest = Sha256::digest(reading::values(path)?.join("\n"));
            Ok(("ok", digest.iter().map(|b| format!("{b:02x}")).collect()))
        }
    });
    read.unwrap_or_else(|error| ("unread", error.to_string()))
}

fn main() -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let (kind, detail) = verdict(Path::new(&line?));
        println!("{kind}\t{}", detail.replace('\n', " "));
    }
    Ok(())
}
