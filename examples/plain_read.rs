//! The baseline for `verify` and `bench`: reads files in order from beginning to end, and discards the bytes.
//!
//! `plain_read [--epochs N] FILE…` prints one line of JSON per epoch: `{"seconds": …, "bytes": …}`. It reads with one
//! thread into a buffer of 1 MiB, which stays in the CPU cache.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example program")]

use std::fs::File;
use std::hint::black_box;
use std::io::{Error, Read};
use std::time::Instant;

fn read_all(paths: &[String], buffer: &mut [u8]) -> Result<u64, Error> {
    let mut total = 0;
    for path in paths {
        let mut file = File::open(path)?;
        loop {
            let n = file.read(buffer)?;
            if n == 0 {
                break;
            }
            black_box(&mut *buffer);
            total += n as u64;
        }
    }
    Ok(total)
}

fn main() -> Result<(), Error> {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let mut epochs = 1;
    if paths.first().is_some_and(|a| a == "--epochs") {
        epochs = paths.get(1).and_then(|n| n.parse().ok()).ok_or_else(|| Error::other("--epochs needs a number"))?;
        paths.drain(..2);
    }
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..epochs {
        let start = Instant::now();
        let bytes = read_all(&paths, &mut buffer)?;
        println!("{{\"seconds\": {:.6}, \"bytes\": {bytes}}}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
