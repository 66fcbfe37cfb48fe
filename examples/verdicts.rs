//! Reads paths from standard input, one a line, and says of each what the crates make of it: `ok` and the SHA-256 of its table of values, or
//! the kind of the error and its message. For the comparison with the independent reader in `tests/python/test_agreement.py`.
#![allow(missing_docs, clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::print_stdout)]

#[path = "../tests/plain/mod.rs"]
mod plain;

use sha2::{Digest as _, Sha256};
use std::io::BufRead as _;
use std::path::Path;

fn main() -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let result = plain::read(Path::new(&line?));
        let detail = match &result {
            Ok(lines) => Sha256::digest(lines.join("\n")).iter().map(|b| format!("{b:02x}")).collect(),
            Err(error) => error.to_string().replace('\n', " "),
        };
        println!("{}\t{detail}", plain::verdict(&result));
    }
    Ok(())
}
